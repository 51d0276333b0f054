/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/thread_branches.h"

#include <unistd.h>

#include "base/cleanup.h"

static struct state *_Atomic state;
static _Thread_local struct state_thread *current;

void thread_branches_start(struct state *kept)
{
	atomic_store(&state, kept);
}

/* Claim a record of no thread; its branches were cleared before. */
static bool claim(struct state_thread *thread, int32_t tid)
{
	int32_t none = 0;

	return !atomic_load(&thread->tid) &&
	       atomic_compare_exchange_strong(&thread->tid, &none, tid);
}

struct state_thread *thread_branches_take(struct state_thread *own)
{
	struct state *kept = atomic_load(&state);
	unsigned i;

	*own = (struct state_thread){0};
	for (i = 0; kept && i < STATE_THREAD_MAX; i++)
		if (claim(&kept->threads[i], gettid()))
			return &kept->threads[i];
	return own;
}

void thread_branches_clear(struct state_thread *thread)
{
	size_t i;

	thread_branches_serves(thread, 0);
	for (i = 0; i < array_size(thread->met); i++)
		if (atomic_load_explicit(&thread->met[i], memory_order_relaxed))
			atomic_store_explicit(&thread->met[i], 0,
					      memory_order_relaxed);
}

void thread_branches_give(struct state_thread *thread)
{
	thread_branches_clear(thread);
	atomic_store(&thread->tid, 0);
}

void thread_branches_note(struct state_thread *thread, unsigned branch)
{
	_Atomic uint64_t *met = &thread->met[branch / 64];

	/* Nobody else writes it. */
	atomic_store_explicit(met,
			      atomic_load_explicit(met, memory_order_relaxed) |
				      UINT64_C(1) << branch % 64,
			      memory_order_relaxed);
}

void thread_branches_set_current(struct state_thread *thread)
{
	current = thread;
}

void request_touches_branch(unsigned branch)
{
	if (current)
		thread_branches_note(current, branch);
}
