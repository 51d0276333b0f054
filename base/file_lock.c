/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_lock.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

#define LOOK_MS    10
#define FDINFO_MAX 65536 /* bytes */

/* What the file says; pid 0: nothing, so its owner is just beginning. */
struct lock_owner {
	int pid;
	unsigned long long start_ticks; /* 0: not said */
};

static struct lock_owner read_owner(int fd)
{
	struct lock_owner owner = {0};
	char text[64];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "%d %llu", &owner.pid, &owner.start_ticks) < 1 ||
	    owner.pid <= 0)
		owner = (struct lock_owner){0};
	return owner;
}

static bool owner_stays(const struct lock_owner *owner)
{
	unsigned long long ticks = owner->start_ticks;

	return owner->pid &&
	       (ticks || process_start_time(owner->pid, &ticks) == 0) &&
	       !process_is_ending(owner->pid, ticks);
}

/* ---- who has it ---- */

/* Read where @name, a link in @dirfd, leads to. False: it is too long, too. */
static bool read_link(int dirfd, const char *name, char *ret)
{
	ssize_t n = readlinkat(dirfd, name, ret, PATH_MAX - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0 && n < PATH_MAX - 1;
}

/* Is this descriptor of the process @dirfd a locked one? */
static bool is_locked(int dirfd, const char *number)
{
	auto_free char *text = NULL;
	char path[NAME_MAX + 16];
	size_t length;

	(void)snprintf(path, sizeof(path), "fdinfo/%s", number); /* fits */
	return file_read(dirfd, path, FDINFO_MAX, &text, &length, NULL) == 0 &&
	       strstr(text, "FLOCK");
}

/* Has the process @dirfd (/proc/PID) the file @path open and locked? */
static bool has_lock(int dirfd, const char *path)
{
	char target[PATH_MAX];
	const struct dirent *entry;
	bool has = false;
	int fds = openat(dirfd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fds < 0 ? NULL : fdopendir(fds);

	if (!dir)
		fd_close(fds);
	/* By the link: to ask a file on a silent server would hang. */
	while (dir && !has && (entry = readdir(dir)))
		has = read_link(fds, entry->d_name, target) &&
		      strcmp(target, path) == 0 &&
		      is_locked(dirfd, entry->d_name);
	if (dir)
		(void)closedir(dir); /* was only read */
	return has;
}

/* Find the process that has @fd's file locked; 0: it is not seen from here. */
static int find_holder(int fd)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	char link[64], path[PATH_MAX];
	int pid = 0;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	while (proc && read_link(AT_FDCWD, link, path) && !pid &&
	       (entry = readdir(proc))) {
		auto_close int dir = -1;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    atoi(entry->d_name) == getpid())
			continue;
		dir = openat(dirfd(proc), entry->d_name,
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir >= 0 && has_lock(dir, path))
			pid = atoi(entry->d_name);
	}
	if (proc)
		(void)closedir(proc); /* was only read */
	return pid;
}

static void name_process(int pid, char *ret)
{
	auto_free char *name = NULL;
	char path[64];
	size_t length;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid); /* fits */
	if (file_read(AT_FDCWD, path, 64, &name, &length, NULL) == 0)
		name[strcspn(name, "\n")] = '\0';
	(void)snprintf(ret, FILE_LOCK_WHO_MAX, "%.32s (pid %d)",
		       name ? name : "a process", pid);
}

static void name_holder(int fd, const struct lock_owner *owner, char *ret)
{
	int pid = owner_stays(owner) ? owner->pid : find_holder(fd);
	size_t n;

	if (pid)
		name_process(pid, ret);
	else
		(void)snprintf(ret, FILE_LOCK_WHO_MAX,
			       "a process that is not seen from here");
	n = strlen(ret);
	if (owner->pid && pid != owner->pid)
		(void)snprintf(ret + n, FILE_LOCK_WHO_MAX - n,
			       ", left by pid %d, which ended", owner->pid);
}

/* ---- the lock ---- */

int file_lock_take(int fd, char *who)
{
	int64_t end_ms = clock_ms() + FILE_LOCK_MS;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		struct lock_owner owner;

		if (errno != EWOULDBLOCK)
			return -errno;
		owner = read_owner(fd);
		if (owner_stays(&owner) || clock_ms() >= end_ms) {
			name_holder(fd, &owner, who);
			return -EBUSY;
		}
		(void)poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

int file_lock_sign(int fd)
{
	unsigned long long ticks = 0;
	char text[64];
	int length;

	(void)process_start_time(getpid(), &ticks); /* or not said */
	length = snprintf(text, sizeof(text), "%d %llu\n", (int)getpid(),
			  ticks);
	if (ftruncate(fd, 0) < 0)
		return -errno;
	return pwrite(fd, text, (size_t)length, 0) < 0 ? -errno : 0;
}
