/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block devices of the kernel's ublk driver, which a process of ours serves.
 * Each command is one request to /dev/ublk-control.
 *
 * A device outlives its process: its requests wait, and the next process gets
 * those that had no answer once more. Until the device is stopped, nothing
 * else ends them.
 *
 * A device of ours is known by its attachment's tag (device_tag()). The driver
 * keeps it in `ublksrv_flags`, which is the server's own. Other devices are
 * never touched.
 */
#ifndef INITIATOR_UBLK_DEVICE_H
#define INITIATOR_UBLK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define UBLK_DEVICE_DEPTH    128                   /* requests at once */
#define UBLK_DEVICE_DATA_MAX (UINT32_C(128) << 10) /* bytes of a request */
/*
 * The size of every such device, bytes. The mapper device over it is as large
 * as the extent, and grows. The driver of most kernels cannot grow a device.
 */
#define UBLK_DEVICE_SIZE (UINT64_C(1) << 60)

struct ublk_device {
	unsigned id; /* of /dev/ublkbN and /dev/ublkcN */
	bool started;
	bool orphaned; /* started, and its process has gone */
};

struct ublk_device_options {
	const char *tag;
	uint32_t
		data_max; /* bytes of a request, UBLK_DEVICE_DATA_MAX at most */
	bool read_only;
	bool fua;    /* else the kernel sends a flush */
	bool zeroes; /* discards and zeroes, in one request */
};

/* 0, or -ENODEV and why there are none here. */
int ublk_device_probe(struct error *err);

/* Find the device of a tag. -ENOENT: none. */
int ublk_device_find(const char *tag, struct ublk_device *ret,
		     struct error *err);

/* Make a device, not yet started: /dev/ublkcN is there. */
int ublk_device_add(const struct ublk_device_options *options, unsigned *ret_id,
		    struct error *err);

/*
 * Start it: /dev/ublkbN is there. This process has asked for its requests
 * before. So it has for ublk_device_resume(), between that and
 * ublk_device_take_over(), which begins with a device whose process has gone.
 * -EBUSY: the kernel has not seen that yet.
 */
int ublk_device_start(unsigned id, struct error *err);
int ublk_device_take_over(unsigned id, struct error *err);
int ublk_device_resume(unsigned id, struct error *err);

/*
 * End it: what waits fails with EIO, and so does all that follows. Its process
 * has gone, or answers all that it has. The device goes with its last user.
 */
int ublk_device_stop(unsigned id, struct error *err);
int ublk_device_remove(unsigned id, struct error *err);

#endif
