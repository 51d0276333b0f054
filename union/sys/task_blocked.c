/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/task_blocked.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

#define WAITING_MAX 64    /* that are looked at; one is enough */
#define STATUS_MAX  16384 /* bytes of /proc/PID/task/TID/status */
#define PAUSE_MS    50

struct waiting {
	pid_t thread;
	unsigned long switches; /* another number: the call had returned */
};

/* Does the thread wait? A thread that has ended does not. */
static bool get_waiting(pid_t process, pid_t thread, struct waiting *ret)
{
	static const char switches[] = "\nvoluntary_ctxt_switches:";
	auto_free char *text = NULL;
	const char *state, *count;
	char path[64];
	size_t length;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/status", process,
		       thread); /* fits */
	if (file_read(AT_FDCWD, path, STATUS_MAX, &text, &length, NULL) < 0)
		return false;
	state = strstr(text, "\nState:\t");
	count = strstr(text, switches);
	if (!state || !count || state[strlen("\nState:\t")] != 'D')
		return false;
	*ret = (struct waiting){
		thread, strtoul(count + sizeof(switches) - 1, NULL, 10)};
	return true;
}

static size_t find_waiting(pid_t process, struct waiting *ret)
{
	const struct dirent *entry;
	char path[64];
	size_t count = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", process); /* fits */
	dir = opendir(path);
	while (dir && count < WAITING_MAX && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    get_waiting(process, (pid_t)strtol(entry->d_name, NULL, 10),
				&ret[count]))
			count++;
	if (dir)
		(void)closedir(dir);
	return count;
}

/* Keep the threads that still wait in the same call. */
static size_t keep_waiting(pid_t process, struct waiting *all, size_t count)
{
	struct waiting now;
	size_t i, kept = 0;

	for (i = 0; i < count; i++)
		if (get_waiting(process, all[i].thread, &now) &&
		    now.switches == all[i].switches)
			all[kept++] = now;
	return kept;
}

/* Count the threads that still wait after that; @all has them then. */
static size_t wait_on(pid_t process, struct waiting *all, size_t count,
		      int patience_ms)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
	int64_t end = clock_ms() + patience_ms;

	while (count && clock_ms() < end) {
		(void)nanosleep(&pause, NULL);
		count = keep_waiting(process, all, count);
	}
	return count;
}

pid_t task_blocked_thread(pid_t process, int patience_ms)
{
	struct waiting all[WAITING_MAX];
	size_t count = find_waiting(process, all);

	return wait_on(process, all, count, patience_ms) ? all[0].thread : 0;
}

bool task_is_blocked(pid_t process, pid_t thread, int patience_ms)
{
	struct waiting one;
	bool waits = get_waiting(process, thread, &one);

	return wait_on(process, &one, waits, patience_ms);
}
