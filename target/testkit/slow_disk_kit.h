/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a device that takes its time, much longer than memory, may fail
 * at one place and can be held from one place on. There is one, which any
 * number of openings share; its counters may be read from any thread.
 */
#ifndef TARGET_SLOW_DISK_KIT_H
#define TARGET_SLOW_DISK_KIT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"

#define SLOW_DISK_SIZE (UINT32_C(40) << 20) /* bytes; more than a request */

struct slow_disk {
	pthread_mutex_t lock; /* guards data: a socket is no barrier to TSan */
	uint8_t data[SLOW_DISK_SIZE];
	atomic_uint operations, in_flight, open, flags;
	atomic_uint largest; /* bytes, of an operation */
	atomic_uint bad;     /* what begins here fails; UINT_MAX: nothing */
	atomic_uint held;    /* what begins here or behind waits; the same */
	atomic_uint delay_ms;
	uint32_t block_size; /* bytes, of devices opened later */
};

extern struct slow_disk slow_disk;

/*
 * No counts, nothing fails, nothing is held, operations take 2 ms, blocks are
 * of 512 bytes; the data stays.
 */
void slow_disk_reset(void);

/* For struct target_export. */
int slow_disk_open(void *context, struct loop *loop, bool read_only,
		   struct blockdev **ret, struct error *err);

/* The first @length bytes become @data; NULL: zeroes. */
void slow_disk_fill(const uint8_t *data, size_t length);

/* cmocka: the first @length bytes are @data. */
void slow_disk_check(const uint8_t *data, size_t length);

/* Until so many operations have begun. */
void slow_disk_await(unsigned operations);

#endif
