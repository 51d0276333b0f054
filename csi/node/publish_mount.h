/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One publication: the mount of the staged volume at a target path, made and
 * taken away.
 */
#ifndef CSI_PUBLISH_MOUNT_H
#define CSI_PUBLISH_MOUNT_H

#include "csi/call/call.h"
#include "csi/node/node_state.h"
#include "volume/mount/mounts.h"
#include "volume/volume.h"

/* Tell whether the mount is of the volume of that name. */
bool publish_mount_is_ours(const struct csi *csi, const struct mount_info *info,
			   const char *volume);

/*
 * Mount the staged volume at the target path as the request says. A live mount
 * there is left. A dead one, or one with other attributes, is replaced.
 *
 * A block volume's device is mounted on a file; for reading only the device
 * itself becomes read-only. A direct volume gets a record for the runtime
 * instead (kata_record.h), and the directory, on which nothing is mounted.
 *
 * -EBUSY: something else is mounted there. -ENOTEMPTY, -ENOTDIR, -ENOENT: the
 * target path is not usable. After an error nothing new is left.
 */
int publish_mount(struct csi *csi, const struct volume_record *record,
		  const publish_request *request, struct error *err);

/* From a publication back to the staging path, without its attributes. */
int publish_mount_restore(const publish_request *request, struct error *err);

/*
 * Unmount a publication, and remove the directory. Not there: 0. -EBUSY: in use
 * (the text names the users), or mounted by another program.
 */
int publish_unmount(const struct csi *csi, const char *volume,
		    const char *target, struct error *err);

/* Tell whether a publication is mounted, or given to a guest. */
bool publish_mount_exists(const struct csi *csi, const char *target);

#endif
