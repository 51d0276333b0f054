/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/kernel/fusectl.h"
#include "base/kernel/mount_ns.h"
#include "base/kernel/mount_ns_use.h"
#include "initiator/initiator.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_check.h"
#include "volume/mount/stale_mounts.h"
#include "volume/mount/union_process.h"

#define DEVICE_LINK      "device"
#define MOUNT_POINT_FILE "mount-point"
#define OPTIONS_FILE     "mount-options"

#define UNION_END_MS    10000
#define BRANCH_BUSY_MS  3000 /* until the kernel has let go of a branch */
#define BRANCH_RETRY_MS 20

void local_volume_dir(const struct volume_context *ctx, const char *volume,
		      char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%.3900s/volumes/%.63s", ctx->run_dir,
		       volume);
}

bool local_goes_by_file(const struct initiator_device *attached,
			const struct node_extent *extent)
{
	if (!extent->path[0]) /* in a raw pool */
		return false;
	if (attached && !attached->dead)
		return strcmp(attached->transport, "loop") == 0;
	return !extent->limits.iops && !extent->limits.bytes_per_second;
}

void local_branch_dir(const struct volume_context *ctx, const char *volume,
		      unsigned number, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%.3900s/volumes/%.63s/branch-%u",
		       ctx->run_dir, volume, number);
}

unsigned local_branch_number(const struct volume_record *record,
			     const struct volume_split *split)
{
	const char *dash = strrchr(split->extent, '-');
	unsigned number;

	return !volume_spec_is_device(&record->spec) && dash &&
			       sscanf(dash, "-%5u", &number) == 1
		       ? number
		       : split->index;
}

static void file_path(const struct volume_context *ctx, const char *volume,
		      const char *name, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%.3900s/volumes/%.63s/%s", ctx->run_dir,
		       volume, name);
}

void local_device_link(const struct volume_context *ctx, const char *volume,
		       char *ret)
{
	file_path(ctx, volume, DEVICE_LINK, ret);
}

bool local_is_of_device(const struct volume_context *ctx, const char *volume,
			const struct mount_info *info)
{
	char link[PATH_MAX];

	local_device_link(ctx, volume, link);
	return strcmp(info->source, link) == 0;
}

static int text_save(const struct volume_context *ctx, const char *volume,
		     const char *name, const char *text, struct error *err)
{
	char path[PATH_MAX];
	int r;

	local_volume_dir(ctx, volume, path);
	r = dir_make(path, 0700, err);
	if (r < 0)
		return r;
	file_path(ctx, volume, name, path);
	return file_replace(AT_FDCWD, path, text, strlen(text), 0600, err);
}

static int text_load(const struct volume_context *ctx, const char *volume,
		     const char *name, char *ret, size_t size)
{
	auto_free char *text = NULL;
	char path[PATH_MAX];
	size_t length;
	int r;

	file_path(ctx, volume, name, path);
	r = file_read(AT_FDCWD, path, size - 1, &text, &length, NULL);
	if (r < 0)
		return r;
	memcpy(ret, text, length + 1);
	return 0;
}

int local_mount_point_save(const struct volume_context *ctx, const char *volume,
			   const char *mount_point, struct error *err)
{
	return text_save(ctx, volume, MOUNT_POINT_FILE, mount_point, err);
}

/* -ENOENT: none was. @ret: PATH_MAX bytes. */
static int local_mount_point_load(const struct volume_context *ctx,
				  const char *volume, char *ret)
{
	return text_load(ctx, volume, MOUNT_POINT_FILE, ret, PATH_MAX);
}

int local_options_save(const struct volume_context *ctx, const char *volume,
		       const char *options, struct error *err)
{
	char path[PATH_MAX];

	if (options[0])
		return text_save(ctx, volume, OPTIONS_FILE, options, err);
	file_path(ctx, volume, OPTIONS_FILE, path);
	(void)unlink(path); /* in most cases there was none */
	return 0;
}

