/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the data of writes that are in flight, and of reads from several
 * parts, all mapped at the start.
 *
 * The kernel needs a buffer for the largest request each time it is asked for
 * one, so every request is received into a large buffer. A short write is then
 * copied out and the large buffer used again. A long write keeps the buffer,
 * without a copy, and another buffer takes its place.
 */
#ifndef INITIATOR_NBD_FUSE_BUFFERS_H
#define INITIATOR_NBD_FUSE_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define NBD_FUSE_CLASSES 3

struct nbd_fuse_buffer {
	struct nbd_fuse_buffer *next;
	uint8_t *data;
	unsigned class_;
};

struct nbd_fuse_buffers {
	struct nbd_fuse_buffer *unused[NBD_FUSE_CLASSES];
	struct nbd_fuse_buffer *all;
	uint8_t *memory;
	size_t length;                   /* of memory, bytes */
	struct nbd_fuse_buffer *staging; /* the buffer that a request is
					  * received into */
};

/* @largest: bytes of the largest request with its headers. */
int nbd_fuse_buffers_init(struct nbd_fuse_buffers *b, size_t largest,
			  struct error *err);
void nbd_fuse_buffers_done(struct nbd_fuse_buffers *b);

/* May a request be received? Its buffer can be kept if it must. */
bool nbd_fuse_buffers_ready(const struct nbd_fuse_buffers *b);

/*
 * Keep the @length bytes at @data, inside the staging buffer. Was ready before
 * the request was received.
 *
 * @ret_data  where the bytes are now, until the buffer is put back
 */
struct nbd_fuse_buffer *nbd_fuse_buffers_keep(struct nbd_fuse_buffers *b,
					      const void *data, size_t length,
					      const void **ret_data);
/* Get a buffer of @length bytes, under the same condition. */
struct nbd_fuse_buffer *nbd_fuse_buffers_get(struct nbd_fuse_buffers *b,
					     size_t length, void **ret_data);
/* Put the buffer back. NULL is fine. */
void nbd_fuse_buffers_put(struct nbd_fuse_buffers *b,
			  struct nbd_fuse_buffer *buffer);

#endif
