/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/kernel/mount_ns.h"
#include "base/process_fd.h"

#define WAIT_STEP_MS 10
#define MOMENT_MS    200
#define BUSY_MS      3000
#define LOCKED_MS    10000 /* longer than most checks and mkfs */

/* Find where this device is mounted in our mount namespace. */
static bool find_mount(dev_t device, char *ret, size_t size)
{
	auto_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t space = 0;
	unsigned ma, mi;
	int at;

	/* proc(5): id, parent, major:minor, root, mount point */
	while (f && getline(&line, &space, f) > 0) {
		if (sscanf(line, "%*u %*u %u:%u %*s %n", &ma, &mi, &at) != 2)
			continue;
		if (ma != major(device) || mi != minor(device))
			continue;
		line[at + (int)strcspn(line + at, " \n")] = 0;
		(void)snprintf(ret, size, "%s", line + at);
		return true;
	}
	return false;
}

/* Say which device, and the line that ends it. */
static void describe_holder(const char *name, char *ret, size_t size)
{
	char text[160], uuid[160] = "";

	if (device_attribute(name, "dm/name", text, sizeof(text)) == 0 &&
	    device_attribute(name, "dm/uuid", uuid, sizeof(uuid)) == 0)
		(void)snprintf(ret, size,
			       "/dev/mapper/%.60s: `%s/dev/mapper/%.60s`", text,
			       strncmp(uuid, "LVM-", 4) == 0
				       ? "lvchange -an "
				       : "dmsetup remove ",
			       text);
	else if (device_attribute(name, "md/level", text, sizeof(text)) == 0)
		(void)snprintf(ret, size,
			       "/dev/%.60s: `mdadm --stop /dev/%.60s`", name,
			       name);
	else
		(void)snprintf(ret, size, "/dev/%.200s", name);
}

/* Find a device mapper, md or other device above this one. */
static bool find_holder(dev_t device, char *ret, size_t size)
{
	char path[128];
	struct dirent *e;
	DIR *dir;
	bool found = false;

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders",
		       major(device), minor(device));
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		describe_holder(e->d_name, ret, size);
		found = true;
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

/* Open a device alone. A descriptor, or a negative errno. */
static int open_at_once(const char *path, int flags)
{
	int fd = open(path, flags | O_EXCL | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/*
 * The same, with a wait while it is busy. The kernel lets go of a device a
 * moment after its last mount is gone, if another than that umount closed the
 * last file.
 */
static int open_exclusive(const char *path, int flags)
{
	int64_t end = clock_ms() + BUSY_MS;
	int fd;

	while ((fd = open_at_once(path, flags)) == -EBUSY && clock_ms() < end)
		(void)poll(NULL, 0, WAIT_STEP_MS);
	return fd;
}

static bool has_open(const char *pid, dev_t device)
{
	char path[64];
	struct dirent *e;
	bool has = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	dir = opendir(path);
	while (dir && !has && (e = readdir(dir)))
		has = process_fd_is_device(dirfd(dir), e->d_name, device);
	if (dir)
		(void)closedir(dir);
	return has;
}

/*
 * A program that looks at all devices of the machine has each open for a
 * moment, as loopdev_find() has and udev: it keeps nobody from the device.
 */
static bool has_open_long(const char *pid, dev_t device)
{
	if (!has_open(pid, device))
		return false;
	(void)poll(NULL, 0, MOMENT_MS);
	return has_open(pid, device);
}

/* Find another program that has the device open: "e2fsck (4711)". */
static bool find_user(dev_t device, char *ret, size_t size, pid_t *ret_pid)
{
	DIR *dir = opendir("/proc");
	char path[64], name[16];
	struct dirent *e;
	bool found = false;
	FILE *f;

	while (dir && !found && (e = readdir(dir))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' ||
		    atoi(e->d_name) == getpid() ||
		    !has_open_long(e->d_name, device))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%.16s/comm",
			       e->d_name);
		f = fopen(path, "re");
		found = f && fscanf(f, "%15[^\n]", name) == 1;
		if (found)
			(void)snprintf(ret, size, "%s (%.10s)", name,
				       e->d_name);
		*ret_pid = atoi(e->d_name);
		if (f)
			(void)fclose(f);
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

/* Somebody has it locked. */
static int locked(const char *path, dev_t device, struct error *err)
{
	char user[MOUNT_NS_USER_MAX];
	pid_t pid = 0;

	if (find_user(device, user, sizeof(user), &pid))
		return error_set(err, EBUSY,
				 "%s is in use by %s: wait for it, or `kill "
				 "%d`",
				 path, user, (int)pid);
	return error_set(err, EBUSY, "%s is in use: open exclusively", path);
}

/*
 * Somebody has it open exclusively. A file system does, if there is one, though
 * other programs have it open, too.
 */
static int busy(const char *path, dev_t device, struct error *err)
{
	char user[MOUNT_NS_USER_MAX];
	pid_t pid = 0;

	if (mount_ns_has_elsewhere(device, user, &pid))
		return error_set(err, EBUSY,
				 "%s is mounted in another mount namespace, "
				 "that of %s: `nsenter -t %d -m umount %s`",
				 path, user, (int)pid, path);
	return locked(path, device, err);
}

int device_lock(const char *path, int *ret_fd, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t end = clock_ms() + LOCKED_MS;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno == ENXIO ? ENODEV : errno,
				 "open '%s': %s", path, strerror(errno));
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_set(err, errno, "lock '%s': %s", path,
					 strerror(errno));
		if (clock_ms() >= end)
			return locked(path, st.st_rdev, err);
		(void)poll(NULL, 0, WAIT_STEP_MS);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int device_settle(const char *path, struct error *err)
{
	int fd = -1, r = device_lock(path, &fd, err);

	fd_close(fd);
	return r;
}

/* 0, or -EBUSY: a mount or another device has it. */
static int above(const char *path, dev_t device, struct error *err)
{
	char user[256];

	if (find_mount(device, user, sizeof(user)))
		return error_set(err, EBUSY,
				 "%s is mounted at %s: unmount it first", path,
				 user);
	if (find_holder(device, user, sizeof(user)))
		return error_set(err, EBUSY, "%s is in use by %s", path, user);
	return 0;
}

int device_busy(const char *path, struct error *err)
{
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return error_set(err, EBUSY, "%s is in use", path);
	r = above(path, st.st_rdev, err);
	return r < 0 ? r : busy(path, st.st_rdev, err);
}

bool device_is_held_elsewhere(const char *path)
{
	char user[MOUNT_NS_USER_MAX];
	struct error why = {0};
	struct stat st;
	pid_t pid;
	int fd;

	if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode) ||
	    above(path, st.st_rdev, &why) < 0)
		return false;
	fd = open_at_once(path, O_RDONLY);
	if (fd == -EBUSY && !mount_ns_has_elsewhere(st.st_rdev, user, NULL))
		fd = open_exclusive(path, O_RDONLY);
	if (fd == -EBUSY)
		return !find_user(st.st_rdev, user, sizeof(user), &pid);
	fd_close(fd);
	return false;
}

