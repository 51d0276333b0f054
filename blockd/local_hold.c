/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local_hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

#define SYS_BLOCK "/sys/block"

/* Bound devices have a directory of attributes. */
static bool is_bound(const char *name)
{
	char path[sizeof(SYS_BLOCK) + NAME_MAX + sizeof("//loop")];

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%s/loop", name);
	return access(path, F_OK) == 0;
}

/* The device by its number, where /dev has no node for it. */
static int open_by_number(const char *name)
{
	char path[sizeof(SYS_BLOCK) + NAME_MAX + sizeof("//dev")];
	char node[64];
	unsigned major_number, minor_number;
	FILE *file;
	int fd, n;

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%u:%u", &major_number, &minor_number);
	(void)fclose(file); /* was only read */
	if (n != 2)
		return -EIO;
	(void)snprintf(node, sizeof(node), "/run/.tributary-loop-%d-%u",
		       (int)getpid(), minor_number);
	(void)unlink(node);
	if (mknod(node, S_IFBLK | 0600, makedev(major_number, minor_number)) <
	    0)
		return -errno;
	fd = open(node, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		fd = -errno;
	(void)unlink(node);
	return fd;
}

static int open_device(const char *name)
{
	char path[sizeof("/dev/") + NAME_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? open_by_number(name) : -errno;
}

/* 1: bound to a file; 0: not, or not any more. */
static int ask(const char *name, struct local_hold *ret)
{
	struct loop_info64 info;
	auto_close int fd = open_device(name);

	if (fd == -ENXIO || fd == -ENOENT || fd == -ENODEV)
		return 0; /* it has gone */
	if (fd < 0)
		return fd;
	if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return errno == ENXIO ? 0 : -errno;
	(void)snprintf(ret->name, sizeof(ret->name), "%.*s",
		       LOCAL_HOLD_NAME_MAX - 1, name);
	ret->device = info.lo_device;
	ret->inode = info.lo_inode;
	ret->read_only = info.lo_flags & LO_FLAGS_READ_ONLY;
	return 1;
}

static int add(struct local_holds *holds, const struct local_hold *hold)
{
	struct local_hold *items = realloc(holds->items,
					   (holds->count + 1) * sizeof(*items));

	if (!items)
		return -ENOMEM;
	items[holds->count++] = *hold;
	holds->items = items;
	return 0;
}

int local_holds_scan(struct local_holds *ret, struct error *err)
{
	struct local_holds holds = {0};
	DIR *dir = opendir(SYS_BLOCK);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return error_set(err, errno, "read '%s': %s", SYS_BLOCK,
				 strerror(errno));
	while (r >= 0 && (entry = readdir(dir))) {
		struct local_hold hold;

		if (strncmp(entry->d_name, "loop", 4) != 0 ||
		    !is_bound(entry->d_name))
			continue;
		r = ask(entry->d_name, &hold);
		if (r == 1)
			r = add(&holds, &hold);
		if (r < 0)
			(void)error_set(err, -r,
					"can't tell what /dev/%.32s holds: %s",
					entry->d_name, strerror(-r));
	}
	(void)closedir(dir); /* was only read */
	if (r < 0) {
		local_holds_done(&holds);
		return r;
	}
	*ret = holds;
	return 0;
}

void local_holds_done(struct local_holds *holds)
{
	free(holds->items);
	*holds = (struct local_holds){0};
}

const char *local_holds_find(const struct local_holds *holds, uint64_t device,
			     uint64_t inode, bool writers)
{
	for (size_t i = 0; i < holds->count; i++) {
		const struct local_hold *hold = &holds->items[i];

		if (hold->device == device && hold->inode == inode &&
		    !(writers && hold->read_only))
			return hold->name;
	}
	return NULL;
}
