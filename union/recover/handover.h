/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union that survives its server: with the option survive=yes it is served
 * by a process that another one watches (supervisor.h). When it is killed, at
 * whatever instruction, the next one goes on with the connection to the
 * kernel and what is in the state memory (state.h), and the kernel sends it
 * again what had not been answered (FUSE_NOTIFY_RESEND, Linux 6.9).
 *
 * In this order, by the main thread. Each does nothing in a union that does
 * not survive.
 */
#ifndef UNION_HANDOVER_H
#define UNION_HANDOVER_H

#include "union/config/options.h"
#include "union/view/unionfs.h"

/*
 * Begin with what the supervisor has, if there is one: fs->state is set. 0; or
 * -errno with @err: it cannot go on with that.
 */
int handover_begin(struct unionfs *fs, const struct union_options *options,
		   struct error *err);
void handover_end(struct unionfs *fs);

/* Goes this one on for another? Its mount point, or NULL. */
const char *handover_mountpoint(const struct unionfs *fs);
/* And the descriptor it talks to the kernel by; borrowed. -1: none. */
int handover_fuse_fd(const struct unionfs *fs);

/*
 * The branches as the one before had them last, and what else was set. 1; 0:
 * there was none; or -errno with @err.
 */
int handover_settings(struct unionfs *fs, struct error *err);

/* What was open is so again, and what was removed while it was open is kept. */
int handover_restore(struct unionfs *fs);

/*
 * intent_recover(), with the nodes known: one whose file was moved to another
 * branch is there now.
 */
int handover_recover_intents(struct unionfs *fs, struct error *err);

/*
 * It is about to be mounted, and it is: keep the connection. When it is killed
 * in between the supervisor unmounts it.
 */
void handover_note_mounting(struct unionfs *fs);
void handover_note_mounted(struct unionfs *fs);

/*
 * What to talk to the kernel by, which mounted @fd (taken). Where the kernel
 * sends nothing again it is one of this server's own: what it takes and does
 * not answer ends with ECONNABORTED when it is killed.
 */
int handover_device(struct unionfs *fs, int fd);

/*
 * Before the first request: FUSE_INIT is answered if the one before may have
 * done so, which the kernel takes once. 0 or -errno.
 */
int handover_replay_init(struct unionfs *fs);

/*
 * Have the kernel send again what was not answered: before any thread reads
 * requests, else those that it has just read come twice.
 */
void handover_resend(struct unionfs *fs);

/*
 * A FORGET that the one before had taken is lost. Where that would keep a
 * removed file on its branch (node_lost.h) the kernel is asked whether it knows
 * the node still: of those that were removed before the first request of this
 * server, which are listed until then, and of those that are removed later; and
 * when no request is to come again, which might give such a node back. True:
 * not yet.
 */
void handover_list_buried(struct unionfs *fs);
bool handover_forget_lost(struct unionfs *fs);

#endif
