/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which branches each thread is calling: in the state memory of a union that
 * survives, so that the next server knows it of a thread that hangs there when
 * its process is killed (dying.h).
 */
#ifndef UNION_MET_H
#define UNION_MET_H

#include "union/state/state.h"

/* Where it is noted; borrowed. NULL, as at first: by who asks alone. */
void met_start(struct state *state);

/*
 * The calling thread begins to call branches. A record of its own, in which
 * none is met; @own where there is no other. For met_give() by this thread.
 */
struct state_thread *met_take(struct state_thread *own);
void met_give(struct state_thread *thread);

/* It serves that request of the kernel. */
static inline void met_serves(struct state_thread *thread, uint64_t unique)
{
	atomic_store_explicit(&thread->unique, unique, memory_order_relaxed);
}

/* It calls @branch now; and none any more, and serves nothing. */
void met_note(struct state_thread *thread, unsigned branch);
void met_clear(struct state_thread *thread);

/*
 * The record of the calling thread, from met_take(); NULL: none. It calls
 * @branch now: nothing is noted without one.
 */
void met_set_current(struct state_thread *thread);
void met_branch(unsigned branch);

static inline bool met_has(const struct state_thread *thread, unsigned branch)
{
	return atomic_load(&thread->met[branch / 64]) >> branch % 64 & 1;
}

#endif
