/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a raw pool's metadata is read from and written to: a file or block
 * device, or, in tests, something that loses writes. Calls block; any thread.
 * Offsets, lengths and buffers are multiples of RAW_BLOCK.
 */
#ifndef BLOCKD_RAW_MEDIUM_H
#define BLOCKD_RAW_MEDIUM_H

#include <stddef.h>
#include <stdint.h>

struct raw_medium;

struct raw_medium_ops {
	/* All of it: 0 or a negative errno. */
	int (*read)(struct raw_medium *medium, void *data, size_t length,
		    uint64_t offset);
	int (*write)(struct raw_medium *medium, const void *data, size_t length,
		     uint64_t offset);
	/* Make all earlier writes durable. */
	int (*flush)(struct raw_medium *medium);
};

struct raw_medium {
	const struct raw_medium_ops *ops;
	uint64_t size; /* bytes */
};

/* Over a descriptor, which stays the caller's. */
struct raw_file_medium {
	struct raw_medium medium;
	int fd;
};

void raw_file_medium_init(struct raw_file_medium *file, int fd, uint64_t size);

#endif
