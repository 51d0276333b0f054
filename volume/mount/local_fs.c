/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/local_fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/file.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"

int local_fs_source(const struct operation *op, const char *device, char *ret,
		    struct error *err)
{
	const struct volume_spec *spec = &op->record->spec;
	char dir[PATH_MAX];
	int r;

	if (!volume_spec_is_device(spec) || !volume_spec_is_tree(spec)) {
		(void)snprintf(ret, PATH_MAX, "%s", device);
		return 0;
	}
	local_volume_dir(op->ctx, op->name, dir);
	r = dir_make(dir, 0700, err);
	if (r < 0)
		return r;
	local_device_link(op->ctx, op->name, ret);
	(void)unlink(ret); /* of a device before; a new link fails otherwise */
	if (symlink(device, ret) < 0)
		return error_set(err, errno, "link '%s': %s", ret,
				 strerror(errno));
	return 0;
}

bool local_fs_shown(const struct volume_context *ctx, const char *volume,
		    const char *mount_point)
{
	struct mount_info branch, shown;
	char path[PATH_MAX];

	local_branch_dir(ctx, volume, 0, path);
	return mounts_find(mount_point, &shown, NULL) == 0 &&
	       local_is_of_device(ctx, volume, &shown) && !shown.failed &&
	       mounts_find(path, &branch, NULL) == 0 &&
	       branch.device == shown.device;
}

int local_fs_show(struct operation *op, const char *mount_point,
		  struct error *err)
{
	char branch[PATH_MAX], data[PATH_MAX];
	struct mount_info info;
	int r;

	if (local_fs_shown(op->ctx, op->name, mount_point))
		return 0;
	r = operation_step(op, err, "show", "mounting it at %s", mount_point);
	if (r == 0)
		r = local_mount_point_save(op->ctx, op->name, mount_point, err);
	/* One of a device before this one. */
	while (r == 0 && mounts_find(mount_point, &info, NULL) == 0 &&
	       local_is_of_device(op->ctx, op->name, &info))
		r = mounts_remove(mount_point, true, err);
	if (r < 0)
		return r;
	local_branch_dir(op->ctx, op->name, 0, branch);
	(void)snprintf(data, sizeof(data), "%.4000s/" BRANCH_DATA_DIR, branch);
	if (mount(data, mount_point, NULL, MS_BIND, NULL) < 0)
		return error_set(err, errno, "mount '%s' at '%s': %s", data,
				 mount_point, strerror(errno));
	return 0;
}

bool local_tree_answers(const struct volume_context *ctx,
			const struct volume_record *record,
			const char *mount_point)
{
	return volume_spec_is_device(&record->spec)
		       ? local_fs_shown(ctx, record->name, mount_point)
		       : union_answers(mount_point);
}
