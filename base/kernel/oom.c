/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"

#define TEXT_MAX 16 /* bytes */

int oom_read(int *ret)
{
	auto_free char *text = NULL;
	size_t length;
	int r = file_read(AT_FDCWD, "/proc/self/oom_score_adj", TEXT_MAX, &text,
			  &length, NULL);

	if (r == 0)
		*ret = atoi(text);
	return r;
}

int oom_protect(void)
{
	int score = 0;

	(void)oom_read(&score);      /* most have 0 */
	(void)oom_set(0, OOM_NEVER); /* without the right, as it was */
	return score;
}

int oom_start(int score, const char *const *argv, int log_fd, int pass_fd,
	      pid_t *ret_pid, struct error *err)
{
	int r;

	(void)oom_set(0, score); /* what it was, which is inherited */
	r = process_start(argv, log_fd, pass_fd, ret_pid, err);
	(void)oom_protect();
	return r;
}

int oom_set(pid_t pid, int score)
{
	char path[48] = "/proc/self/oom_score_adj", text[TEXT_MAX];
	int n = snprintf(text, sizeof(text), "%d", score); /* fits */

	if (pid)
		(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj",
			       (int)pid); /* fits */
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);
}
