/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/task_syscall.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define TEXT_MAX   4096  /* bytes of a file of proc */
#define WORDS_MAX  8     /* of syscall: its number, arguments, sp, pc */
#define PF_EXITING 0x4ul /* linux/sched.h */
#define OWN_FD     "/proc/self/fd/" /* as proc_path.h has it */

/* Read a file of the thread's folder in proc; owned, or NULL. */
static char *read_text(pid_t process, pid_t thread, const char *name)
{
	char path[96], *text = NULL;
	size_t length;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", process,
		       thread, name); /* fits */
	return file_read(AT_FDCWD, path, TEXT_MAX, &text, &length, NULL) < 0
		       ? NULL
		       : text;
}

/* Get its state, behind the name with any characters, and its flags. */
static bool get_state(pid_t process, pid_t thread, char *ret_state,
		      unsigned long *ret_flags)
{
	auto_free char *text = read_text(process, thread, "stat");
	const char *end = text ? strrchr(text, ')') : NULL;

	return end && sscanf(end + 1, " %c %*d %*d %*d %*d %*d %lu", ret_state,
			     ret_flags) == 2;
}

/* Get the number of a call and its six arguments. False: unknown. */
static bool get_call(pid_t process, pid_t thread, unsigned long *ret)
{
	auto_free char *text = read_text(process, thread, "syscall");

	return text &&
	       sscanf(text, "%lu %lx %lx %lx %lx %lx %lx", &ret[0], &ret[1],
		      &ret[2], &ret[3], &ret[4], &ret[5], &ret[6]) == 7;
}

/* Get the mount of descriptor @fd; -1: @fd is none. */
static int mount_of(pid_t process, pid_t thread, unsigned long fd)
{
	static const char key[] = "\nmnt_id:\t";
	auto_free char *text = NULL;
	const char *at;
	char name[32];

	if (fd > INT_MAX)
		return -1;
	(void)snprintf(name, sizeof(name), "fdinfo/%lu", fd); /* fits */
	text = read_text(process, thread, name);
	at = text ? strstr(text, key) : NULL;
	return at ? (int)strtol(at + sizeof(key) - 1, NULL, 10) : -1;
}

static bool is_fuse(pid_t process, pid_t thread, unsigned long fd)
{
	char path[96], target[16];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%lu", process,
		       thread, fd); /* fits */
	n = readlink(path, target, sizeof(target));
	return n == (ssize_t)strlen("/dev/fuse") &&
	       memcmp(target, "/dev/fuse", (size_t)n) == 0;
}

/* Get the descriptor in a path by proc_path(); ULONG_MAX: another path. */
static unsigned long fd_in_path(pid_t process, pid_t thread, unsigned long at)
{
	char path[96], text[sizeof(OWN_FD) + 10] = "";
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/mem", process,
		       thread); /* fits */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* A shorter read, at a page's end, has all of the path or another. */
	if (fd < 0 || at > LONG_MAX ||
	    pread(fd, text, sizeof(text) - 1, (off_t)at) < 0 ||
	    strncmp(text, OWN_FD, strlen(OWN_FD)) != 0)
		return ULONG_MAX;
	return strtoul(text + strlen(OWN_FD), NULL, 10);
}

/* Get the descriptor in the first words of the call, or in their path. */
static unsigned long first_fd(pid_t process, pid_t thread,
			      const unsigned long *call)
{
	if ((int)call[1] == AT_FDCWD)
		return fd_in_path(process, thread, call[2]);
	if (call[1] <= INT_MAX && mount_of(process, thread, call[1]) >= 0)
		return call[1];
	return fd_in_path(process, thread, call[1]);
}

static enum in_call look_at_call(pid_t process, pid_t thread, int *ret_mounts)
{
	unsigned long call[WORDS_MAX], fd;
	int mount;

	if (!get_call(process, thread, call))
		return IN_CALL_UNKNOWN;
	fd = first_fd(process, thread, call);
	if (fd <= INT_MAX && is_fuse(process, thread, fd))
		return IN_CALL_KERNEL;
	mount = mount_of(process, thread, fd);
	if (mount < 0)
		return IN_CALL_UNKNOWN;
	ret_mounts[0] = mount;
	ret_mounts[1] = -1;
	if (call[0] == SYS_copy_file_range)
		ret_mounts[1] = mount_of(process, thread, call[3]);
	return IN_CALL_MOUNTS;
}

enum in_call task_syscall_get(pid_t process, pid_t thread, int ret_mounts[2])
{
	unsigned long flags;
	char state;

	if (!get_state(process, thread, &state, &flags) || state == 'Z' ||
	    state == 'X' || flags & PF_EXITING)
		return IN_CALL_NONE;
	if (state != 'D')
		return IN_CALL_GOES_ON;
	return look_at_call(process, thread, ret_mounts);
}
