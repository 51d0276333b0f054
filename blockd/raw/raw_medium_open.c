/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/raw_medium_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/local/loopdev_users.h"
#include "blockd/raw/disk_lock.h"
#include "blockd/raw/raw_medium_users.h"

int raw_medium_size(int fd, const char *path, uint64_t *ret, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	*ret = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, ret) < 0)
		return error_set(err, errno, "size of '%s': %s", path,
				 strerror(errno));
	return 0;
}

bool raw_medium_read_only(int fd)
{
	int value = 0;

	return ioctl(fd, BLKROGET, &value) == 0 && value;
}

/* A loop device over a file can't be told by opening the file. */
static int check_no_loop(int fd, const char *path, struct error *err)
{
	struct loopdev_users users;
	const char *holder;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode))
		return 0; /* O_EXCL has told */
	r = loopdev_users_scan(&users, err);
	if (r < 0)
		return r;
	r = loopdev_users_check(&users, fd, false, &holder);
	if (r == -EBUSY)
		r = error_set(err, EBUSY, "'%s' is in use by /dev/%s", path,
			      holder);
	else if (r < 0)
		r = error_set(err, EBUSY,
			      "'%s' is open elsewhere, and /dev/%s does not "
			      "say which file it holds",
			      path, holder);
	loopdev_users_done(&users);
	return r;
}

static bool is_disk(const char *path, dev_t *ret)
{
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode))
		return false;
	*ret = st.st_rdev;
	return true;
}

static int medium_open(const char *path, int flags, bool *ret_direct)
{
	int fd = open(path, flags | O_DIRECT);

	*ret_direct = fd >= 0;
	return fd < 0 && errno == EINVAL ? open(path, flags) : fd;
}

/* @flags: O_EXCL, or 0 for a disk that is locked already. */
static int open_locked(const char *path, int flags, int *ret_fd,
		       bool *ret_direct, struct error *err)
{
	auto_close int fd = -1, look = -1;
	char who[RAW_MEDIUM_USERS_MAX];
	dev_t device = 0;
	int r;

	flags |= O_CLOEXEC | O_NOCTTY;
	look = open(path, O_RDONLY | (flags & ~O_EXCL));
	/* Some drivers refuse a read-only one for writing, and some don't. */
	flags |= raw_medium_read_only(look) ? O_RDONLY : O_RDWR;
	fd_close(take_fd(&look));
	fd = medium_open(path, flags, ret_direct);
	r = fd < 0 ? -errno : 0;
	if (r == -EBUSY && is_disk(path, &device) && disk_lock_clear(device)) {
		fd = medium_open(path, flags, ret_direct);
		r = fd < 0 ? -errno : 0;
	}
	if (r == -EBUSY)
		return error_set(err, EBUSY, "'%s' is in use: %s", path,
				 raw_medium_users_find(path, who)
					 ? who
					 : "mounted, or held by another device "
					   "or program");
	if (r < 0)
		return error_set(err, -r, "open '%s': %s", path, strerror(-r));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY, "'%s' is in use by another blockd",
				 path);
	r = check_no_loop(fd, path, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int raw_medium_open(const char *path, int *ret_fd, bool *ret_direct,
		    struct error *err)
{
	dev_t device = 0;

	return open_locked(path, is_disk(path, &device) ? O_EXCL : 0, ret_fd,
			   ret_direct, err);
}

int raw_medium_open_shared(const char *path, bool share,
			   struct disk_lock *ret_lock, int *ret_fd,
			   bool *ret_direct, struct error *err)
{
	struct disk_lock lock = {.fd = -1};
	dev_t device = 0;
	int r;

	if (!is_disk(path, &device) || (!share && !disk_lock_is_shared(device)))
		return raw_medium_open(path, ret_fd, ret_direct, err);
	r = disk_lock_take(device, path, &lock, err);
	if (r == 0)
		r = open_locked(path, 0, ret_fd, ret_direct, err);
	if (r < 0)
		disk_lock_end(&lock);
	else
		*ret_lock = lock;
	return r;
}

int raw_medium_reserve(int fd, const char *path, uint64_t from, uint64_t end,
		       struct error *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode) || end <= from)
		return 0;
	r = posix_fallocate(fd, (off_t)from, (off_t)(end - from));
	return r ? error_set(err, r, "preallocate '%s': %s", path, strerror(r))
		 : 0;
}

uint64_t raw_medium_number(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	if (S_ISBLK(st.st_mode))
		return UINT64_MAX - st.st_rdev;
	return UINT64_MAX - (st.st_ino << 20) - st.st_dev;
}

/* The kernel does not know it any more. */
static bool device_gone(const struct stat *st)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u",
		       major(st->st_rdev), minor(st->st_rdev));
	return access("/sys/dev/block", F_OK) == 0 && access(path, F_OK) < 0;
}

int raw_medium_gone(int fd, const char *path, uint64_t size, struct error *err)
{
	uint64_t now = 0;
	struct stat st, there;

	if (fstat(fd, &st) < 0 || (S_ISBLK(st.st_mode) && device_gone(&st)))
		return error_set(err, ENODEV, "device '%s' is gone", path);
	if (!S_ISBLK(st.st_mode) && !st.st_nlink)
		return error_set(err, ENODEV, "file '%s' was removed", path);
	if (!S_ISBLK(st.st_mode) &&
	    (stat(path, &there) < 0 || there.st_dev != st.st_dev ||
	     there.st_ino != st.st_ino))
		return error_set(err, ENODEV, "file '%s' was moved", path);
	if (raw_medium_size(fd, path, &now, err) < 0 || now < size)
		return error_set(err, ENODEV,
				 "'%s' has only %" PRIu64 " of %" PRIu64
				 " bytes any more",
				 path, now, size);
	return 0;
}

int raw_medium_check_writable(int fd, const char *path, struct error *err)
{
	return raw_medium_read_only(fd)
		       ? error_set(err, EROFS, "device '%s' is read-only", path)
		       : 0;
}
