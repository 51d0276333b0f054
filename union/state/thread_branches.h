/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The branches that each thread is calling, in the state memory of a union that
 * survives. The next server reads there which branches a hanging thread of a
 * killed process called (stuck_server.h).
 */
#ifndef UNION_THREAD_BRANCHES_H
#define UNION_THREAD_BRANCHES_H

#include "union/state/state.h"

/*
 * Set the memory for the records; borrowed. NULL, as at first: callers use
 * records of their own.
 */
void thread_branches_start(struct state *state);

/*
 * Get a record for the calling thread, in which no branch is noted; @own where
 * there is no other. The same thread gives it back by thread_branches_give().
 */
struct state_thread *thread_branches_take(struct state_thread *own);
void thread_branches_give(struct state_thread *thread);

/* Note that the thread serves that request of the kernel. */
static inline void thread_branches_serves(struct state_thread *thread,
					  uint64_t unique)
{
	atomic_store_explicit(&thread->unique, unique, memory_order_relaxed);
}

/*
 * Note that the thread calls @branch now; or that it calls none and serves
 * nothing.
 */
void thread_branches_note(struct state_thread *thread, unsigned branch);
void thread_branches_clear(struct state_thread *thread);

/*
 * Set the record of the calling thread, from thread_branches_take(); NULL:
 * none. Note that the thread calls @branch now: nothing is noted without a
 * record.
 */
void thread_branches_set_current(struct state_thread *thread);
void request_touches_branch(unsigned branch);

static inline bool thread_branches_has(const struct state_thread *thread,
				       unsigned branch)
{
	return atomic_load(&thread->met[branch / 64]) >> branch % 64 & 1;
}

#endif
