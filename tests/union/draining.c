/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/draining.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "tests/union/op.h"
#include "union/branch/branch.h"
#include "union/sys/attrs.h"

#define PATIENCE_MS 300000

/* A branch that is gone is refused, which is fine. */
static void tell(const struct draining *d, bool stop, const char *path)
{
	const char *const start_argv[] = {d->program, "--control", d->socket,
					  "drain",    path,        NULL};
	const char *const stop_argv[] = {d->program, "--control", d->socket,
					 "drain",    "--stop",    path,
					 NULL};
	struct error err = {0};

	(void)process_must(stop ? stop_argv : start_argv, PATIENCE_MS, &err);
}

/* Tell whether the drain is over before @ms have passed. */
static bool is_over(int fd, unsigned ms)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};

	return poll(&end, 1, (int)ms) != 0;
}

static void drain_until(const struct draining *d, int end)
{
	struct dice dice;
	const char *path;
	bool over = false;

	dice_init(&dice, d->seed ^ 0xd7a1);
	while (!over) {
		path = d->branches[dice_roll(&dice, d->count)];
		tell(d, false, path);
		over = is_over(end, 10 + dice_roll(&dice, 500));
		tell(d, true, path);
	}
}

void draining_start(struct draining *draining)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	(void)fflush(NULL); /* a child must not print it again */
	draining->pid = fork();
	if (draining->pid == 0) {
		fd_close(fds[1]);
		drain_until(draining, fds[0]);
		_exit(0);
	}
	if (draining->pid < 0)
		abort();
	fd_close(fds[0]);
	draining->end_fd = fds[1];
}

void draining_stop(struct draining *draining)
{
	fd_close(draining->end_fd);
	(void)waitpid(draining->pid, NULL, 0); /* is our child */
}

static void drop_xattrs(const char *path)
{
	char names[4096];
	ssize_t at, size = listxattr(path, names, sizeof(names));

	if (size < 0)
		abort();
	for (at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
		if (removexattr(path, names + at) < 0)
			abort();
}

void draining_renew(const char *branch, const char *as)
{
	auto_close int from = open(as, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int to = open(branch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		abort();
	if (faccessat(to, BRANCH_WORK_DIR, F_OK, 0) == 0)
		return; /* a branch to the end */
	drop_xattrs(branch);
	if (attrs_copy(from, &st, to) < 0 ||
	    futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0)
		abort();
}
