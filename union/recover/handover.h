/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union that survives its server: with the option survive=yes a supervisor
 * watches the process that serves it (supervisor.h). The server may be killed
 * at any instruction. The next one goes on with the connection to the kernel
 * and the state memory (state.h). The kernel sends it again the requests that
 * had not been answered (FUSE_NOTIFY_RESEND, Linux 6.9).
 *
 * The main thread calls these in this order. Each does nothing in a union that
 * does not survive.
 */
#ifndef UNION_HANDOVER_H
#define UNION_HANDOVER_H

#include "union/config/options.h"
#include "union/view/unionfs.h"

/*
 * Begin with what the supervisor has, if there is one: fs->state is set. 0; or
 * -errno with @err: the server cannot go on with that.
 */
int handover_begin(struct unionfs *fs, const struct union_options *options,
		   struct error *err);
void handover_end(struct unionfs *fs);

/* Does this server go on for another? Its mount point, or NULL. */
const char *handover_mountpoint(const struct unionfs *fs);
/* Get the descriptor by which it talks to the kernel; borrowed. -1: none. */
int handover_fuse_fd(const struct unionfs *fs);

/*
 * Restore the branches and other settings as the server before had them last.
 * 1; 0: there was none; or -errno with @err.
 */
int handover_settings(struct unionfs *fs, struct error *err);

/*
 * Restore open files and directories, and those that were removed while open.
 */
int handover_restore(struct unionfs *fs);

/*
 * Do as intent_recover(), with the nodes known: a node whose file was moved to
 * another branch is there now.
 */
int handover_recover_intents(struct unionfs *fs, struct error *err);

/*
 * Note that the union is about to be mounted, and that it is: keep the
 * connection. If the server is killed in between, the supervisor unmounts the
 * union.
 */
void handover_note_mounting(struct unionfs *fs);
void handover_note_mounted(struct unionfs *fs);

/*
 * Return the descriptor for talking to the kernel, which mounted @fd (taken).
 * Where the kernel sends nothing again, the descriptor is this server's own.
 * Then a request that is read and not answered ends with ECONNABORTED when the
 * server is killed.
 */
int handover_device(struct unionfs *fs, int fd);

/*
 * Answer FUSE_INIT before the first request, if the server before may have done
 * so: the kernel takes one answer. 0 or -errno.
 */
int handover_replay_init(struct unionfs *fs);

/*
 * Have the kernel send again what was not answered. Called before any thread
 * reads requests: else those just read come twice.
 */
void handover_resend(struct unionfs *fs);

/*
 * Find nodes whose FORGET the server before had read, and which is lost. Such a
 * node would keep a removed file on its branch (lost_forget.h). The kernel is
 * asked whether it still knows the node.
 *
 * The kernel is asked about nodes of two kinds. Those removed before the first
 * request of this server are listed by handover_list_buried(), which is called
 * before it. The others were removed later.
 *
 * The kernel is asked when no request is to come again, as such a request might
 * give the node back. True: the kernel is still to be asked.
 */
void handover_list_buried(struct unionfs *fs);
bool handover_forget_lost(struct unionfs *fs);

#endif
