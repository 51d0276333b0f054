/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that were killed and have not ended: a thread of theirs is in a call
 * to a branch that does not return. Such a thread runs no code of the server
 * any more, but its call may still take effect. So the next server does without
 * the branches of that call until the thread has ended. If both did the same
 * request, the late one could undo a newer change (remove a file that was made
 * anew, say).
 *
 * The supervisor does not wait for them (supervisor.h). It gives the next
 * server a descriptor of each process. proc(5) says which branches the calls of
 * their threads are for (task_syscall.h). Where that cannot be told or does not
 * fit, all branches count that the thread noted in the state memory
 * (thread_branches.h). A thread of which neither is known is waited for: one
 * without a request, in a call by a path.
 */
#ifndef UNION_STUCK_SERVER_H
#define UNION_STUCK_SERVER_H

#include <stdbool.h>

#include "union/state/state.h"

/*
 * Take the stuck servers that the supervisor knows, and forget threads that
 * have ended. Call this before any branch is opened, by the main thread. May
 * wait, as above.
 */
void stuck_server_begin(struct state *state);

/* Must @branch not be used yet? Any thread may ask. */
bool stuck_server_withholds(unsigned branch);

/* Does a thread of a stuck server still serve that request of the kernel? */
bool stuck_server_serves(uint64_t unique);

/* Was @process killed, or has it ended, and is there still? */
bool stuck_server_is(int process);

/*
 * Does the same hold for the process at the other end of this connected unix
 * socket?
 */
bool stuck_server_is_peer(int socket);

#endif