void local_options_load(const struct volume_context *ctx, const char *volume,
			char *ret)
{
	if (text_load(ctx, volume, OPTIONS_FILE, ret, MOUNT_OPTIONS_MAX) < 0)
		ret[0] = '\0';
}

/* Is @id "VOLUME-INDEX"? */
static bool id_is_of(const char *id, const char *volume)
{
	size_t length = strlen(volume);

	return strncmp(id, volume, length) == 0 && id[length] == '-' &&
	       id[length + 1] &&
	       strspn(id + length + 1, "0123456789") == strlen(id + length + 1);
}

static int devices_list(const struct volume_context *ctx,
			struct initiator_device **ret, size_t *ret_count,
			struct error *err)
{
	char dir[PATH_MAX];

	context_initiator_dir(ctx, dir);
	return initiator_list(dir, ret, ret_count, err);
}

int local_exists(struct volume_context *ctx, const char *volume,
		 struct error *err)
{
	auto_free struct initiator_device *devices = NULL;
	auto_free struct mount_info *mounts = NULL;
	char dir[PATH_MAX];
	size_t n;
	int r;

	local_volume_dir(ctx, volume, dir);
	r = mounts_below(dir, &mounts, &n, err);
	if (r < 0 || n > 0)
		return r < 0 ? r : 1;
	r = devices_list(ctx, &devices, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (id_is_of(devices[i].id, volume))
			return 1;
	}
	return 0;
}

int local_check_none(const struct operation *op, struct error *err)
{
	int r = local_exists(op->ctx, op->name, err);

	if (r > 0)
		return error_set(err, EBUSY,
				 "parts of volume '%s' are still mounted here; "
				 "`trib umount %s` removes them",
				 op->name, op->name);
	return r;
}

static bool is_union_of(const struct operation *op,
			const struct mount_info *info)
{
	return strcmp(info->fs_type, UNION_FS_TYPE) == 0 &&
	       strcmp(info->source, op->name) == 0;
}

/*
 * -EBUSY: the union is seen at another place of this mount namespace, too.
 *
 * @device  of the union; 0: it is not mounted at @mount_point any more. Then a
 *	    mount that has a process of its own is another node's.
 */
static int check_one_place(const struct operation *op, const char *mount_point,
			   dev_t device, struct error *err)
{
	auto_free struct mount_info *mounts = NULL;
	size_t n = 0;
	int r = mounts_below("", &mounts, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct mount_info *m = &mounts[i];

		if (!is_union_of(op, m) || strcmp(m->target, mount_point) == 0)
			continue;
		if (device ? m->device == device : union_find(m->target) == 0)
			r = error_set(err, EBUSY,
				      "volume '%s' is in use at '%s', too: "
				      "unmount that first",
				      op->name, m->target);
	}
	return r;
}

int local_check_elsewhere(const struct operation *op, const char *mount_point,
			  struct error *err)
{
	char user[MOUNT_NS_USER_MAX];
	struct mount_info info;
	int r = *mount_point ? mounts_find(mount_point, &info, err) : -ENOENT;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if ((!is_union_of(op, &info) &&
	     !local_is_of_device(op->ctx, op->name, &info)) ||
	    !mount_ns_use_elsewhere(info.device, user))
		return 0;
	return error_set(err, EBUSY,
			 "%s uses it in another mount namespace, as a "
			 "container does: end that first, or use force",
			 user);
}

/*
 * Unmount the volume's tree: a union, or a device's file system. A union's
 * connection is ended: copies of the mount in other mount namespaces would keep
 * its server. They are dead from then on. 1: it was ended; 0: there was no
 * union to unmount, or the kernel can't be told.
 *
 * @lazy  also while in use; set when the union is dead
 */
