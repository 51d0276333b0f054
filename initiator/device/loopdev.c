/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/loopdev.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CONTROL      "/dev/loop-control"
#define ATTACH_TRIES 64   /* others take free devices too */
#define NODE_TRIES   100  /* x 10 ms for udev to make a node */
#define ANSWER_MS    5000 /* a busy machine needs a while */
/* Others open a device for a moment: loopdev_find(). */
#define GONE_TIMEOUT_MS 10000

static_assert(LO_NAME_SIZE > DEVICE_TAG_MAX, "a tag fits in lo_file_name");

int loopdev_probe(struct error *err)
{
	auto_close int fd = open(CONTROL, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, ENODEV,
				 "no loop devices here (" CONTROL ": %s)",
				 strerror(errno));
	return 0;
}

/* Open the node of a new device, which may come a little after the device. */
static int open_node(const char *path, int flags)
{
	for (int i = 0;; i++) {
		int fd = open(path, flags | O_CLOEXEC);

		if (fd >= 0)
			return fd;
		if (errno != ENOENT || i == NODE_TRIES)
			return -errno;
		(void)poll(NULL, 0, 10);
	}
}

/*
 * Tell whether direct I/O works. The kernel may set it up and then fail each
 * request: overlayfs of Linux 6.1 does over a file system that has none
 * (tmpfs).
 */
static bool works_directly(int fd)
{
	_Alignas(DEVICE_BLOCK_SIZE) char block[DEVICE_BLOCK_SIZE];
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	auto_close int direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct < 0)
		return errno != EINVAL;
	return pread(direct, block, sizeof(block), 0) >= 0 || errno != EINVAL;
}

static int configure(int device, int fd, const char *tag, bool read_only,
		     bool direct)
{
	struct loop_config config = {
		.fd = (uint32_t)fd,
		.block_size = DEVICE_BLOCK_SIZE,
		.info.lo_flags = (direct ? LO_FLAGS_DIRECT_IO : 0) |
				 (read_only ? LO_FLAGS_READ_ONLY : 0),
	};

	(void)snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s",
		       tag);
	return ioctl(device, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

/*
 * Attach one device. 0, 1 (somebody else was faster: try another), or a
 * negative errno.
 */
static int attach_one(int control, int fd, const char *tag, bool read_only,
		      bool direct, char *ret, struct error *err)
{
	int number = ioctl(control, LOOP_CTL_GET_FREE);
	char path[DEVICE_PATH_MAX], dio[8] = "";
	int r;

	if (number < 0)
		return error_set(err, errno, "no free loop device: %s",
				 strerror(errno));
	(void)snprintf(path, sizeof(path), "/dev/loop%d", number);
	auto_close int device = open_node(path, read_only ? O_RDONLY : O_RDWR);
	if (device < 0)
		return error_set(err, -device, "open '%s': %s", path,
				 strerror(-device));
	/* Required: of a server, which may not answer a read. */
	r = configure(device, fd, tag, read_only, direct || works_directly(fd));
	if (r == -EBUSY || r == -ENXIO)
		return 1;
	if (r < 0)
		return error_set(err, -r, "LOOP_CONFIGURE %s: %s", path,
				 strerror(-r));
	(void)device_attribute(path + 5, "loop/dio", dio, sizeof(dio));
	if (direct && strcmp(dio, "1") != 0) {
		(void)ioctl(device, LOOP_CLR_FD, 0); /* the error is told */
		return error_set(err, EIO, "%s: the kernel refused direct I/O",
				 path);
	}
	memcpy(ret, path, sizeof(path));
	return 0;
}

int loopdev_attach(int fd, const char *tag, bool read_only, bool direct,
		   char *ret, struct error *err)
{
	auto_close int control = open(CONTROL, O_RDWR | O_CLOEXEC);
	int r = 1;

	if (control < 0)
		return loopdev_probe(err);
	for (int i = 0; i < ATTACH_TRIES && r == 1; i++)
		r = attach_one(control, fd, tag, read_only, direct, ret, err);
	if (r == 1)
		return error_set(err, EBUSY,
				 "no free loop device: others were faster %d "
				 "times",
				 ATTACH_TRIES);
	return r;
}

/* The kernel adds this to the path of a file that has no name any more. */
#define DELETED " (deleted)"

static bool ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	if (n > strlen(DELETED) && !strcmp(path + n - strlen(DELETED), DELETED))
		n -= strlen(DELETED);
	return n >= m && !strncmp(path + n - m, end, m);
}

