/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/branch_fs.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "volume/mount/branch_check.h"
#include "volume/mount/branch_tool.h"

static void probe_value(blkid_probe probe, const char *name, char *ret,
			size_t size)
{
	const char *value;

	if (blkid_probe_lookup_value(probe, name, &value, NULL) == 0)
		(void)snprintf(ret, size, "%s", value);
}

static int probe_run(blkid_probe probe, const char *device,
		     struct branch_probe *ret, struct error *err)
{
	char table[24] = "";
	int rc;

	(void)blkid_probe_enable_superblocks(probe, 1);
	(void)blkid_probe_set_superblocks_flags(
		probe,
		BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID | BLKID_SUBLKS_MAGIC);
	(void)blkid_probe_enable_partitions(probe, 1);
	errno = 0;
	rc = blkid_do_safeprobe(probe);
	if (rc == -2)
		return error_set(err, EUCLEAN,
				 "'%s' holds more than one kind of data",
				 device);
	if (rc < 0)
		return error_set(err, errno ? errno : EIO, "probe '%s': %s",
				 device, strerror(errno ? errno : EIO));
	if (rc > 0)
		return 0;
	ret->found = true;
	probe_value(probe, "TYPE", ret->type, sizeof(ret->type));
	probe_value(probe, "UUID", ret->uuid, sizeof(ret->uuid));
	probe_value(probe, "PTTYPE", table, sizeof(table));
	if (!ret->type[0])
		(void)snprintf(ret->type, sizeof(ret->type), "%.8s partitions",
			       table);
	return 0;
}

int branch_fs_probe(const char *device, struct branch_probe *ret,
		    struct error *err)
{
	struct branch_probe found = {0};
	blkid_probe probe = blkid_new_probe_from_filename(device);
	int r;

	if (!probe)
		return error_set(err, errno ? errno : EIO, "open '%s': %s",
				 device, strerror(errno ? errno : EIO));
	r = probe_run(probe, device, &found, err);
	blkid_free_probe(probe);
	if (r == 0)
		*ret = found;
	return r;
}

/*
 * The last line a program wrote, for the text of an error; where it goes on
 * to explain its usage (mkfs.xfs does after any mistake), the last before.
 */
static const char *last_line(char *text)
{
	char *newline, *usage = strstr(text, "\nUsage:");
	size_t length = usage ? (size_t)(usage - text) : strlen(text);

	while (length > 0 && text[length - 1] == '\n')
		length--;
	text[length] = '\0';
	newline = strrchr(text, '\n');
	return newline ? newline + 1 : text;
}

static int fs_run(const char *device, const char *const *argv, int cancel_fd,
		  int *ret_exit, char *ret_text, size_t size, struct error *err)
{
	struct process_result result;
	int r = branch_tool_run(device, argv, cancel_fd, &result, err);

	if (r < 0)
		return r;
	*ret_exit = result.exit_code;
	(void)snprintf(
		ret_text, size, "%s",
		last_line(result.errors[0] ? result.errors : result.out));
	process_result_done(&result);
	return 0;
}

static int fs_make(const char *device, const char *type, const char *uuid,
		   bool zeroed, int cancel_fd, struct error *err)
{
	char xfs_uuid[UUID_TEXT_SIZE + 8], text[256];
	const char *const ext4[] = {
		"mkfs.ext4",
		"-q",
		"-F",
		"-m",
		"0",
		"-U",
		uuid,
		"-E",
		zeroed ? "assume_storage_prezeroed=1,nodiscard"
		       : "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
		device,
		NULL};
	const char *const xfs[] = {"mkfs.xfs", "-q",     "-f",   "-K",
				   "-m",       xfs_uuid, device, NULL};
	int code, r;

	(void)snprintf(xfs_uuid, sizeof(xfs_uuid), "uuid=%s", uuid);
	r = fs_run(device, strcmp(type, "xfs") == 0 ? xfs : ext4, cancel_fd,
		   &code, text, sizeof(text), err);
	if (r < 0)
		return r;
	if (code != 0)
		return error_set(err, EIO, "mkfs.%s on '%s' failed: %s", type,
				 device, text);
	return 0;
}

/*
 * Marks of a file system whose mkfs was cut short, and that never was mounted.
 * Offsets in bytes: of the device for XFS (xfs_dsb.sb_inprogress), and for ext4
 * (s_mtime).
 */
#define XFS_IN_PROGRESS 126
#define EXT4_MTIME      (1024 + 0x2c)