static int tree_unmount(const struct operation *op, const char *mount_point,
			bool *lazy, struct error *err)
{
	auto_close int connection = -1;
	struct mount_info info;
	int r = mounts_find(mount_point, &info, err);
	/* Only a tree of ours: the path may have another mount by now. */
	bool is_union = r == 0 && is_union_of(op, &info);
	bool is_device = r == 0 && local_is_of_device(op->ctx, op->name, &info);

	if (r < 0 && r != -ENOENT)
		return r;
	if (is_device)
		return mounts_remove(mount_point, *lazy, err);
	/* A dead one is never busy for a reason worth keeping. */
	*lazy = *lazy || (is_union && !union_answers(mount_point));
	r = *lazy ? 0
		  : check_one_place(op, mount_point, is_union ? info.device : 0,
				    err);
	if (r < 0 || !is_union)
		return r;
	/* Before its number can be another's. */
	connection = fusectl_open(minor(info.device));
	r = mounts_remove(mount_point, *lazy, err);
	if (r < 0)
		return r;
	return connection >= 0 && fusectl_abort(connection) == 0;
}

static int tree_remove(struct operation *op, const char *mount_point, bool lazy,
		       struct error *err)
{
	pid_t pid = union_find(mount_point);
	int r = operation_step(op, err, "union", "unmounting %s", mount_point);

	if (r == 0)
		r = tree_unmount(op, mount_point, &lazy, err);
	if (r < 0)
		return r;
	return union_wait_end(pid, mount_point,
			      lazy ? UNION_END_MS / 5 : UNION_END_MS,
			      lazy || !r, err);
}

/*
 * Write out what a branch has, though copies of its mount in other mount
 * namespaces keep it mounted. A caller of fsync() was told of errors.
 */
static void branch_sync(const char *target)
{
	auto_close int fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		(void)syncfs(fd);
}

/*
 * The kernel keeps a branch busy for a moment after the union's process has
 * ended: its files are closed by deferred work. Longer than that, and though no
 * program has the branch in use, it is kept by files that are open in another
 * mount namespace, by way of the union: they do not count.
 */
static int branch_remove(const char *target, bool lazy, struct error *err)
{
	int64_t end = clock_ms() + BRANCH_BUSY_MS;
	char users[16];
	int r;

	if (!lazy)
		branch_sync(target);
	while ((r = mounts_remove(target, false, err)) == -EBUSY &&
	       clock_ms() < end)
		(void)poll(NULL, 0, BRANCH_RETRY_MS);
	if (r < 0 && !lazy)
		lazy = r == -EBUSY &&
		       !mounts_users(target, users, sizeof(users))[0];
	if (r < 0 && lazy)
		r = mounts_remove(target, true, err);
	return r;
}

/*
 * Remove what is mounted elsewhere of a device's file system, as publications
 * are: it would keep the device. A union's branches are mounted nowhere else.
 */
static int shown_remove(struct operation *op, struct error *err)
{
	auto_free struct mount_info *mounts = NULL;
	char dir[PATH_MAX];
	size_t n = 0;
	int r = mounts_below("", &mounts, &n, err);

	local_volume_dir(op->ctx, op->name, dir);
	for (size_t i = n; r == 0 && i-- > 0;)
		if (local_is_of_device(op->ctx, op->name, &mounts[i]) &&
		    strncmp(mounts[i].target, dir, strlen(dir)) != 0)
			r = mounts_remove(mounts[i].target, true, err);
	return r;
}

static int branches_remove(struct operation *op, bool lazy, struct error *err)
{
	auto_free struct mount_info *mounts = NULL;
	char dir[PATH_MAX];
	size_t n = 0;
	int r;

	local_volume_dir(op->ctx, op->name, dir);
	r = mounts_below(dir, &mounts, &n, err);
	for (size_t i = n; r == 0 && i-- > 0;) {
		r = operation_step(op, err, "unmount", "unmounting %s",
				   strrchr(mounts[i].target, '/') + 1);
		if (r == 0)
			r = branch_remove(mounts[i].target, lazy, err);
	}
	return r;
}

