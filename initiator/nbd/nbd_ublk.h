/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device over NBD as a block device of ublk: the queue that the kernel gives
 * its requests to (initiator/device/ublk_device.h). It shares the thread of
 * nbd_fuse.h, which is beside it: its file tells the state and grows it.
 *
 * What waits in the queue is taken, and what was answered is given back, in
 * one system call. All buffers are mapped at the start, one for each request
 * of the queue, so no request allocates.
 *
 * The device is larger than the data, which can grow (UBLK_DEVICE_SIZE).
 * Behind the data it reads as zeroes, and writes fail.
 */
#ifndef INITIATOR_NBD_UBLK_H
#define INITIATOR_NBD_UBLK_H

#include <stdbool.h>

#include "base/error.h"
#include "initiator/nbd/nbd_parts.h"

struct nbd_ublk;

struct nbd_ublk_options {
	const char *tag; /* of the device, when it is made */
	bool read_only;
	struct nbd_parts *parts; /* borrowed until nbd_ublk_free() */
	int id;                  /* the device to go on with; -1: make one */
};

/*
 * Make the device and start it; or go on with one whose process has gone. The
 * calling thread serves it. A device that was made and not started stays, after
 * a failure, for who knows its tag.
 */
int nbd_ublk_new(const struct nbd_ublk_options *options, struct nbd_ublk **ret,
		 struct error *err);
/* Hang up. The device stays. NULL is fine. */
void nbd_ublk_free(struct nbd_ublk *ublk);

int nbd_ublk_id(const struct nbd_ublk *ublk);

/* A descriptor, readable when there are requests. -1: the device has ended. */
int nbd_ublk_fd(const struct nbd_ublk *ublk);

/* Tell whether there are answers to be given: poll() must not wait then. */
bool nbd_ublk_is_due(const struct nbd_ublk *ublk);

/*
 * Answer what is done, and take requests, after poll(). Then nbd_parts_send()
 * is due. 0 or a negative errno.
 */
int nbd_ublk_run(struct nbd_ublk *ublk);

#endif
