/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/killing.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

#define BETWEEN_MS 200 /* at most */

/* 0: there is none at the moment. */
static pid_t server_of(pid_t supervisor)
{
	FILE *file;
	char path[64];
	int pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
		       supervisor, supervisor); /* fits */
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	(void)fclose(file);
	return pid;
}

static unsigned long kill_until(const struct killing *k, int end)
{
	struct pollfd over = {.fd = end, .events = POLLIN};
	unsigned long count = 0;
	struct dice dice;
	pid_t pid;

	dice_init(&dice, k->seed ^ 0x6b17);
	while (poll(&over, 1, 1 + (int)dice_roll(&dice, BETWEEN_MS)) == 0) {
		pid = server_of(k->supervisor);
		if (pid > 0 && kill(pid, SIGKILL) == 0)
			count++;
	}
	return count;
}

void killing_start(struct killing *killing)
{
	int end[2], said[2];
	unsigned long count;

	if (pipe2(end, O_CLOEXEC) < 0 || pipe2(said, O_CLOEXEC) < 0)
		abort();
	(void)fflush(NULL); /* a child must not print it again */
	killing->pid = fork();
	if (killing->pid == 0) {
		fd_close(end[1]);
		count = kill_until(killing, end[0]);
		_exit(write(said[1], &count, sizeof(count)) == sizeof(count)
			      ? EXIT_SUCCESS
			      : EXIT_FAILURE);
	}
	if (killing->pid < 0)
		abort();
	fd_close(end[0]);
	fd_close(said[1]);
	killing->end_fd = end[1];
	killing->count_fd = said[0];
}

unsigned long killing_stop(struct killing *killing)
{
	unsigned long count = 0;

	fd_close(killing->end_fd);
	if (read(killing->count_fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	fd_close(killing->count_fd);
	(void)waitpid(killing->pid, NULL, 0); /* is our child */
	return count;
}
