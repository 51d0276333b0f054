/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bind mount with mount attributes of its own (MOUNT_ATTR_*,
 * mount_setattr(2); Linux 5.12). It appears with all of them or not at all.
 */
#ifndef CSI_BIND_MOUNT_H
#define CSI_BIND_MOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/mount/mounts.h"

/*
 * Find the topmost mount at @path, which may have links in it and may be dead;
 * ret->target has none. -ENOENT: nothing is mounted there.
 */
int bind_mount_find(const char *path, struct mount_info *ret,
		    struct error *err);

/*
 * Both are directories that exist, or both are none; nothing is mounted at
 * @target.
 *
 * @set, @clear  attributes it has beside, or without, those of @source
 */
int bind_mount_make(const char *source, const char *target, uint64_t set,
		    uint64_t clear, struct error *err);

/*
 * Tell whether @target shows the file system of @source, alive, with these
 * attributes.
 */
bool bind_mount_is_made(const char *source, const char *target,
			uint64_t attributes);

/*
 * Make the directory @target if it is not there. -ENOTEMPTY: it has
 * something in it; -ENOTDIR: it is something else, or a link.
 */
int bind_mount_target_make(const char *target, struct error *err);
/* The same with an empty file. -ENOTEMPTY also for anything else there. */
int bind_mount_target_make_file(const char *target, struct error *err);
/* Remove either; not there: 0. -ENOTEMPTY. */
int bind_mount_target_remove(const char *target, struct error *err);

#endif
