/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote extent where the kernel has FUSE and loop devices but no NBD
 * client: trib-nbd makes it a file, a loop device with direct I/O makes that
 * a block device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "initiator/device/loopdev.h"
#include "initiator/nbd/nbd_program.h"
#include "initiator/transport/nbd_process.h"

static int fuse_probe(struct error *err)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, ENODEV, "no FUSE here (/dev/fuse: %s)",
				 strerror(errno));
	return loopdev_probe(err);
}

/* Find the loop device, by the end of its /sys/block/loopN/loop/backing_file */
static int find_loop(const struct attachment *a, char *ret_device)
{
	char end[64];

	(void)snprintf(end, sizeof(end), "/" NBD_PROGRAM_ALIAS "%s", a->tag);
	return loopdev_find(end, NULL, ret_device);
}

static int fuse_attach(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	auto_close int fd = -1;
	int status = nbd_process_start(a, false, err);

	if (!status)
		status = nbd_process_open(a, &fd, err);
	return status < 0 ? status
			  : loopdev_attach(fd, a->tag, r->read_only, true,
					   r->device, err);
}

static int fuse_fail(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	int status = nbd_process_fail(a, err);

	if (!status && !find_loop(a, device))
		status = loopdev_leave(device, err);
	return status < 0 ? status : nbd_process_unmount(a, err);
}

static int fuse_detach(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	int status = 0;

	if (!find_loop(a, device))
		status = loopdev_detach(device, err);
	if (status < 0)
		return status;
	a->record.device[0] = 0;
	return nbd_process_end(a, err);
}

static int fuse_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	int status = nbd_process_check(a, ret_dead, err);

	if (status == -ENOTCONN)
		*ret_dead = true;
	if (*ret_dead || !find_loop(a, a->record.device))
		return status;
	*ret_dead = true;
	return error_set(err, ENODEV,
			 "its loop device is gone: attach it again");
}

static int fuse_resize(struct attachment *a, uint64_t size, struct error *err)
{
	int status = nbd_process_grow(a, size, err);

	return status < 0 ? status : loopdev_resize(a->record.device, err);
}

const struct transport transport_fuse = {
	.name = "fuse",
	.parts = true,
	.probe = fuse_probe,
	.attach = fuse_attach,
	.detach = fuse_detach,
	.check = fuse_check,
	.resize = fuse_resize,
	.fail = fuse_fail,
};
