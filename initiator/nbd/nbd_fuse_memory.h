/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a process leaves to the next one, which serves the same file.
 * The memory has the requests that the kernel waits for, with their data, and
 * what the kernel was told. It is a memfd, which the launcher stores
 * (nbd_stored.h).
 *
 * A kill at any instruction leaves each request in one of these places, or it
 * was answered:
 *
 *   - in the buffer it was received into, of the number @staging. The length in
 *     its header is 0 before a request is received. It is 0 again when the
 *     request is in a record, or answered;
 *   - in a record, whose @unique is written last and taken away last.
 *
 * A request that is in both is the same. A write is not done again once its
 * answer may have been sent: the kernel may send the next write of the same
 * bytes then. So its answer is noted before. The kernel refuses a second
 * answer.
 */
#ifndef INITIATOR_NBD_FUSE_MEMORY_H
#define INITIATOR_NBD_FUSE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "initiator/nbd/nbd_survive.h"

/*
 * Requests of the kernel at once: the loop device's queue is 128 deep, and
 * opens and fsyncs come beside it.
 */
#define NBD_FUSE_SLOTS 160

/* Bytes of a request before its data; linux/fuse.h: SETATTR has 40 + 88. */
#define NBD_FUSE_HEAD_MAX 128

/* Changed with anything in the memory, the buffers' sizes included. */
#define NBD_FUSE_LAYOUT 1

struct nbd_fuse_record {
	uint64_t unique;  /* the kernel's number of the request; 0: none */
	uint32_t buffer;  /* 1 + its number; 0: none */
	uint32_t data_at; /* bytes, in the buffer */
	int32_t error;    /* of its answer: 0 or a negative errno */
	bool answered;    /* or is about to be */
	uint8_t head[NBD_FUSE_HEAD_MAX];
};

struct nbd_fuse_shared {
	uint32_t layout;
	uint32_t max_data;    /* bytes of one read or write */
	uint32_t connection;  /* the FUSE mount's device, its minor number */
	uint32_t staging;     /* number of a buffer */
	uint32_t init_length; /* bytes; 0: the kernel has not begun */
	uint8_t init[NBD_FUSE_HEAD_MAX]; /* FUSE_INIT as it came */
	struct nbd_fuse_record records[NBD_FUSE_SLOTS];
	struct nbd_kept kept;
};

struct nbd_fuse_memory {
	int fd; /* owned */
	struct nbd_fuse_shared *shared;
	uint8_t *buffers;
	size_t length;      /* bytes of all of it */
	size_t receive_max; /* bytes of a request with its data */
	bool goes_on;       /* a process before had it */
};

/* Make one for requests with @max_data bytes. */
int nbd_fuse_memory_new(struct nbd_fuse_memory *memory, uint32_t max_data,
			struct error *err);

/*
 * Go on with that of a process before. @fd is taken. -EPROTO: another version
 * of the program had it.
 */
int nbd_fuse_memory_open(struct nbd_fuse_memory *memory, int fd,
			 struct error *err);

void nbd_fuse_memory_done(struct nbd_fuse_memory *memory);

#endif
