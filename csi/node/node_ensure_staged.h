/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health of a staged volume on this machine, and its repair: a killed union, a
 * lost mount, everything lost by a reboot.
 *
 * The repair is seen by the host: the staging path and the target paths. A
 * running container with a mount namespace of its own keeps the dead mount
 * until it is started again. The volume's condition says so.
 */
#ifndef CSI_NODE_ENSURE_STAGED_H
#define CSI_NODE_ENSURE_STAGED_H

#include <sys/statvfs.h>

#include "csi/call/call.h"
#include "csi/node/node_state.h"

#define NODE_ANSWER_MS 3000 /* how long a mount may take to answer */

enum node_health {
	NODE_WELL,
	NODE_GONE,   /* nothing is mounted there */
	NODE_DEAD,   /* what is mounted there has no server any more */
	NODE_SILENT, /* it does not answer in time; it may yet */
};

/*
 * Check the mount of a staged or published volume.
 *
 * @path  where a volume is staged or published
 * @vfs   statvfs(3) of a healthy one; NULL: not wanted
 */
enum node_health node_health(const char *path, struct statvfs *vfs);
/* Describe the problem at @path and its remedy; "" when it is well. */
const char *node_health_text(enum node_health health, const char *path,
			     char *ret, size_t size);

/*
 * Attach the volume where it is staged, or repair it, and renew its
 * publications. A staging mount that was unmounted comes back; a publication
 * does not. The state is saved when it has changed.
 *
 * @asked  a call waits for it: a running union without a known mount is ended.
 *	Otherwise: -EBUSY
 *
 * Returns as volume_attach(); -EHOSTUNREACH also for a silent mount: nothing
 * was done.
 */
int node_ensure_staged(struct csi *csi, const struct volume_record *record,
		       node_state *state, bool asked, struct error *err);

#endif
