/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/publish_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "csi/call/capability.h"
#include "csi/kata/kata_record.h"
#include "csi/node/bind_mount.h"
#include "volume/extent/extents.h"
#include "volume/mount/local.h"
#include "volume/mount/union_process.h"

#define BUSY_MS      3000
#define BUSY_STEP_MS 20

bool publish_mount_is_ours(const struct csi *csi, const struct mount_info *info,
			   const char *volume)
{
	return (strcmp(info->fs_type, UNION_FS_TYPE) == 0 &&
		strcmp(info->source, volume) == 0) ||
	       local_is_of_device(csi->volumes, volume, info);
}

static uint64_t attributes_of(const publish_request *request)
{
	return capability_mount_attributes(request->volume_capability) |
	       (request->readonly ? MOUNT_ATTR_RDONLY : 0);
}

/* Tell whether the mount is the device of a block volume, of any. */
static bool publish_mount_is_device(const struct mount_info *info)
{
	struct stat st;

	return stat(info->target, &st) == 0 && S_ISBLK(st.st_mode);
}

/* Remove a mount of before: a dead one, or one with other attributes. */
static int target_clear(const struct csi *csi, const char *volume,
			const char *target, struct error *err)
{
	struct mount_info info;
	int r = bind_mount_find(target, &info, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (!publish_mount_is_ours(csi, &info, volume) &&
	    !publish_mount_is_device(&info))
		return error_set(err, EBUSY,
				 "'%s' is a mount point of something else",
				 target);
	return mounts_remove(info.target, true, err);
}

static int show_tree(const struct csi *csi, const char *volume,
		     const publish_request *request, struct error *err)
{
	const char *source = request->staging_target_path;
	const char *target = request->target_path;
	uint64_t attributes = attributes_of(request);
	int r;

	if (bind_mount_is_made(source, target, attributes))
		return 0;
	r = target_clear(csi, volume, target, err);
	if (r == 0)
		r = bind_mount_target_make(target, err);
	if (r < 0)
		return error_prefix(err, r, "target_path: ");
	return bind_mount_make(source, target, attributes, 0, err);
}

/* ---- block volumes ---- */

static int set_read_only(const char *device, bool read_only, struct error *err)
{
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);
	int value = read_only;

	if (fd < 0 || ioctl(fd, BLKROSET, &value) < 0)
		return error_set(err, errno, "'%s': %s", device,
				 strerror(errno));
	return 0;
}

static bool is_same_device(const char *a, const char *b)
{
	struct stat one, other;

	return stat(a, &one) == 0 && stat(b, &other) == 0 &&
	       S_ISBLK(one.st_mode) && S_ISBLK(other.st_mode) &&
	       one.st_rdev == other.st_rdev;
}

static int show_device(const struct csi *csi,
		       const struct volume_record *record,
		       const publish_request *request, struct error *err)
{
	const struct volume_attachment *a = volume_record_attachment(
		record, volume_context_node(csi->volumes));
	const char *target = request->target_path;
	char device[INITIATOR_TEXT_MAX];
	bool read_only = attributes_of(request) & MOUNT_ATTR_RDONLY;
	int r = volume_device(csi->volumes, record->name, device, err);

	/* A device that is attached for reading only is read-only by itself. */
	if (r == 0 && !(a && a->read_only))
		r = set_read_only(device, read_only, err);
	if (r < 0 || is_same_device(device, target))
		return r;
	r = target_clear(csi, record->name, target, err);
	if (r == 0)
		r = bind_mount_target_make_file(target, err);
	if (r < 0)
		return error_prefix(err, r, "target_path: ");
	return bind_mount_make(device, target, 0, 0, err);
}

/* ---- direct volumes ---- */

/* @options  room for all flags and one more */
static int show_guest_with(struct csi *csi, const struct volume_record *record,
			   const publish_request *request, const char **options,
			   struct error *err)
{
	const Csi__V1__VolumeCapability__MountVolume *mount =
		request->volume_capability->mount;
	char device[INITIATOR_TEXT_MAX];
	struct kata_record info = {
		.device = device,
		.fs_type = record->spec.fs_type,
		.options = options,
	};
	int r = volume_device(csi->volumes, record->name, device, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < mount->n_mount_flags; i++)
		options[info.n_options++] = mount->mount_flags[i];
	if (attributes_of(request) & MOUNT_ATTR_RDONLY)
		options[info.n_options++] = "ro";
	info.has_group = capability_group(request->volume_capability,
					  &info.group);
	r = bind_mount_target_make(request->target_path, err);
	if (r < 0)
		return error_prefix(err, r, "target_path: ");
	return kata_record_write(csi->kata_run_dir, request->target_path, &info,
				 err);
}