/*
 * Take a device away. What only other mount namespaces have is cut off. Forced,
 * so is one that anybody has: it goes with its last user, and holds nothing up.
 * -EBUSY where it can't be. A stranger may have files open through the union's
 * mount, which nothing tells of the device.
 */
static int device_remove(const struct operation *op, const char *dir,
			 const char *id, bool forced, struct error *err)
{
	char user[MOUNT_NS_USER_MAX];
	int r = initiator_fence(dir, id, true, err);

	if (r == 0)
		r = initiator_detach(dir, id, err);
	if (r == -EBUSY && forced && initiator_fence(dir, id, false, NULL) == 0)
		r = initiator_detach(dir, id, err);
	if (r == -EBUSY && stale_mounts_find(op->name, 0, user))
		(void)error_prefix(
			err, r, "%s has a copy of the volume's mount: ", user);
	return r;
}

static int devices_remove(struct operation *op, bool forced, struct error *err)
{
	auto_free struct initiator_device *devices = NULL;
	char dir[PATH_MAX];
	size_t n = 0;
	int r = devices_list(op->ctx, &devices, &n, err);

	context_initiator_dir(op->ctx, dir);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!id_is_of(devices[i].id, op->name))
			continue;
		r = operation_step(op, err, "device", "detaching %s from %s",
				   devices[i].id, devices[i].device);
		if (r == 0)
			r = device_remove(op, dir, devices[i].id, forced, err);
	}
	return r;
}

int local_split_remove(struct operation *op, const struct volume_split *split,
		       struct error *err)
{
	char dir[PATH_MAX], branch[PATH_MAX];
	int r = operation_step(op, err, "unmount", "unmounting split %s",
			       split->extent);

	context_initiator_dir(op->ctx, dir);
	local_branch_dir(op->ctx, op->name,
			 local_branch_number(op->record, split), branch);
	if (r == 0)
		r = branch_remove(branch, false, err);
	if (r == 0)
		r = device_remove(op, dir, split->extent, false, err);
	if (r == 0)
		(void)rmdir(branch); /* else: with the rest */
	return r;
}

/* The directories, empty now, and the log. */
static void directories_remove(struct operation *op)
{
	char path[PATH_MAX], dir[PATH_MAX];
	struct dirent *entry;
	DIR *stream;

	local_volume_dir(op->ctx, op->name, dir);
	stream = opendir(dir);
	while (stream && (entry = readdir(stream))) {
		if (strncmp(entry->d_name, "branch-", 7) == 0)
			(void)unlinkat(dirfd(stream), entry->d_name,
				       AT_REMOVEDIR);
	}
	if (stream)
		(void)closedir(stream);
	(void)snprintf(path, sizeof(path), "%.4000s/union.log", dir);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%.4000s/" LOCAL_CONTROL_FILE, dir);
	(void)unlink(path); /* of a union that was killed */
	(void)snprintf(path, sizeof(path), "%.4000s/" DEVICE_LINK, dir);
	(void)unlink(path); /* of a device with a file system */
	(void)snprintf(path, sizeof(path), "%.4000s/" MOUNT_POINT_FILE, dir);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%.4000s/" OPTIONS_FILE, dir);
	(void)unlink(path);
	(void)rmdir(dir); /* what is left shows that something is */
}

int local_remove(struct operation *op, bool lazy, struct error *err)
{
	char mount_point[PATH_MAX];
	int r = 0;

	split_check_note_failed(op);
	if (local_mount_point_load(op->ctx, op->name, mount_point) == 0)
		r = tree_remove(op, mount_point, lazy, err);
	if (r == 0 && lazy)
		r = shown_remove(op, err);
	if (r == 0)
		r = branches_remove(op, lazy, err);
	if (r == 0)
		r = devices_remove(op, lazy, err);
	if (r == 0)
		directories_remove(op);
	return r;
}