static bool has_tag(const char *name, const char *tag)
{
	struct loop_info64 info;
	char path[DEVICE_PATH_MAX];

	(void)snprintf(path, sizeof(path), "/dev/%.24s", name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return false;
	info.lo_file_name[LO_NAME_SIZE - 1] = 0;
	return !strcmp((char *)info.lo_file_name, tag);
}

/* This process may last: no lock or other file of its parent stays with it. */
static void answer_alone(int out, const char *name, const char *tag)
{
	if (dup2(out, 0) == 0 && close_range(1, ~0U, 0) == 0 &&
	    has_tag(name, tag))
		(void)!write(0, "y", 1);
}

/*
 * Ask a device for its tag in another process, as the kernel asks the file for
 * its attributes. A process that asks a silent server is left to itself. It is
 * nobody's child, so it leaves no zombie.
 */
static bool asked_has_tag(const char *name, const char *tag)
{
	int ends[2];
	char answer = 0;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	auto_close int in = ends[0];
	child = _Fork();
	if (child == 0) {
		if (_Fork() == 0)
			answer_alone(ends[1], name, tag);
		_exit(0);
	}
	(void)close(ends[1]);
	if (child > 0)
		(void)waitpid(child, NULL, 0);
	return poll(&(struct pollfd){.fd = in, .events = POLLIN}, 1,
		    ANSWER_MS) == 1 &&
	       read(in, &answer, 1) == 1;
}

static bool is_ours(const char *name, const char *backing_end, const char *tag)
{
	char backing[PATH_MAX];

	if (strncmp(name, "loop", 4) != 0 ||
	    device_attribute(name, "loop/backing_file", backing,
			     sizeof(backing)) < 0)
		return false;
	return (!backing_end || ends_with(backing, backing_end)) &&
	       (!tag || asked_has_tag(name, tag));
}

/* Does it go when its last user closes it? */
static bool is_going(const char *name)
{
	char text[8];

	return device_attribute(name, "loop/autoclear", text, sizeof(text)) ==
		       0 &&
	       strcmp(text, "1") == 0;
}

int loopdev_find(const char *backing_end, const char *tag, char *ret)
{
	DIR *dir = opendir("/sys/block");
	bool stays = false;
	struct dirent *e;
	int r = -ENOENT;

	while (dir && !stays && (e = readdir(dir))) {
		if (!is_ours(e->d_name, backing_end, tag))
			continue;
		(void)snprintf(ret, DEVICE_PATH_MAX, "/dev/%.24s", e->d_name);
		stays = !is_going(e->d_name);
		r = 0;
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

int loopdev_check(const char *device, const char *path, struct error *err)
{
	struct loop_info64 info;
	struct stat st;

	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return error_set(err, ENODEV, "%s is gone", device);
	if (stat(path, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	if (info.lo_device != st.st_dev || info.lo_inode != st.st_ino)
		return error_set(err, ESTALE, "%s is not over '%s' any more",
				 device, path);
	if (info.lo_flags & LO_FLAGS_AUTOCLEAR)
		return error_set(err, ESTALE,
				 "%s goes away when its last user closes it",
				 device);
	return 0;
}

int loopdev_detach(const char *device, struct error *err)
{
	const char *name = device + strlen("/dev/");
	int fd = -1, r;

	if (device_wait_gone(name, "loop", 0))
		return 0;
	r = device_open_idle(device, &fd, err);
	if (r == -ENODEV)
		return 0;
	if (r < 0)
		return r;
	/*
	 * Writes that were never flushed go down now. A server that is gone for
	 * good must not hold the detach up: a caller that cared got the error
	 * of its own fsync.
	 */
	(void)fsync(fd);
	r = ioctl(fd, LOOP_CLR_FD, 0) < 0 ? -errno : 0;
	fd_close(fd);
	if (r < 0 && r != -ENXIO)
		return error_set(err, -r, "LOOP_CLR_FD %s: %s", device,
				 strerror(-r));
	if (!device_wait_gone(name, "loop", GONE_TIMEOUT_MS))
		return error_set(err, EBUSY,
				 "%s is open: it is removed once it is closed",
				 device);
	return 0;
}

int loopdev_leave(const char *device, struct error *err)
{
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);

	/* Open twice, the kernel marks it, and it stays for the other one. */
	if (fd < 0 || ioctl(fd, LOOP_CLR_FD, 0) < 0)
		return errno == ENXIO || errno == ENOENT
			       ? 0
			       : error_set(err, errno, "LOOP_CLR_FD %s: %s",
					   device, strerror(errno));
	return 0;
}

bool loopdev_is_over(const char *device, int fd)
{
	struct loop_info64 info;
	struct stat st;

	auto_close int loop = open(device, O_RDONLY | O_CLOEXEC);
	return loop >= 0 && ioctl(loop, LOOP_GET_STATUS64, &info) == 0 &&
	       fstat(fd, &st) == 0 && info.lo_device == st.st_dev &&
	       info.lo_inode == st.st_ino;
}

int loopdev_resize(const char *device, struct error *err)
{
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, LOOP_SET_CAPACITY, 0) < 0)
		return error_set(err, errno, "LOOP_SET_CAPACITY %s: %s", device,
				 strerror(errno));
	return 0;
}
