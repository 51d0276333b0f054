/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that were killed and have not ended: a thread of theirs is in a call
 * to a branch that does not come back. It runs nothing of ours any more, but
 * what it called for may still come to pass. So the next server does without
 * what that thread was calling until it has ended: were the same request done
 * by both, the late one could undo what was done since (remove a file that was
 * made anew, say).
 *
 * The supervisor, which does not wait for them (supervisor.h), gives the next
 * server a descriptor of each process. What the calls of their threads are for
 * says proc(5) (task_syscall.h); where that cannot be told or does not fit, it
 * is all that the thread has noted in the state memory (thread_branches.h). A
 * thread of which neither is known is waited for: that of no request, in a call
 * by a path.
 */
#ifndef UNION_STUCK_SERVER_H
#define UNION_STUCK_SERVER_H

#include <stdbool.h>

#include "union/state/state.h"

/*
 * Take those that the supervisor knows, and forget threads that have ended.
 * Before any branch is opened, by the main thread. May wait, as above.
 */
void stuck_server_begin(struct state *state);

/* Must @branch not be used yet? Any thread may ask. */
bool stuck_server_withholds(unsigned branch);

/* Is one of their threads still at that request of the kernel? */
bool stuck_server_serves(uint64_t unique);

/* Was @process killed, or has it ended, and is there still? */
bool stuck_server_is(int process);

/* And the process at the other end of this connected unix socket? */
bool stuck_server_is_peer(int socket);

#endif
