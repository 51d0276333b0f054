/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote extent where the kernel has ublk: trib-nbd serves a block device.
 * It survives its process (initiator/nbd/nbd_survive.h). Our device is known by
 * the attachment's tag.
 *
 * The device is larger than the extent, and only the mapper device over it has
 * the extent's size. So there is none without device mapper.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "initiator/device/top_device.h"
#include "initiator/device/ublk_device.h"
#include "initiator/transport/nbd_process.h"

#define MODPROBE_TIMEOUT_MS 10000

static int ublk_probe(struct error *err)
{
	static const char *const modprobe[] = {"modprobe", "-q", "ublk_drv",
					       NULL};

	if (access("/dev/ublk-control", F_OK) < 0)
		(void)process_must(modprobe, MODPROBE_TIMEOUT_MS, NULL);
	if (access("/dev/fuse", F_OK) < 0)
		return error_set(err, ENODEV,
				 "no FUSE here, which tells how "
				 "a ublk device is");
	if (mapper_probe(top_device_mapper, NULL) < 0)
		return error_set(err, ENODEV,
				 "no device mapper here, by which "
				 "a ublk device has its size");
	return ublk_device_probe(err);
}

static int ublk_attach(struct attachment *a, struct error *err)
{
	struct ublk_device device;
	int r = nbd_process_start(a, true, err);

	if (!r)
		r = ublk_device_find(a->tag, &device, err);
	if (r < 0)
		return r;
	(void)snprintf(a->record.device, sizeof(a->record.device),
		       "/dev/ublkb%u", device.id);
	return 0;
}

/* End its requests: first who serves it, or the stop would wait for that. */
static int ublk_fail(struct attachment *a, struct error *err)
{
	struct ublk_device device;
	int r = nbd_process_fail(a, err);

	if (r < 0 || ublk_device_find(a->tag, &device, err) < 0)
		return r;
	return device.started ? ublk_device_stop(device.id, err) : 0;
}

/* Stop a device that nobody uses and that answers. -EBUSY: in use. */
static int stop_idle(const struct ublk_device *device, struct error *err)
{
	char path[DEVICE_PATH_MAX];
	int fd = -1, r;

	(void)snprintf(path, sizeof(path), "/dev/ublkb%u", device->id);
	r = device_open_idle(path, &fd, err);
	if (r < 0 && r != -ENODEV)
		return r;
	/* As for a loop device: a lost server must not hold it up. */
	if (fd >= 0)
		(void)fsync(fd);
	fd_close(fd);
	return ublk_device_stop(device->id, err);
}

static int ublk_detach(struct attachment *a, struct error *err)
{
	struct ublk_device device;
	int r = 0;

	if (!nbd_process_is_alive(a))
		r = ublk_fail(a, err);
	else if (!ublk_device_find(a->tag, &device, NULL) && device.started)
		r = stop_idle(&device, err);
	if (!r)
		r = nbd_process_end(a, err);
	if (r < 0)
		return r;
	/* With its process gone, what that made is there. */
	if (!ublk_device_find(a->tag, &device, NULL))
		r = ublk_device_remove(device.id, err);
	a->record.device[0] = 0;
	return r;
}

static int ublk_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	struct ublk_device device;
	int r = nbd_process_check(a, ret_dead, err);

	if (*ret_dead && r != -ENOTCONN)
		return r;
	*ret_dead = ublk_device_find(a->tag, &device, NULL) < 0 ||
		    !device.started;
	if (*ret_dead)
		return error_set(err, ENODEV,
				 "its ublk device is gone: attach it again");
	return r == -ENOTCONN
		       ? error_set(err, EIO, "its process is started again")
		       : r;
}

const struct transport transport_ublk = {
	.name = "ublk",
	.parts = true,
	.recovers = true,
	.probe = ublk_probe,
	.attach = ublk_attach,
	.detach = ublk_detach,
	.check = ublk_check,
	.resize = nbd_process_grow,
	.fail = ublk_fail,
};
