/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trib-nbd of an attachment, with its file: started, looked at, grown and
 * ended. The caller makes a block device of it.
 */
#ifndef INITIATOR_NBD_PROCESS_H
#define INITIATOR_NBD_PROCESS_H

#include "initiator/transport/transport.h"

/*
 * Start it, and wait until it serves. The record has its pid.
 *
 * @by_ublk  it makes a ublk device, too, with the attachment's tag
 */
int nbd_process_start(struct attachment *a, bool by_ublk, struct error *err);

/* Open its data. */
int nbd_process_open(struct attachment *a, int *ret_fd, struct error *err);

bool nbd_process_is_alive(const struct attachment *a);

/*
 * 0: it serves, and has its server. Else the error. @ret_dead: it has ended, or
 * will never serve again. -ENOTCONN: its file does not answer.
 */
int nbd_process_check(struct attachment *a, bool *ret_dead, struct error *err);

/* Tell it that the extent has @size bytes now. */
int nbd_process_grow(struct attachment *a, uint64_t size, struct error *err);

/* Kill it: requests of its file end with an error. */
int nbd_process_fail(struct attachment *a, struct error *err);

/* Unmount its file when it has ended, also where the file is open. */
int nbd_process_unmount(struct attachment *a, struct error *err);

/* End it, and remove what it leaves. Idempotent. -EBUSY: its file is in use. */
int nbd_process_end(struct attachment *a, struct error *err);

#endif
