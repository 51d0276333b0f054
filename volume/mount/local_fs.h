/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one file system of a device, on this machine. It is mounted as the branch
 * of the first split, and shown where the volume is mounted: BRANCH_DATA_DIR of
 * it, by a bind mount. The source of these mounts is a link to the device, so
 * each of them tells its volume, also when the device is gone.
 */
#ifndef VOLUME_LOCAL_FS_H
#define VOLUME_LOCAL_FS_H

#include "volume/op/context.h"

/*
 * Get the source for a mount of @device: for a branch of a union the device
 * itself, else the link, which is made. @ret: PATH_MAX bytes.
 */
int local_fs_source(const struct operation *op, const char *device, char *ret,
		    struct error *err);

/*
 * Tell whether @mount_point shows the file system that is mounted as the branch
 * now, and the file system has not given up.
 */
bool local_fs_shown(const struct volume_context *ctx, const char *volume,
		    const char *mount_point);

/* Show it at @mount_point, an empty directory, if it is not shown there. */
int local_fs_show(struct operation *op, const char *mount_point,
		  struct error *err);

/* Tell whether the volume answers at @mount_point: a union, or a device's. */
bool local_tree_answers(const struct volume_context *ctx,
			const struct volume_record *record,
			const char *mount_point);

#endif
