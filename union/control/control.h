/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a mounted union: a thread of its own takes requests
 * (control_proto.h), several connections at a time, each for one request and
 * for CONTROL_PEER_MS at most to send it and again to take the reply. It
 * serves no requests of the file system and holds none up.
 */
#ifndef UNION_CONTROL_H
#define UNION_CONTROL_H

#include "union/live/drain.h"
#include "union/view/unionfs.h"

#define CONTROL_PEERS     16   /* at once; more wait */
#define CONTROL_PEER_MS   5000 /* for a request, and for its reply */
#define CONTROL_ENDING_MS 5000 /* for who has the socket, to end */

struct control;

/*
 * Make the socket @path, for this user alone. What a server that is no more
 * left there is replaced. One that has it may be about to end, as unmounting
 * does not wait for the server: up to CONTROL_ENDING_MS are spent on that.
 * -EADDRINUSE: something else is there.
 */
int control_open(const char *path, struct control **ret, struct error *err);

/*
 * Begin to serve @fs, mounted at @mountpoint (absolute, resolved; borrowed),
 * and @drains of it (borrowed). Signals stay as the caller has them blocked. 0
 * or -errno.
 */
int control_start(struct control *control, struct unionfs *fs,
		  struct drains *drains, const char *mountpoint);

/*
 * End and free; the socket goes. NULL is fine. An `add` that is under way is
 * finished first: the requests of the file system must be served or refused
 * meanwhile.
 */
void control_close(struct control *control);

#endif
