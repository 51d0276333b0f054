/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/mounting.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"

#define PATIENCE        300000 /* times a millisecond */
#define BUSY_PATIENCE   60000
#define SAY_PATIENCE_MS 300000

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

/* Become the server. It ends with us, as the mount namespace may. */
static void run_server(const char *program, const char *log, const char **argv)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
		_exit(127);
	(void)execvp(program, (char **)argv);
	_exit(127);
}

int mounting_start(struct mounting *m, const char *options,
		   char *const *branches, unsigned count)
{
	const char *argv[] = {m->program, "-f",     "-o", options,
			      NULL,       m->point, NULL};
	struct stat before, now;
	char log[4096];
	char *list;
	int i;

	if (stat(m->point, &before) < 0)
		return -errno;
	argv[4] = list = join_branches(branches, count);
	(void)snprintf(log, sizeof(log), "%s.log", m->point);
	(void)fflush(NULL); /* a child must not print it again */
	m->pid = fork();
	if (m->pid == 0)
		run_server(m->program, log, argv);
	free(list);
	if (m->pid < 0)
		return -EAGAIN;
	for (i = 0; i < PATIENCE; i++) {
		if (stat(m->point, &now) == 0 && now.st_dev != before.st_dev)
			return 0;
		if (waitpid(m->pid, NULL, WNOHANG) == m->pid)
			return -ECHILD;
		(void)usleep(1000);
	}
	return -ETIMEDOUT;
}

static int unmount(const char *point)
{
	int i, r = 0;

	for (i = 0; i < BUSY_PATIENCE; i++) {
		r = umount2(point, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
		if (r != -EBUSY)
			return r;
		(void)usleep(1000);
	}
	(void)umount2(point, MNT_DETACH); /* for who comes after */
	return r;
}

static int say_end(int status, char ret[MOUNTING_SAY_MAX])
{
	if (WIFSIGNALED(status))
		(void)snprintf(ret, MOUNTING_SAY_MAX, "signal %d",
			       WTERMSIG(status));
	else
		(void)snprintf(ret, MOUNTING_SAY_MAX, "exit status %d",
			       WEXITSTATUS(status));
	return status ? -ECHILD : 0;
}

int mounting_stop(struct mounting *m, char ret[MOUNTING_SAY_MAX])
{
	int i, status, r = unmount(m->point);

	if (r < 0)
		(void)snprintf(ret, MOUNTING_SAY_MAX, "unmount: %s",
			       strerror(-r));
	for (i = 0; i < PATIENCE; i++) {
		if (waitpid(m->pid, &status, WNOHANG) == m->pid)
			return r < 0 ? r : say_end(status, ret);
		(void)usleep(1000);
	}
	(void)kill(m->pid, SIGKILL);
	(void)waitpid(m->pid, NULL, 0); /* is our child */
	if (r == 0)
		(void)snprintf(ret, MOUNTING_SAY_MAX, "it does not end");
	return r < 0 ? r : -ETIMEDOUT;
}

char *mounting_status(const char *program, const char *dir)
{
	char socket[PATH_MAX];
	const char *const argv[] = {program, "--control", socket, "status",
				    NULL};
	struct process_result result = {0};
	char *said;

	(void)snprintf(socket, sizeof(socket), "%s/ctl", dir);
	if (process_run(argv, NULL, SAY_PATIENCE_MS, -1, &result, NULL) < 0)
		return NULL;
	said = result.out;
	result.out = NULL;
	process_result_done(&result);
	return said;
}

bool mounting_is_well(const char *program, const char *dir)
{
	auto_free char *said = mounting_status(program, dir);

	return said && strstr(said, "\"state\":\"ok\"") &&
	       !strstr(said, "\"state\":\"failed\"");
}
