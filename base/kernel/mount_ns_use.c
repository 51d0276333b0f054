/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel/mount_ns_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/kernel/mount_ns.h"

/* Copies of one mount in a namespace; more are left out. */
#define MOUNTS_MAX 64

/* A process, and the mounts that it has of the file system. */
struct seen_mounts {
	int dir; /* /proc/PID */
	unsigned ids[MOUNTS_MAX];
	size_t n;
};

static void read_mounts(struct seen_mounts *seen, FILE *mountinfo, dev_t device)
{
	auto_free char *line = NULL;
	size_t size = 0;

	while (seen->n < MOUNTS_MAX && getline(&line, &size, mountinfo) > 0) {
		dev_t found;
		int target;

		if (mount_ns_line(line, &found, &target) && found == device)
			seen->ids[seen->n++] = (unsigned)strtoul(line, NULL,
								 10);
	}
}

/* "pos:\t0\nflags:\t02\nmnt_id:\t29\n" (proc(5)) */
static bool is_there(const struct seen_mounts *seen, int fdinfo,
		     const char *name)
{
	auto_free char *text = NULL;
	const char *at;
	size_t length;

	if (file_read(fdinfo, name, 4096, &text, &length, NULL) < 0)
		return false; /* closed meanwhile */
	at = strstr(text, "mnt_id:");
	for (size_t i = 0; at && i < seen->n; i++)
		if (seen->ids[i] == strtoul(at + strlen("mnt_id:"), NULL, 10))
			return true;
	return false;
}

static bool has_open_file(const struct seen_mounts *seen)
{
	int fd = openat(seen->dir, "fdinfo",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *all = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool found = false;

	while (all && !found && (entry = readdir(all)))
		found = entry->d_name[0] != '.' &&
			is_there(seen, dirfd(all), entry->d_name);
	if (all)
		(void)closedir(all); /* was only read */
	else
		fd_close(fd);
	return found;
}

/* A descriptor by O_PATH asks the file system nothing, and tells its mount. */
static bool works_there(const struct seen_mounts *seen)
{
	char path[64];
	auto_close int fd = openat(seen->dir, "cwd", O_PATH | O_CLOEXEC);

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	return fd >= 0 && is_there(seen, AT_FDCWD, path);
}

static bool process_uses(int dir, dev_t device)
{
	struct seen_mounts seen = {.dir = dir};
	int fd = openat(dir, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *mountinfo = fd < 0 ? NULL : fdopen(fd, "r");

	if (!mountinfo) {
		fd_close(fd); /* it has ended */
		return false;
	}
	read_mounts(&seen, mountinfo, device);
	(void)fclose(mountinfo); /* was only read */
	return seen.n > 0 && (has_open_file(&seen) || works_there(&seen));
}

bool mount_ns_use_elsewhere(dev_t device, char *ret)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct stat ours, ns;
	bool found = false;

	if (stat("/proc/self/ns/mnt", &ours) < 0)
		ours.st_ino = 0;
	while (proc && !found && (entry = readdir(proc))) {
		auto_close int dir = -1;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		dir = openat(dirfd(proc), entry->d_name,
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || fstatat(dir, "ns/mnt", &ns, 0) < 0 ||
		    ns.st_ino == ours.st_ino || !process_uses(dir, device))
			continue;
		mount_ns_user(&(struct mount_ns){.pid = entry->d_name}, ret);
		found = true;
	}
	if (proc)
		(void)closedir(proc); /* was only read */
	return found;
}
