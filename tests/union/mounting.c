/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 30000 /* times a millisecond */

extern char **environ;

static char *join_branches(char *const *branches, unsigned count)
{
	size_t size = 1;
	char *list;
	unsigned i;

	for (i = 0; i < count; i++)
		size += strlen(branches[i]) + 1;
	list = calloc(1, size);
	if (!list)
		abort();
	for (i = 0; i < count; i++) {
		if (i)
			strcat(list, ":");
		strcat(list, branches[i]);
	}
	return list;
}

int mounting_start(struct mounting *m, const char *options,
		   char *const *branches, unsigned count)
{
	const char *argv[] = {m->program, "-f",     "-o", options,
			      NULL,       m->point, NULL};
	posix_spawn_file_actions_t actions;
	struct stat before, now;
	char log[4096];
	char *list;
	int i, r;

	if (stat(m->point, &before) < 0)
		return -errno;
	argv[4] = list = join_branches(branches, count);
	(void)snprintf(log, sizeof(log), "%s.log", m->point);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 2, log,
					 O_WRONLY | O_CREAT | O_APPEND, 0644);
	r = posix_spawn(&m->pid, m->program, &actions, NULL, (char **)argv,
			environ);
	posix_spawn_file_actions_destroy(&actions);
	free(list);
	if (r)
		return -r;
	for (i = 0; i < PATIENCE; i++) {
		if (stat(m->point, &now) == 0 && now.st_dev != before.st_dev)
			return 0;
		if (waitpid(m->pid, NULL, WNOHANG) == m->pid)
			return -ECHILD;
		(void)usleep(1000);
	}
	return -ETIMEDOUT;
}

int mounting_stop(struct mounting *m)
{
	int i, status, r = 0;

	if (umount2(m->point, UMOUNT_NOFOLLOW) < 0) {
		r = -errno;
		(void)umount2(m->point, MNT_DETACH);
	}
	for (i = 0; i < PATIENCE; i++) {
		if (waitpid(m->pid, &status, WNOHANG) == m->pid)
			return r < 0 ? r : status;
		(void)usleep(1000);
	}
	(void)kill(m->pid, SIGKILL);
	(void)waitpid(m->pid, NULL, 0); /* is our child */
	return -ETIMEDOUT;
}
