/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process is alive, as its line in /proc says. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"

#define FDINFO_MAX 4096 /* bytes */

/* proc(5), /proc/PID/stat */
struct stat_line {
	char state;
	unsigned long flags;
	long threads;
	unsigned long long start_ticks;
	long exit_code; /* as of wait(2); 0: none, or not for us to see */
};

#define STAT_FLAGS     9 /* the number of the field; the first is 1 */
#define STAT_THREADS   20
#define STAT_START     22
#define STAT_EXIT_CODE 52

#define FLAG_EXITING 0x4 /* PF_EXITING of the kernel's <linux/sched.h> */

static int stat_read(pid_t pid, struct stat_line *ret)
{
	auto_free char *text = NULL;
	char path[64], *at;
	size_t length;
	int i, r;

	if (pid <= 0)
		return -ESRCH;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid); /* fits */
	r = file_read(AT_FDCWD, path, 65536, &text, &length, NULL);
	if (r == -ENOENT)
		return -ESRCH;
	if (r < 0)
		return r;
	/* Field 2 is the name and may hold anything; the last ')' ends it. */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || !at[2])
		return -EPROTO;
	*ret = (struct stat_line){.state = at[2]};
	for (i = 4, at++; (at = strchr(at + 1, ' ')); i++)
		switch (i) {
		case STAT_FLAGS: ret->flags = strtoul(at, NULL, 10); break;
		case STAT_THREADS: ret->threads = strtol(at, NULL, 10); break;
		case STAT_START:
			ret->start_ticks = strtoull(at, NULL, 10);
			break;
		case STAT_EXIT_CODE:
			ret->exit_code = strtol(at, NULL, 10);
			break;
		default: break;
		}
	return i > STAT_START ? 0 : -EPROTO;
}

int process_start_time(pid_t pid, unsigned long long *ret_ticks)
{
	struct stat_line line;
	int r = stat_read(pid, &line);

	if (r == 0)
		*ret_ticks = line.start_ticks;
	return r;
}

bool process_alive(pid_t pid, unsigned long long start_ticks)
{
	struct stat_line line;

	if (stat_read(pid, &line) < 0 || line.start_ticks != start_ticks)
		return false;
	return line.threads > 1 || (line.state != 'Z' && line.state != 'X');
}

pid_t process_of_pidfd(int pidfd)
{
	static const char key[] = "\nPid:";
	auto_free char *text = NULL;
	const char *at;
	char path[64];
	size_t length;
	long pid;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d",
		       pidfd); /* fits */
	if (file_read(AT_FDCWD, path, FDINFO_MAX, &text, &length, NULL) < 0)
		return 0;
	at = strstr(text, key);
	pid = at ? strtol(at + strlen(key), NULL, 10) : 0;
	return pid > 0 ? (pid_t)pid : 0; /* -1: it is reaped */
}

/*
 * Is it that of a signal that ends a process? The kernel has it from the kill
 * on; of a stopped process it has the signal that stops.
 */
static bool is_fatal(long exit_code)
{
	switch (exit_code & 0x7f) {
	case 0:
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU: return false;
	default: return true;
	}
}

bool process_is_ending(pid_t pid, unsigned long long start_ticks)
{
	struct stat_line line;

	if (stat_read(pid, &line) < 0 || line.start_ticks != start_ticks)
		return true;
	return is_fatal(line.exit_code) ||
	       (line.threads <= 1 && (line.flags & FLAG_EXITING ||
				      line.state == 'Z' || line.state == 'X'));
}
