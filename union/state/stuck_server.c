/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/stuck_server.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process.h"
#include "union/state/fd_store.h"
#include "union/state/thread_branches.h"
#include "union/sys/task_syscall.h"

#define PAUSE_MS    20
#define SAID_AFTER  25   /* tries: nobody else is held up for less */
#define THREADS_MAX 4096 /* of one process */
#define SETS        (BRANCH_MAX / 64)

static struct dying {
	int pidfd; /* owned */
	pid_t pid;
	atomic_bool gone;
	uint64_t met[SETS]; /* branches, as bits */
} all[FD_STORE_STUCK_MAX];
static unsigned count;
static const struct state *left; /* state of dead servers; borrowed */

static bool is_gone(struct dying *dying)
{
	struct pollfd end = {.fd = dying->pidfd, .events = POLLIN};

	if (!atomic_load(&dying->gone) && poll(&end, 1, 0) > 0)
		atomic_store(&dying->gone, true);
	return atomic_load(&dying->gone);
}

static const struct state_thread *find_thread(const struct state *state,
					      pid_t tid)
{
	unsigned i;

	for (i = 0; i < STATE_THREAD_MAX; i++)
		if (atomic_load(&state->threads[i].tid) == tid)
			return &state->threads[i];
	return NULL;
}

/* Add the branches of @mount to @set; true if there are any. */
static bool add_branches_on(const struct state *state, int mount, uint64_t *set)
{
	bool any = false;
	unsigned i;

	for (i = 0; mount > 0 && i < BRANCH_MAX && state->branches[i].used; i++)
		if (atomic_load(&state->branches[i].mount_id) == mount) {
			set[i / 64] |= UINT64_C(1) << i % 64;
			any = true;
		}
	return any;
}

/* Add all branches that the thread noted for its present request. */
static bool add_met(struct dying *dying, const struct state_thread *thread)
{
	uint64_t set, any = 0;
	unsigned i;

	for (i = 0; thread && i < SETS; i++) {
		set = atomic_load(&thread->met[i]);
		dying->met[i] |= set;
		any |= set;
	}
	return any;
}

/*
 * Add the branches of its call, as proc(5) tells them. If the thread did not
 * note such a branch, another file may have got the number of the descriptor
 * since. Then all branches that it noted are added, too.
 */
static bool add_called(struct dying *dying, const struct state *state,
		       const struct state_thread *thread, const int *mounts)
{
	uint64_t set[SETS] = {0}, others = 0;
	bool any = add_branches_on(state, mounts[0], set);
	unsigned i;

	any = add_branches_on(state, mounts[1], set) || any;
	for (i = 0; i < SETS; i++) {
		dying->met[i] |= set[i];
		if (thread)
			others |= set[i] & ~atomic_load(&thread->met[i]);
	}
	if (!any || others)
		any = add_met(dying, thread) || any;
	return any;
}

/* Find the branches of its call. True: they are known, in dying->met. */
static bool learn_thread(struct dying *dying, const struct state *state,
			 pid_t tid)
{
	const struct state_thread *thread = find_thread(state, tid);
	int mounts[2];

	switch (task_syscall_get(dying->pid, tid, mounts)) {
	case IN_CALL_NONE:
	case IN_CALL_KERNEL: return true;
	case IN_CALL_MOUNTS: return add_called(dying, state, thread, mounts);
	case IN_CALL_UNKNOWN:
	case IN_CALL_GOES_ON:
	default: return add_met(dying, thread);
	}
}

static unsigned list_threads(const struct dying *dying, pid_t *ret)
{
	const struct dirent *entry;
	unsigned n = 0;
	char path[64];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task",
		       dying->pid); /* fits */
	dir = opendir(path);
	while (dir && n < THREADS_MAX && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			ret[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
	if (dir)
		(void)closedir(dir);
	return n;
}

static bool learn(struct dying *dying, const struct state *state)
{
	pid_t *threads = calloc(THREADS_MAX, sizeof(*threads));
	unsigned i, n = threads ? list_threads(dying, threads) : 0;
	bool known = threads && n < THREADS_MAX;

	memset(dying->met, 0, sizeof(dying->met));
	for (i = 0; i < n && known; i++)
		known = learn_thread(dying, state, threads[i]);
	free(threads);
	return known;
}

static void wait_until_known(struct dying *dying, const struct state *state)
{
	struct pollfd end = {.fd = dying->pidfd, .events = POLLIN};
	unsigned tries = 0;

	while (!is_gone(dying) && !learn(dying, state)) {
		if (++tries == SAID_AFTER)
			log_warning(
				"a killed server does not end, and its branch is not "
				"known: waiting for it");
		(void)poll(&end, 1, PAUSE_MS);
	}
}

static bool is_thread_of_any(pid_t tid)
{
	int mounts[2];
	unsigned i;

	for (i = 0; i < count; i++)
		if (!is_gone(&all[i]) &&
		    task_syscall_get(all[i].pid, tid, mounts) != IN_CALL_NONE)
			return true;
	return false;
}

static void forget_ended(struct state *state)
{
	struct state_thread *thread;
	unsigned i;

	for (i = 0; i < STATE_THREAD_MAX; i++) {
		thread = &state->threads[i];
		if (thread->tid && !is_thread_of_any(thread->tid))
			thread_branches_give(thread);
	}
}

static void take(int pidfd)
{
	struct dying *dying = &all[count];

	*dying = (struct dying){.pidfd = pidfd};
	dying->pid = process_of_pidfd(pidfd);
	if (dying->pid)
		count++;
	else
		fd_close(pidfd);
}

void stuck_server_begin(struct state *state)
{
	unsigned i;
	int fd;

	left = state;
	while (count) /* of a test before */
		fd_close(all[--count].pidfd);
	for (i = 0; i < FD_STORE_STUCK_MAX; i++) {
		fd = fd_store_take(FD_STORE_STUCK + i);
		if (fd >= 0)
			take(fd);
	}
	for (i = 0; i < count; i++)
		wait_until_known(&all[i], state);
	forget_ended(state);
}

bool stuck_server_withholds(unsigned branch)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (all[i].met[branch / 64] >> branch % 64 & 1 &&
		    !is_gone(&all[i]))
			return true;
	return false;
}

bool stuck_server_serves(uint64_t unique)
{
	const struct state_thread *thread;
	unsigned i;

	for (i = 0; count && i < STATE_THREAD_MAX; i++) {
		thread = &left->threads[i];
		if (atomic_load(&thread->unique) == unique &&
		    is_thread_of_any(atomic_load(&thread->tid)))
			return true;
	}
	return false;
}

static bool process_is_listed(pid_t process)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (all[i].pid == process && !is_gone(&all[i]))
			return true;
	return false;
}

bool stuck_server_is(int process)
{
	int mounts[2];

	switch (task_syscall_get(process, process, mounts)) {
	case IN_CALL_NONE: return kill(process, 0) == 0; /* it is there */
	case IN_CALL_GOES_ON: return false;
	case IN_CALL_KERNEL:
	case IN_CALL_MOUNTS:
	case IN_CALL_UNKNOWN:
	default: return process_is_listed(process);
	}
}

bool stuck_server_is_peer(int socket)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) ==
		       0 &&
	       peer.pid > 0 && stuck_server_is(peer.pid);
}
