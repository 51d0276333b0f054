/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local/local_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

#define END_WAIT_MS 20

int local_ask_start(const char *name, struct local_ask *ret, struct error *err)
{
	char program[PATH_MAX];
	const char *argv[] = {file_find_program(LOCAL_ASK_PROGRAM, program),
			      name, NULL};
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	r = process_start(argv, ends[1], -1, &ret->pid, err);
	fd_close(ends[1]);
	if (r < 0) {
		fd_close(ends[0]);
		return r;
	}
	ret->fd = ends[0];
	return 0;
}

/* Tell whether the process would run if it had a processor. */
static bool is_runnable(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) /* proc(5) */
		state = 0;
	(void)fclose(file); /* was only read */
	return state == 'R';
}

/* Is there something to be read by @end_ms? */
static bool is_ready(const struct local_ask *ask, int64_t end_ms)
{
	struct pollfd fd = {.fd = ask->fd, .events = POLLIN};
	int64_t left;
	int r;

	do {
		left = end_ms - clock_ms();
		r = poll(&fd, 1, left < 0 ? 0 : (int)left);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

static bool wait_ready(const struct local_ask *ask, int64_t end_ms)
{
	int64_t slow_ms = end_ms + LOCAL_ASK_SLOW_MS;

	if (is_ready(ask, end_ms))
		return true;
	while (is_runnable(ask->pid) && clock_ms() < slow_ms) {
		if (is_ready(ask, clock_ms() + END_WAIT_MS))
			return true;
	}
	/* The process may have had its turn just now. */
	return is_ready(ask, 0);
}

int local_ask_take(const struct local_ask *ask, int64_t end_ms,
		   struct local_answer *ret)
{
	struct pollfd fd = {.fd = ask->fd, .events = POLLIN};
	struct local_answer answer;
	char text[LOCAL_ANSWER_MAX];
	ssize_t n;

	if (!wait_ready(ask, end_ms))
		return -EAGAIN;
	/* Written in one piece; without one, the asker failed. */
	n = read(ask->fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	fd.events = 0; /* it ends as a rule at once: so it can be reaped */
	(void)poll(&fd, 1, END_WAIT_MS);
	if (local_answer_parse(text, &answer) < 0)
		answer = (struct local_answer){.error = EIO};
	*ret = answer;
	return 0;
}

void local_ask_stop(struct local_ask *ask)
{
	fd_close(take_fd(&ask->fd));
	/* Not reaped yet, so the pid is still its own. */
	if (ask->pid > 0)
		(void)kill(ask->pid, SIGKILL);
}

bool local_ask_ended(struct local_ask *ask)
{
	if (ask->pid > 0 && waitpid(ask->pid, NULL, WNOHANG) == 0)
		return false;
	ask->pid = 0;
	return true;
}
