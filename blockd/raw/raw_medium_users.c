/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/raw_medium_users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/kernel/mount_ns.h"
#include "base/process_fd.h"
#include "blockd/local/loopdev_users.h"

#define TRIES     20u
#define TRY_USEC  100000u
#define SYSFS_MAX 4096 /* bytes that fstat(2) says of any attribute */

struct others {
	const char *path; /* without links in it */
	bool is_device;
	dev_t device; /* then */
	char *text;
};

/* Each entry but "." and ".."; other than false ends it. */
static bool each_entry(const char *path,
		       bool (*each)(struct others *others, int dirfd,
				    const char *name),
		       struct others *others)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			found = each(others, dirfd(dir), entry->d_name);
	if (dir)
		(void)closedir(dir); /* was only read */
	return found;
}

/* ---- programs ---- */

/* By what the link says: a file on a silent server does not answer. */
static bool has_it(struct others *others, int dirfd, const char *name)
{
	char target[PATH_MAX];
	ssize_t n;

	if (others->is_device)
		return process_fd_is_device(dirfd, name, others->device);
	n = readlinkat(dirfd, name, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strcmp(target, others->path) == 0;
}

static bool of_process(struct others *others, int dirfd, const char *name)
{
	const struct mount_ns process = {.pid = name};
	char path[64], user[MOUNT_NS_USER_MAX];

	(void)dirfd;
	if (name[0] < '1' || name[0] > '9' ||
	    strtol(name, NULL, 10) == (long)getpid())
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%.16s/fd", name);
	if (!each_entry(path, has_it, others))
		return false;
	mount_ns_user(&process, user);
	(void)snprintf(others->text, RAW_MEDIUM_USERS_MAX, "open in %s", user);
	return true;
}

/* ---- what is mounted, what is on top ---- */

static int mounted(void *context, const struct mount_ns *space)
{
	const struct others *others = context;
	auto_free char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, space->mounts) > 0) {
		dev_t device;
		int at;

		if (!mount_ns_line(line, &device, &at) ||
		    device != others->device)
			continue;
		line[at + (int)strcspn(line + at, " ")] = '\0';
		(void)snprintf(others->text, RAW_MEDIUM_USERS_MAX,
			       "mounted at '%.100s'", line + at);
		return 1;
	}
	return 0;
}

static bool of_holder(struct others *others, int dirfd, const char *name)
{
	auto_free char *mapper = NULL;
	char path[NAME_MAX + 16];
	size_t length;

	(void)snprintf(path, sizeof(path), "%s/dm/name", name);
	if (file_read(dirfd, path, SYSFS_MAX, &mapper, &length, NULL) == 0)
		mapper[strcspn(mapper, "\n")] = '\0';
	(void)snprintf(others->text, RAW_MEDIUM_USERS_MAX, "held by %.64s",
		       mapper ?: name);
	return true;
}

static bool is_claimed(struct others *others)
{
	char path[64];

	if (mount_ns_walk(mounted, others) == 1)
		return true;
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders",
		       major(others->device), minor(others->device));
	return each_entry(path, of_holder, others);
}

/* The same of a part of the device, if this entry is one. */
static bool of_part(struct others *others, int dirfd, const char *name)
{
	struct others part = *others;
	auto_free char *text = NULL;
	char path[NAME_MAX + 16];
	unsigned major_number, minor_number;
	size_t length;

	(void)snprintf(path, sizeof(path), "%s/partition", name);
	if (faccessat(dirfd, path, F_OK, 0) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/dev", name);
	if (file_read(dirfd, path, SYSFS_MAX, &text, &length, NULL) < 0 ||
	    sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return false;
	part.device = makedev(major_number, minor_number);
	return is_claimed(&part);
}

/* ---- the questions ---- */

static bool is_open_in_a_program(struct others *others)
{
	return each_entry("/proc", of_process, others);
}

static char *others_init(struct others *others, const char *path, char *text)
{
	char *real = realpath(path, NULL);
	struct stat st;

	*others = (struct others){.path = real ?: path, .text = text};
	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode)) {
		others->is_device = true;
		others->device = st.st_rdev;
	}
	return real;
}

bool raw_medium_users_find(const char *path, char *ret)
{
	struct others others;
	auto_free char *real = others_init(&others, path, ret);
	char parts[64];

	if (others.is_device && is_claimed(&others))
		return true;
	(void)snprintf(parts, sizeof(parts), "/sys/dev/block/%u:%u",
		       major(others.device), minor(others.device));
	if (others.is_device && each_entry(parts, of_part, &others))
		return true;
	return is_open_in_a_program(&others);
}

/* Now: @text is "" where it is not known by whom. */
static bool is_open(int fd, struct others *others)
{
	int r;

	others->text[0] = '\0';
	if (others->is_device)
		return is_open_in_a_program(others);
	r = loopdev_user_lease(fd, F_WRLCK);
	/* Others than -EAGAIN: there are no leases, so nothing is known. */
	if (r == -EAGAIN)
		(void)is_open_in_a_program(others);
	return r == -EAGAIN;
}

int raw_medium_users_check(int fd, const char *path, struct error *err)
{
	char text[RAW_MEDIUM_USERS_MAX];
	struct others others;
	auto_free char *real = others_init(&others, path, text);

	for (unsigned i = 0; i < TRIES; i++) {
		if (!is_open(fd, &others))
			return 0;
		(void)usleep(TRY_USEC);
	}
	return error_set(err, EBUSY, "'%s' is in use: %s", path,
			 text[0] ? text : "another program has it open");
}
