/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve/watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/live/branch_recover.h"
#include "union/live/remove_branch.h"
#include "union/recover/handover.h"
#include "union/serve/pending_names.h"
#include "union/state/fuse_connection.h"
#include "union/state/open_table.h"
#include "union/state/reply_cache.h"
#include "union/state/thread_branches.h"

#define ROUND_MS  1000
#define SLOTS_MAX 4096 /* threads at once; those beyond go unwatched */

/*
 * The request that a thread serves. The thread fills this, the watching thread
 * reads it.
 */
struct watchdog_slot {
	pthread_mutex_t lock;     /* of the end of a request and its answer */
	_Atomic int64_t since_ms; /* 0: nothing */
	struct state_thread *_Atomic thread; /* the branches it met; not while
					      * it is left */
	struct state_thread own;
	const struct request *request; /* borrowed until its end */
	const void *data;              /* of the kernel; likewise */
	size_t length;
	struct node *held[2]; /* @nodes of an answered request; NULL */
	bool answered;
	bool replaced; /* by another thread */
	atomic_bool left;
};

/* A branch that is tried. */
struct
try {
	_Atomic int64_t since_ms; /* 0: it is not */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool on;
	atomic_bool sleeps; /* the thread sleeps until it is woken */
	pthread_t thread;
	struct unionfs *fs;
	void (*more)(void *context);
	void *context;
	struct try tries[BRANCH_MAX];
} service = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct watchdog_slot *_Atomic slots[SLOTS_MAX];
static atomic_uint slot_count;

static struct watchdog_slot *find_left(void)
{
	unsigned i, count = atomic_load(&slot_count);
	struct watchdog_slot *slot;

	for (i = 0; i < count && i < SLOTS_MAX; i++) {
		slot = atomic_load(&slots[i]);
		if (slot && atomic_exchange(&slot->left, false))
			return slot;
	}
	return NULL;
}

static struct watchdog_slot *new_slot(void)
{
	struct watchdog_slot *slot = calloc(1, sizeof(*slot));
	unsigned i = slot ? atomic_fetch_add(&slot_count, 1) : SLOTS_MAX;

	if (i >= SLOTS_MAX) {
		free(slot);
		return NULL;
	}
	pthread_mutex_init(&slot->lock, NULL);
	atomic_store(&slot->thread, &slot->own);
	atomic_store(&slots[i], slot);
	return slot;
}

struct watchdog_slot *watchdog_join(void)
{
	struct watchdog_slot *slot = find_left();

	if (!slot)
		slot = new_slot();
	if (slot) {
		atomic_store(&slot->thread, thread_branches_take(&slot->own));
		thread_branches_set_current(atomic_load(&slot->thread));
	}
	return slot;
}

void watchdog_leave(struct watchdog_slot *slot)
{
	if (!slot)
		return;
	thread_branches_set_current(NULL);
	thread_branches_give(atomic_exchange(&slot->thread, &slot->own));
	atomic_store(&slot->left, true);
}

/* Wake the watching thread, which sleeps while nothing is served. */
static void wake_watchdog(void)
{
	pthread_mutex_lock(&service.lock);
	atomic_store(&service.sleeps, false);
	pthread_cond_signal(&service.wake);
	pthread_mutex_unlock(&service.lock);
}

void watchdog_begin(struct watchdog_slot *slot, struct request *request,
		    const void *data, size_t length)
{
	if (!slot)
		return;
	request->watched = true;
	thread_branches_serves(slot->thread,
			       request->unique & ~REPLY_CACHE_RESENT);
	slot->request = request;
	slot->data = data;
	slot->length = length;
	atomic_store(&slot->since_ms, clock_ms());
	if (atomic_load(&service.sleeps))
		wake_watchdog();
}

/* With its lock. */
static void drop_nodes(struct watchdog_slot *slot)
{
	unsigned i;

	for (i = 0; slot->answered && i < slot->request->node_count; i++)
		if (slot->held[i])
			node_let_go(&service.fs->nodes, slot->held[i]);
	slot->answered = false;
}

bool watchdog_end(struct watchdog_slot *slot, struct request *request)
{
	bool replaced;

	if (!slot)
		return false;
	request->watched = false;
	if (request->items[0])
		open_items_end(request); /* while its nodes are held */
	pthread_mutex_lock(&slot->lock);
	atomic_store(&slot->since_ms, 0);
	drop_nodes(slot);
	replaced = slot->replaced;
	slot->replaced = false;
	pthread_mutex_unlock(&slot->lock);
	thread_branches_clear(slot->thread);
	return replaced;
}

static void *try_main(void *context)
{
	const struct branch *branch = context;
	struct try *try = &service.tries[branch->id];
	struct state_thread own, *thread = thread_branches_take(&own);

	thread_branches_note(thread, branch->id);
	dir_fd_changes_begin();
	(void)branch_recover_try(branch); /* it is enough that this returns */
	dir_fd_changes_end();
	thread_branches_give(thread);
	atomic_store(&try->since_ms, 0);
	return NULL;
}

static void start_try(struct branch *branch, int64_t now_ms)
{
	struct try *try = &service.tries[branch->id];
	pthread_attr_t attr;
	pthread_t thread;

	if (atomic_load(&try->since_ms))
		return;
	atomic_store(&try->since_ms, now_ms);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, try_main, branch) != 0)
		atomic_store(&try->since_ms, 0); /* tried again in the next
						  * round */
	pthread_attr_destroy(&attr);
}

