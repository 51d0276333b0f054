/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a mounted union. A thread of its own takes requests
 * (control_proto.h), CONTROL_PEERS connections at a time, each for one request.
 * A peer has CONTROL_PEER_MS at most to send the request, and again to take the
 * reply. The thread serves no requests of the file system and holds none up.
 */
#ifndef UNION_CONTROL_H
#define UNION_CONTROL_H

#include "union/live/drain.h"
#include "union/view/unionfs.h"

#define CONTROL_PEERS     16   /* connections at once; more wait */
#define CONTROL_PEER_MS   5000 /* for a request, and for its reply */
#define CONTROL_ENDING_MS 5000 /* for the socket's server to end */

struct control;

/*
 * Make the socket @path, for this user alone. A socket that a dead server left
 * there is replaced. A server that still has it may be about to end: unmounting
 * does not wait for the server. Wait up to CONTROL_ENDING_MS for that end.
 * -EADDRINUSE: something else is there.
 */
int control_open(const char *path, struct control **ret, struct error *err);

/*
 * Begin to serve @fs, mounted at @mountpoint (absolute, resolved; borrowed),
 * and its @drains (borrowed). Signals stay as the caller has them blocked. 0 or
 * -errno.
 */
int control_start(struct control *control, struct unionfs *fs,
		  struct drains *drains, const char *mountpoint);

/*
 * End, free, and remove the socket. NULL is fine. An `add` that is under way is
 * finished first: the requests of the file system must be served or refused
 * meanwhile.
 */
void control_close(struct control *control);

#endif
