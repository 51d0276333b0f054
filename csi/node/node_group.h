/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of a volume (volume_mount_group; Kubernetes: fsGroup). The volume's
 * files belong to the group, which may do with them what their owner may.
 *
 * A union's branches have no mount option for that. So owner and mode of each
 * file are changed, as a kubelet does for drivers that cannot. A file gets the
 * group, and rw for it. A directory gets rwx, and setgid, so that new files
 * have the group too. The root of the volume comes last and is looked at first.
 * When the root is right, so is everything below it (fsGroupChangePolicy:
 * OnRootMismatch).
 */
#ifndef CSI_NODE_GROUP_H
#define CSI_NODE_GROUP_H

#include <sys/types.h>

#include "base/error.h"

#define NODE_GROUP_DEPTH_MAX 400 /* directories in one another */

/*
 * @root       a directory; links in it are not followed
 * @cancel_fd  readable: give up, -ECANCELED; -1: none
 *
 * An interrupted call goes on with the rest when it is repeated. -ELOOP: deeper
 * than NODE_GROUP_DEPTH_MAX. -EROFS.
 */
int node_group_apply(const char *root, gid_t gid, int cancel_fd,
		     struct error *err);

#endif