static bool has_met(const struct watchdog_slot *slot, unsigned branch)
{
	return thread_branches_has(atomic_load(&slot->thread), branch);
}

static bool met_failed(const struct watchdog_slot *slot)
{
	unsigned i;

	for (i = 0; i < service.fs->branches.count; i++)
		if (has_met(slot, i) && !branch_usable(i))
			return true;
	return false;
}

/*
 * Answer EIO to the request of @since_ms, and not to a later one. The kernel
 * may forget the nodes from now on; the thread uses them until it comes back.
 */
static void answer_slot(struct watchdog_slot *slot, int64_t since_ms)
{
	const struct request *request;
	unsigned i;

	pthread_mutex_lock(&slot->lock);
	if (atomic_load(&slot->since_ms) == since_ms && !slot->answered) {
		request = slot->request;
		for (i = 0; i < request->node_count; i++)
			slot->held[i] = node_hold_id(&service.fs->nodes,
						     request->nodes[i]);
		slot->answered = true;
		(void)pending_names_add(slot->data, slot->length);
		fuse_connection_answer(fuse_session_fd(service.fs->session),
				       request->unique, -EIO);
	}
	pthread_mutex_unlock(&slot->lock);
}

static void replace_thread(struct watchdog_slot *slot, int64_t since_ms)
{
	bool wanted;

	pthread_mutex_lock(&slot->lock);
	wanted = atomic_load(&slot->since_ms) == since_ms && !slot->replaced;
	slot->replaced = slot->replaced || wanted;
	pthread_mutex_unlock(&slot->lock);
	if (wanted)
		service.more(service.context);
}

/* Look at a request that takes longer than it may: does a branch hold it up? */
static void look_at_late(struct watchdog_slot *slot, int64_t since_ms,
			 int64_t now_ms)
{
	struct branch *branch;
	unsigned i;

	for (i = 0; i < service.fs->branches.count; i++) {
		branch = service.fs->branches.items[i];
		if (has_met(slot, i) && branch_usable(i))
			start_try(branch, now_ms);
	}
	if (met_failed(slot))
		answer_slot(slot, since_ms);
}

static void look_at_tries(int64_t now_ms)
{
	int64_t since_ms;
	unsigned i;

	for (i = 0; i < service.fs->branches.count; i++) {
		since_ms = atomic_load(&service.tries[i].since_ms);
		if (since_ms && now_ms - since_ms >= WATCHDOG_TRY_MS)
			branch_fail(service.fs->branches.items[i], ETIMEDOUT);
	}
}

/* Look at all that is served. True: something is being served. */
static bool look_at_all(int64_t now_ms)
{
	unsigned i, count = atomic_load(&slot_count);
	int64_t since_ms, age_ms, limit_ms = service.fs->branch_timeout_ms;
	struct watchdog_slot *slot;
	bool busy;

	look_at_tries(now_ms);
	busy = union_remove_branch_finish(service.fs);
	busy = handover_forget_lost(service.fs) || busy;
	for (i = 0; i < count && i < SLOTS_MAX; i++) {
		slot = atomic_load(&slots[i]);
		since_ms = slot ? atomic_load(&slot->since_ms) : 0;
		if (!since_ms)
			continue;
		busy = true;
		age_ms = now_ms - since_ms;
		if (age_ms >= WATCHDOG_SLOW_MS)
			replace_thread(slot, since_ms);
		if (limit_ms && age_ms >= limit_ms)
			look_at_late(slot, since_ms, now_ms);
		else if (age_ms >= WATCHDOG_SLOW_MS && branch_any_doubted() &&
			 met_failed(slot))
			answer_slot(slot, since_ms);
	}
	return busy;
}

/* With the lock. */
static void wait_a_round(void)
{
	int64_t until = clock_ms() + ROUND_MS;
	struct timespec at = {until / 1000, until % 1000 * 1000000};

	while (service.on && clock_ms() < until)
		(void)pthread_cond_timedwait(&service.wake, &service.lock, &at);
}

/* Look a round after being woken, so that not each request wakes. */
static void *watch_main(void *context)
{
	(void)context;
	pthread_mutex_lock(&service.lock);
	while (service.on) {
		while (service.on && atomic_load(&service.sleeps))
			(void)pthread_cond_wait(&service.wake, &service.lock);
		wait_a_round();
		pthread_mutex_unlock(&service.lock);
		atomic_store(&service.sleeps, true); /* a request from now on
						      * wakes */
		if (look_at_all(clock_ms()))
			atomic_store(&service.sleeps, false);
		pthread_mutex_lock(&service.lock);
	}
	pthread_mutex_unlock(&service.lock);
	return NULL;
}

int watchdog_start(struct unionfs *fs, void (*more)(void *context),
		   void *context)
{
	pthread_condattr_t attr;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	r = pthread_cond_init(&service.wake, &attr);
	pthread_condattr_destroy(&attr);
	service.fs = fs;
	service.more = more;
	service.context = context;
	atomic_store(&service.sleeps, true);
	/* The thread may look before this returns. */
	pthread_mutex_lock(&service.lock);
	if (r == 0)
		r = pthread_create(&service.thread, NULL, watch_main, NULL);
	service.on = r == 0;
	pthread_mutex_unlock(&service.lock);
	return -r;
}

void watchdog_stop(void)
{
	bool on;

	pthread_mutex_lock(&service.lock);
	on = service.on;
	service.on = false;
	if (on)
		pthread_cond_signal(&service.wake);
	pthread_mutex_unlock(&service.lock);
	if (on)
		(void)pthread_join(service.thread, NULL); /* is ours */
}
