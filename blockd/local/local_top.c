/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local/local_top.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define SYS_BLOCK "/sys/block"
#define GONE_MS   3000
#define STEP_MS   10

struct top {
	char device[32]; /* "dm-3" */
	char name[MAPPER_NAME_MAX];
	char uuid[MAPPER_NAME_MAX];
};

/* One line of /sys/block/DEVICE/dm/WHAT. */
static bool read_line(const char *device, const char *what, char *ret)
{
	char path[96];
	ssize_t n = -1;

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%.24s/dm/%s", device,
		       what);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, ret, MAPPER_NAME_MAX - 1);
	if (n <= 0)
		return false;
	ret[n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return true;
}

/* The one holder, when it is ours. */
static bool find_top(const char *loop, struct top *ret)
{
	char path[96];
	const struct dirent *e;
	unsigned count = 0;
	bool ours = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%.24s/holders", loop);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		count++;
		(void)snprintf(ret->device, sizeof(ret->device), "%.24s",
			       e->d_name);
		ours = read_line(e->d_name, "uuid", ret->uuid) &&
		       read_line(e->d_name, "name", ret->name) &&
		       strncmp(ret->uuid, MAPPER_UUID_PREFIX,
			       strlen(MAPPER_UUID_PREFIX)) == 0;
	}
	if (dir)
		(void)closedir(dir); /* was only read */
	return count == 1 && ours;
}

bool local_top_find(const char *loop, char ret[static MAPPER_NAME_MAX])
{
	struct top top;

	if (!find_top(loop, &top))
		return false;
	memcpy(ret, top.name, sizeof(top.name));
	return true;
}

bool local_top_uuid(const char *loop, char ret[static MAPPER_NAME_MAX])
{
	struct top top;

	if (!find_top(loop, &top))
		return false;
	memcpy(ret, top.uuid, sizeof(top.uuid));
	return true;
}

static int unbind(const char *loop, struct error *err)
{
	int64_t end = clock_ms() + GONE_MS;
	char path[96];
	int fd, r;

	(void)snprintf(path, sizeof(path), "/dev/%.24s", loop);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 || ioctl(fd, LOOP_CLR_FD, 0) < 0 ? -errno : 0;
	fd_close(fd);
	if (r < 0 && r != -ENXIO)
		return error_set(err, -r, "unbind %s: %s", path, strerror(-r));
	/* The kernel unbinds a device when its last opener closes it. */
	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%.24s/loop", loop);
	while (access(path, F_OK) == 0) {
		if (clock_ms() >= end)
			return error_set(err, EBUSY,
					 "/dev/%s is open itself, too", loop);
		(void)poll(NULL, 0, STEP_MS);
	}
	return 0;
}

static int cut_off(const char *loop, struct error *err)
{
	struct top top;
	int r;

	if (!find_top(loop, &top))
		return -EBUSY;
	r = mapper_fence(&mapper_kernel, top.uuid, MAPPER_LIMIT_MS, err);
	return r < 0 ? r : unbind(loop, err);
}

int local_top_cut_off(const char *loop, const char *extent)
{
	struct error err = {0};
	int r = cut_off(loop, &err);

	if (r < 0 && err.code)
		return log_error(r,
				 "extent %s: cut its user on this node off: "
				 "%s",
				 extent, error_text(&err));
	if (r == 0)
		log_warning("extent %s: its user on this node was cut off, and "
			    "/dev/%s unbound",
			    extent, loop);
	return r;
}
