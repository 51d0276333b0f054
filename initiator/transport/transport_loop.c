/* SPDX-License-Identifier: Apache-2.0 */
/* An extent of this node: a loop device straight over its data file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "initiator/device/loopdev.h"
#include "initiator/transport/transport.h"

/* Many pools may have a file of this name. Without a record the tag tells
 * alone.
 */
static int loop_find(const struct attachment *a, char *ret_device)
{
	return loopdev_find(strrchr(a->record.local_path, '/'), a->tag,
			    ret_device);
}

static int loop_attach(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	struct stat st;

	/* The device is found by the name that the file itself has. */
	auto_close int fd = open(r->local_path,
				 (r->read_only ? O_RDONLY : O_RDWR) |
					 O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return error_set(err, EINVAL,
				 "'%s' is a symbolic link: name the file",
				 r->local_path);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", r->local_path,
				 strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "'%s' is not a regular file",
				 r->local_path);
	if ((uint64_t)st.st_size != r->size)
		return error_set(err, EINVAL, "'%s' has %llu bytes, not %llu",
				 r->local_path, (unsigned long long)st.st_size,
				 (unsigned long long)r->size);
	/*
	 * A pool on a file system without direct I/O still serves: through
	 * the page cache, which a flush of the device writes out too.
	 */
	return loopdev_attach(fd, a->tag, r->read_only, false, r->device, err);
}

static int loop_detach(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	int r;

	if (loop_find(a, device) < 0)
		return 0;
	r = loopdev_detach(device, err);
	if (!r)
		a->record.device[0] = 0;
	return r;
}

/* Its requests go to a file of this machine: they end by themselves. */
static int loop_fail(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];

	return loop_find(a, device) < 0 ? 0 : loopdev_leave(device, err);
}

static int loop_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	uint64_t size;
	int r;

	*ret_dead = true;
	if (loop_find(a, device) < 0)
		return error_set(err, ENODEV,
				 "its loop device is gone: attach it again");
	r = loopdev_check(device, a->record.local_path, err);
	if (r < 0)
		return r;
	memcpy(a->record.device, device, sizeof(device));
	*ret_dead = false;
	r = device_size(device, &size, err);
	if (r < 0)
		return r;
	if (size < a->record.size)
		return error_set(err, EIO, "%s is smaller than the extent",
				 device);
	return 0;
}

static int loop_resize(struct attachment *a, uint64_t size, struct error *err)
{
	struct stat st;

	if (stat(a->record.local_path, &st) < 0)
		return error_set(err, errno, "'%s': %s", a->record.local_path,
				 strerror(errno));
	if ((uint64_t)st.st_size < size)
		return error_set(err, EINVAL,
				 "'%s' has %llu bytes, not %llu: grow the "
				 "extent first",
				 a->record.local_path,
				 (unsigned long long)st.st_size,
				 (unsigned long long)size);
	return loopdev_resize(a->record.device, err);
}

const struct transport transport_loop = {
	.name = "loop",
	.local = true,
	.probe = loopdev_probe,
	.attach = loop_attach,
	.detach = loop_detach,
	.check = loop_check,
	.resize = loop_resize,
	.fail = loop_fail,
};