int device_open_idle(const char *path, int *ret_fd, struct error *err)
{
	struct stat st;
	int fd, r;

	if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode))
		return error_set(err, ENODEV, "'%s' is not there", path);
	r = device_settle(path, err);
	if (r < 0)
		return r;
	if (above(path, st.st_rdev, err) < 0)
		return -EBUSY;
	fd = open_exclusive(path, O_RDWR);
	if (fd == -EROFS || fd == -EACCES)
		fd = open_exclusive(path, O_RDONLY);
	if (fd == -EBUSY)
		return busy(path, st.st_rdev, err);
	if (fd < 0)
		return error_set(err, fd == -ENXIO ? ENODEV : -fd,
				 "open '%s': %s", path, strerror(-fd));
	*ret_fd = fd;
	return 0;
}

int device_size(const char *path, uint64_t *ret, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, ret) < 0)
		return error_set(err, errno, "size of '%s': %s", path,
				 strerror(errno));
	return 0;
}

int device_attribute(const char *name, const char *attribute, char *ret,
		     unsigned size)
{
	char path[160];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/sys/block/%s/%s", name, attribute);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = 0;
	if (n && ret[n - 1] == '\n')
		ret[n - 1] = 0;
	return 0;
}

bool device_wait_gone(const char *name, const char *attribute, int timeout_ms)
{
	int64_t end = clock_ms() + timeout_ms;
	char path[160];

	(void)snprintf(path, sizeof(path), "/sys/block/%s/%s", name, attribute);
	/* Poll: there is no event for a sysfs entry. */
	while (!access(path, F_OK)) {
		if (clock_ms() >= end)
			return false;
		(void)poll(NULL, 0, WAIT_STEP_MS);
	}
	return true;
}

int device_tag(int dirfd, const char *id, char *ret, struct error *err)
{
	/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	uint8_t bytes[16 + 256];
	size_t length = strlen(id);
	struct stat st;

	if (fstat(dirfd, &st) < 0)
		return error_set(err, errno, "state directory: %s",
				 strerror(errno));
	if (length > 256)
		return error_set(err, ENAMETOOLONG, "id too long");
	memcpy(bytes, &st.st_dev, 8);
	memcpy(bytes + 8, &st.st_ino, 8);
	memcpy(bytes + 16, id, length);
	for (size_t i = 0; i < 16 + length; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	(void)snprintf(ret, DEVICE_TAG_MAX, "trib-%016llx",
		       (unsigned long long)hash);
	return 0;
}
