/* SPDX-License-Identifier: Apache-2.0 */
/* One publication: the staged volume shown at a target path, or taken away. */
#ifndef CSI_PUBLISH_MOUNT_H
#define CSI_PUBLISH_MOUNT_H

#include "csi/call/call.h"
#include "csi/node/node_state.h"
#include "volume/mount/mounts.h"
#include "volume/volume.h"

/* Is what is mounted there of the volume of that name? */
bool publish_mount_is_ours(const struct mount_info *info, const char *volume);

/* Is what is mounted there the device of a block volume, of any? */
bool publish_mount_is_device(const struct mount_info *info);

/*
 * Show it there as asked for. There already and alive: nothing is done; a
 * dead one, or one with other attributes, is replaced.
 *
 * A block volume's device is shown on a file; for reading only the device
 * itself becomes that. A direct volume gets a record for the runtime instead
 * (kata_record.h), and the directory, on which nothing is mounted.
 *
 * -EBUSY: something else is mounted there. -ENOTEMPTY, -ENOTDIR, -ENOENT: the
 * target path is not one. What was made is taken away again after an error.
 */
int publish_mount(struct csi *csi, const struct volume_record *record,
		  const publish_request *request, struct error *err);

/* From a publication back to the staging path, without its attributes. */
int publish_mount_restore(const publish_request *request, struct error *err);

/*
 * Take it away, and the directory. Not there: 0. -EBUSY: in use (the text
 * names by whom), or mounted by somebody else.
 */
int publish_unmount(const struct csi *csi, const char *volume,
		    const char *target, struct error *err);

/* Mounted, or given to a guest. */
bool publish_mount_exists(const struct csi *csi, const char *target);

#endif
