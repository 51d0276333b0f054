/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a staged volume is on this machine, and putting right what has died:
 * its union killed, its mount gone, everything gone by a reboot.
 *
 * What is put right is what the host sees: the staging path and the target
 * paths. Who has a publication in a mount namespace of its own (a container
 * that was running) keeps the dead mount; only starting it again helps, and
 * the volume's condition says so.
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
 * @path  where a volume is staged or published
 * @vfs   what it says, when it is well; NULL: not wanted
 */
enum node_health node_health(const char *path, struct statvfs *vfs);
/* What is wrong at @path and what to do about it; "" when it is well. */
const char *node_health_text(enum node_health health, const char *path,
			     char *ret, size_t size);

/*
 * Attach the volume where it is staged, or put right what is broken there,
 * and make its publications show that. A staging mount that somebody has
 * unmounted comes back; a publication does not. The state is saved when it
 * has changed.
 *
 * @asked  somebody wants it now: a union that runs, but is mounted nowhere
 *	   that is known, is ended for it. Without: -EBUSY
 *
 * Returns as volume_attach(); -EHOSTUNREACH also for a mount that is silent:
 * nothing was done.
 */
int node_ensure_staged(struct csi *csi, const struct volume_record *record,
		       node_state *state, bool asked, struct error *err);

#endif
