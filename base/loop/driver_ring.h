/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands to a driver by io_uring (IORING_OP_URING_CMD). A ring belongs to
 * the thread that made it.
 */
#ifndef BASE_DRIVER_RING_H
#define BASE_DRIVER_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVER_COMMAND_MAX 80 /* bytes of one command's data */

struct driver_ring;

/* @depth: commands at once, a power of two. 0 or a negative errno. */
int driver_ring_new(unsigned depth, struct driver_ring **ret);
/* Free it; the kernel ends what is under way. NULL is fine. */
void driver_ring_free(struct driver_ring *ring);

/*
 * Queue a command, at most @depth at once.
 *
 * @data  copied
 * @tag   comes back with the result
 */
void driver_ring_push(struct driver_ring *ring, int fd, uint32_t operation,
		      const void *data, size_t length, uint64_t tag);

/* Tell whether commands are queued and not submitted. */
bool driver_ring_is_due(const struct driver_ring *ring);

/* Submit what is queued, if anything is. 0 or a negative errno. */
int driver_ring_submit(struct driver_ring *ring);

/* Take a result. False: there is none. */
bool driver_ring_take(struct driver_ring *ring, uint64_t *ret_tag, int *ret);

/* Submit, and wait for a result. -ETIMEDOUT. */
int driver_ring_wait(struct driver_ring *ring, unsigned timeout_s);

/* A descriptor, readable when there are results. */
int driver_ring_fd(const struct driver_ring *ring);

#endif