static int never_held(const char *device, const char *type, bool *ret,
		      struct error *err)
{
	bool xfs = strcmp(type, "xfs") == 0;
	unsigned char bytes[4] = {0};
	ssize_t size = xfs ? 1 : (ssize_t)sizeof(bytes);
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, bytes, (size_t)size,
			    xfs ? XFS_IN_PROGRESS : EXT4_MTIME) != size)
		return error_set(err, EIO, "read '%s'", device);
	*ret = xfs ? bytes[0] != 0
		   : !(bytes[0] | bytes[1] | bytes[2] | bytes[3]);
	return 0;
}

/*
 * Check the file system that is there already, as it was to be made. 1: it is
 * to be made again.
 */
static int fs_keep(const char *device, const char *type, int cancel_fd,
		   struct error *err)
{
	const struct branch_check check = {
		.device = device, .type = type, .cancel_fd = cancel_fd};
	struct branch_found found;
	bool unused = false;
	int r = never_held(device, type, &unused, err);

	if (r < 0)
		return r;
	if (strcmp(type, "xfs") == 0)
		return unused;
	r = branch_check_mend(&check, &found, err);
	if (r < 0 || found.verdict != BRANCH_DAMAGED)
		return r;
	if (unused)
		return 1;
	return error_set(err, EUCLEAN,
			 "its own file system is there, but damaged (%s); "
			 "attach the extent alone (`trib attach --force`) and "
			 "run `e2fsck -f` on the device",
			 found.what);
}

int branch_fs_make(const char *device, const char *type, const char *uuid,
		   bool zeroed, int cancel_fd, struct error *err)
{
	struct branch_probe probe = {0};
	int r = branch_fs_probe(device, &probe, err);

	if (r < 0)
		return r;
	if (!probe.found)
		return fs_make(device, type, uuid, zeroed, cancel_fd, err);
	if (strcmp(probe.type, type) != 0 || strcmp(probe.uuid, uuid) != 0)
		return error_set(err, EUCLEAN,
				 "'%s' should be blank but holds %s %s; it was "
				 "not touched. If that may be lost, attach the "
				 "extent alone (`trib attach --force`) and run "
				 "`wipefs -a` on the device",
				 device, probe.type, probe.uuid);
	r = fs_keep(device, type, cancel_fd, err);
	return r > 0 ? fs_make(device, type, uuid, false, cancel_fd, err) : r;
}

int branch_fs_mount(const char *device, const char *type, const char *target,
		    bool read_only, const struct mount_options *options,
		    struct error *err)
{
	unsigned long flags = read_only ? MS_RDONLY : 0;
	const char *more = options ? options->data : "";
	char data[MOUNT_OPTIONS_MAX + 16];
	int r = dir_make(target, 0700, err);

	if (r < 0)
		return r;
	/* A clone has its source's UUID, and both may be mounted here. */
	(void)snprintf(data, sizeof(data), "%s%s%s",
		       strcmp(type, "xfs") == 0 ? "nouuid" : "",
		       strcmp(type, "xfs") == 0 && more[0] ? "," : "", more);
	if (mount(device, target, type, flags | (options ? options->flags : 0),
		  data[0] ? data : NULL) < 0)
		return error_set(err, errno, "mount '%s' at '%s'%s%s: %s",
				 device, target, data[0] ? " with " : "", data,
				 strerror(errno));
	return 0;
}

bool branch_fs_grows_mounted(const char *type)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	return strcmp(type, "ext4") != 0 ||
	       (syscall(SYS_capget, &header, data) == 0 &&
		(data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective &
		 CAP_TO_MASK(CAP_SYS_RESOURCE)));
}

int branch_fs_grow(const char *device, const char *type, const char *target,
		   int cancel_fd, struct error *err)
{
	const char *const ext4[] = {"resize2fs", device, NULL};
	const char *const xfs[] = {"xfs_growfs", "-d", target, NULL};
	const char *const *argv = strcmp(type, "xfs") == 0 ? xfs : ext4;
	char text[256];
	int code = 0, r;

	/* Unmounted, resize2fs moves data: half way is no place to stop. */
	r = fs_run(device, argv, target ? cancel_fd : -1, &code, text,
		   sizeof(text), err);
	if (r < 0 || code == 0)
		return r;
	return error_set(err, EIO, "%s of '%s' failed: %s", argv[0], device,
			 text);
}

int branch_fs_make_data(const char *target, struct error *err)
{
	auto_close int dir = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return error_set(err, errno, "open '%s': %s", target,
				 strerror(errno));
	if (mkdirat(dir, BRANCH_DATA_DIR, 0755) < 0 && errno != EEXIST)
		return error_set(err, errno, "make '%s/%s': %s", target,
				 BRANCH_DATA_DIR, strerror(errno));
	if (syncfs(dir) < 0)
		return error_set(err, errno, "sync '%s': %s", target,
				 strerror(errno));
	return 0;
}
