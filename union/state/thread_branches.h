/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which branches each thread is calling: in the state memory of a union that
 * survives, so that the next server knows it of a thread that hangs there when
 * its process is killed (stuck_server.h).
 */
#ifndef UNION_THREAD_BRANCHES_H
#define UNION_THREAD_BRANCHES_H

#include "union/state/state.h"

/* Where it is noted; borrowed. NULL, as at first: by who asks alone. */
void thread_branches_start(struct state *state);

/*
 * The calling thread begins to call branches. A record of its own, in which
 * none is met; @own where there is no other. For thread_branches_give() by this
 * thread.
 */
struct state_thread *thread_branches_take(struct state_thread *own);
void thread_branches_give(struct state_thread *thread);

/* It serves that request of the kernel. */
static inline void thread_branches_serves(struct state_thread *thread,
					  uint64_t unique)
{
	atomic_store_explicit(&thread->unique, unique, memory_order_relaxed);
}

/* It calls @branch now; and none any more, and serves nothing. */
void thread_branches_note(struct state_thread *thread, unsigned branch);
void thread_branches_clear(struct state_thread *thread);

/*
 * The record of the calling thread, from thread_branches_take(); NULL: none. It
 * calls
 * @branch now: nothing is noted without one.
 */
void thread_branches_set_current(struct state_thread *thread);
void request_touches_branch(unsigned branch);

static inline bool thread_branches_has(const struct state_thread *thread,
				       unsigned branch)
{
	return atomic_load(&thread->met[branch / 64]) >> branch % 64 & 1;
}

#endif