static int show_guest(struct csi *csi, const struct volume_record *record,
		      const publish_request *request, struct error *err)
{
	size_t n = request->volume_capability->mount->n_mount_flags;
	const char **options = calloc(n + 1, sizeof(*options));
	int r = options ? show_guest_with(csi, record, request, options, err)
			: error_set(err, ENOMEM, "out of memory");

	free(options);
	return r;
}

/* ---- all ---- */

int publish_mount(struct csi *csi, const struct volume_record *record,
		  const publish_request *request, struct error *err)
{
	struct mount_info info;
	int r;

	if (volume_spec_direct(&record->spec))
		r = show_guest(csi, record, request, err);
	else if (capability_is_block(request->volume_capability))
		r = show_device(csi, record, request, err);
	else
		r = show_tree(csi, record->name, request, err);

	/*
	 * A target that the call made was empty; another one stays as it was.
	 */
	if (r < 0 && r != -ENOTEMPTY && r != -ENOTDIR &&
	    bind_mount_find(request->target_path, &info, NULL) == -ENOENT)
		(void)bind_mount_target_remove(request->target_path, NULL);
	return r;
}

int publish_mount_restore(const publish_request *request, struct error *err)
{
	return bind_mount_make(request->target_path,
			       request->staging_target_path, 0,
			       attributes_of(request), err);
}

bool publish_mount_exists(const struct csi *csi, const char *target)
{
	struct mount_info info;

	return bind_mount_find(target, &info, NULL) != -ENOENT ||
	       kata_record_exists(csi->kata_run_dir, target);
}

/*
 * Tell whether the device is of an extent that is attached here, but not of
 * @volume. An unknown device may have been this volume's.
 */
static int is_of_another(const struct csi *csi, const struct mount_info *info,
			 const char *volume, struct error *err)
{
	auto_free struct initiator_device *devices = NULL;
	size_t n = 0, length = strlen(volume);
	struct stat shown, st;
	int r = volume_device_list(csi->volumes, &devices, &n, err);

	if (r < 0)
		return r;
	if (stat(info->target, &shown) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct initiator_device *d = &devices[i];

		/* VOLUME-INDEX; a device is named after its first extent */
		if (stat(d->device, &st) == 0 && st.st_rdev == shown.st_rdev)
			return strncmp(d->id, volume, length) != 0 ||
			       strcmp(d->id + length, "-0") != 0;
	}
	return 0;
}

/* Check that the mount there may be taken away as this volume's. 0: it may. */
static int check_hidden(const struct csi *csi, const struct mount_info *info,
			const char *volume, struct error *err)
{
	int other = !publish_mount_is_ours(csi, info, volume);

	if (other && publish_mount_is_device(info))
		other = is_of_another(csi, info, volume, err);
	if (other <= 0)
		return other;
	return error_set(
		err, EBUSY,
		"the mount at '%s' is not this volume; it is left alone",
		info->target);
}

/*
 * Unmount with patience: a question about the mount's state uses it. We ask
 * that ourselves, for a call beside this one.
 */
static int target_unmount(const char *target, struct error *err)
{
	int64_t end = clock_ms() + BUSY_MS;
	int r;

	while ((r = mounts_remove(target, false, err)) == -EBUSY &&
	       clock_ms() < end)
		(void)poll(NULL, 0, BUSY_STEP_MS);
	return r;
}

int publish_unmount(const struct csi *csi, const char *volume,
		    const char *target, struct error *err)
{
	struct mount_info info;
	int r = bind_mount_find(target, &info, err);

	if (r == 0)
		r = check_hidden(csi, &info, volume, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0)
		r = target_unmount(info.target, err);
	if (r == 0 || r == -ENOENT)
		r = kata_record_remove(csi->kata_run_dir, target, err);
	if (r == 0)
		r = bind_mount_target_remove(target, err);
	return r;
}
