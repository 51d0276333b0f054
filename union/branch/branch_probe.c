/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_probe.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/state/branch_identity.h"
#include "union/state/thread_branches.h"
#include "union/sys/task_blocked.h"

#define LOOK_MS 20

static struct {
	pthread_mutex_t lock;
	pthread_cond_t back;
	const struct state *state;
	bool waits[BRANCH_MAX]; /* in a call */
	unsigned busy;
} probe = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Make the calls of branch_open(), with any result. */
static void call(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct branch_identity identity;
	struct statvfs space;
	struct stat st;

	if (fd < 0)
		return;
	(void)fstat(fd, &st);
	(void)fstatvfs(fd, &space);
	(void)branch_identity_get(fd, &identity);
}

static void *probe_main(void *context)
{
	bool *waits = context;
	unsigned branch = (unsigned)(waits - probe.waits);
	struct state_thread own, *thread = thread_branches_take(&own);

	thread_branches_note(thread, branch);
	call(probe.state->branches[branch].path);
	thread_branches_give(thread);
	pthread_mutex_lock(&probe.lock);
	*waits = false;
	probe.busy--;
	pthread_cond_broadcast(&probe.back);
	pthread_mutex_unlock(&probe.lock);
	return NULL;
}

/* With the lock. */
static void start_probe(unsigned branch)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, probe_main, &probe.waits[branch]) ==
	    0) {
		probe.waits[branch] = true;
		probe.busy++;
	}
	pthread_attr_destroy(&attr);
}

/* With the lock. */
static void wait_a_moment(void)
{
	int64_t until = clock_ms() + LOOK_MS;
	struct timespec at = {until / 1000, until % 1000 * 1000000};

	(void)pthread_cond_timedwait(&probe.back, &probe.lock, &at);
}

/* Wait, with the lock. On a busy machine threads may just be late. */
static void wait_for_all(int patience_ms)
{
	int64_t start = clock_ms(), last = start + 10 * (int64_t)patience_ms;
	int64_t now = start;

	while (probe.busy &&
	       (now - start < patience_ms ||
		(now < last && !task_blocked_thread(getpid(), 0)))) {
		wait_a_moment();
		now = clock_ms();
	}
}

static void init(const struct state *state)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&probe.back, &attr);
	pthread_condattr_destroy(&attr);
	probe.state = state;
}

void branch_probe(struct state *state, const bool *wanted, int patience_ms,
		  bool *ret_answers)
{
	unsigned i;

	init(state);
	pthread_mutex_lock(&probe.lock);
	for (i = 0; i < BRANCH_MAX; i++)
		if (wanted[i])
			start_probe(i);
	wait_for_all(patience_ms);
	for (i = 0; i < BRANCH_MAX; i++)
		ret_answers[i] = !probe.waits[i];
	pthread_mutex_unlock(&probe.lock);
}

bool branch_probe_is_busy(void)
{
	bool busy;

	pthread_mutex_lock(&probe.lock);
	busy = probe.busy;
	pthread_mutex_unlock(&probe.lock);
	return busy;
}
