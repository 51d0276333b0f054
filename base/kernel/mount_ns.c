/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel/mount_ns.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

/* Namespaces seen, by their inode numbers. */
struct seen {
	ino_t *items; /* owned */
	size_t count;
};

/* Was it not yet? Without memory it is looked at again. */
static bool seen_add(struct seen *seen, ino_t ns)
{
	ino_t *items;

	for (size_t i = 0; i < seen->count; i++)
		if (seen->items[i] == ns)
			return false;
	items = reallocarray(seen->items, seen->count + 1, sizeof(*items));
	if (items) {
		seen->items = items;
		items[seen->count++] = ns;
	}
	return true;
}

static int visit(int proc, const char *pid, mount_ns_each *each, void *context)
{
	char path[NAME_MAX + sizeof("/mountinfo")];
	struct mount_ns space = {.pid = pid};
	int fd, r;

	(void)snprintf(path, sizeof(path), "%.255s/mountinfo", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	space.mounts = fd < 0 ? NULL : fdopen(fd, "r");
	if (!space.mounts) {
		fd_close(fd); /* it has ended */
		return 0;
	}
	r = each(context, &space);
	(void)fclose(space.mounts); /* was only read */
	return r;
}

int mount_ns_walk(mount_ns_each *each, void *context)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	struct seen seen = {0};
	int r = 0;

	while (proc && r == 0 && (entry = readdir(proc))) {
		char path[NAME_MAX + sizeof("/ns/mnt")];
		struct stat ns;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		(void)snprintf(path, sizeof(path), "%s/ns/mnt", entry->d_name);
		if (fstatat(dirfd(proc), path, &ns, 0) == 0 &&
		    seen_add(&seen, ns.st_ino))
			r = visit(dirfd(proc), entry->d_name, each, context);
	}
	if (proc)
		(void)closedir(proc); /* was only read */
	free(seen.items);
	return r;
}

void mount_ns_user(const struct mount_ns *space, char *ret)
{
	auto_free char *name = NULL;
	char path[64];
	size_t length;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/comm", space->pid);
	if (file_read(AT_FDCWD, path, 64, &name, &length, NULL) == 0)
		name[strcspn(name, "\n")] = '\0';
	(void)snprintf(ret, MOUNT_NS_USER_MAX, "%.16s (%.16s)",
		       name ? name : "a process", space->pid);
}

/* "36 35 7:3 / /mnt rw,noatime - ext4 /dev/loop3 rw" */
bool mount_ns_line(const char *line, dev_t *ret_device, int *ret_target)
{
	unsigned major_number, minor_number;
	int at = 0;

	if (sscanf(line, "%*u %*u %u:%u %*s %n", &major_number, &minor_number,
		   &at) < 2 ||
	    at == 0 || line[at] != '/')
		return false;
	*ret_device = makedev(major_number, minor_number);
	*ret_target = at;
	return true;
}

struct search {
	dev_t device;
	ino_t ours;
	char *user;
	pid_t pid;
};

static int search(void *context, const struct mount_ns *space)
{
	struct search *s = context;
	auto_free char *line = NULL;
	size_t size = 0;
	char path[64];
	struct stat ns;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/ns/mnt", space->pid);
	if (stat(path, &ns) < 0 || ns.st_ino == s->ours)
		return 0;
	while (getline(&line, &size, space->mounts) > 0) {
		dev_t device;
		int target;

		if (mount_ns_line(line, &device, &target) &&
		    device == s->device) {
			mount_ns_user(space, s->user);
			s->pid = (pid_t)atoi(space->pid);
			return 1;
		}
	}
	return 0;
}

bool mount_ns_has_elsewhere(dev_t device, char *ret, pid_t *ret_pid)
{
	struct search s = {.device = device, .user = ret};
	struct stat ns;

	if (stat("/proc/self/ns/mnt", &ns) < 0)
		return false;
	s.ours = ns.st_ino;
	if (mount_ns_walk(search, &s) != 1)
		return false;
	if (ret_pid)
		*ret_pid = s.pid;
	return true;
}
