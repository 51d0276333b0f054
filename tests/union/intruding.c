/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/intruding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

#define BETWEEN_MS 100 /* at most */

/* Some of the branches, in another order. */
static char *choose(const struct intruding *in, struct dice *dice)
{
	unsigned first = dice_roll(dice, in->count);
	unsigned i, n = 1 + dice_roll(dice, in->count);
	char *list = NULL;
	size_t size;
	FILE *text = open_memstream(&list, &size);

	if (!text)
		abort();
	for (i = 0; i < n; i++)
		(void)fprintf(text, "%s%s", i ? ":" : "",
			      in->branches[(first + i) % in->count]);
	if (fclose(text) != 0)
		abort();
	return list;
}

/* Try to mount one; true: it is mounted. */
static bool try_one(const struct intruding *in, struct dice *dice,
		    const char *point)
{
	static const char *const options[] = {"ro", "shared", "survive=no",
					      "policy=rand"};
	auto_free char *list = choose(in, dice);
	const char *argv[] = {in->program, "-o",  options[dice_roll(dice, 4)],
			      list,        point, NULL};
	pid_t pid = fork();
	int status, fd;

	if (pid == 0) {
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			(void)dup2(fd, STDERR_FILENO); /* it is refused */
		(void)execvp(in->program, (char **)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		abort();
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return false;
	(void)umount2(point, MNT_DETACH); /* for who comes after */
	return true;
}

static unsigned long intrude_until(const struct intruding *in, int end)
{
	struct pollfd over = {.fd = end, .events = POLLIN};
	unsigned long count = 0;
	char point[PATH_MAX];
	struct dice dice;

	(void)snprintf(point, sizeof(point), "%s/mnt2", in->dir);
	if (mkdir(point, 0755) < 0 && errno != EEXIST)
		abort();
	dice_init(&dice, in->seed ^ 0x1e7d);
	while (poll(&over, 1, 1 + (int)dice_roll(&dice, BETWEEN_MS)) == 0)
		count += try_one(in, &dice, point);
	return count;
}

void intruding_start(struct intruding *intruding)
{
	int end[2], said[2];
	unsigned long count;

	if (pipe2(end, O_CLOEXEC) < 0 || pipe2(said, O_CLOEXEC) < 0)
		abort();
	(void)fflush(NULL); /* a child must not print it again */
	intruding->pid = fork();
	if (intruding->pid == 0) {
		fd_close(end[1]);
		count = intrude_until(intruding, end[0]);
		_exit(write(said[1], &count, sizeof(count)) == sizeof(count)
			      ? EXIT_SUCCESS
			      : EXIT_FAILURE);
	}
	if (intruding->pid < 0)
		abort();
	fd_close(end[0]);
	fd_close(said[1]);
	intruding->end_fd = end[1];
	intruding->count_fd = said[0];
}

unsigned long intruding_stop(struct intruding *intruding)
{
	unsigned long count = 1; /* it died */

	fd_close(intruding->end_fd);
	if (read(intruding->count_fd, &count, sizeof(count)) != sizeof(count))
		count = 1;
	fd_close(intruding->count_fd);
	(void)waitpid(intruding->pid, NULL, 0); /* is our child */
	return count;
}
