/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the data of writes that are in flight, and of reads from several
 * parts, all of it given at the start. A buffer keeps its number in the memory,
 * so the next process that has the same memory finds it again.
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
	bool taken;
};

struct nbd_fuse_buffers {
	struct nbd_fuse_buffer *unused[NBD_FUSE_CLASSES];
	struct nbd_fuse_buffer *all;     /* owned */
	struct nbd_fuse_buffer *staging; /* the buffer that a request is
					  * received into */
};

/* Tell the bytes that all buffers take. @largest: as below. */
size_t nbd_fuse_buffers_length(size_t largest);

/*
 * Begin with all buffers unused, and none to receive into.
 *
 * @largest  bytes of the largest request with its headers
 * @memory   nbd_fuse_buffers_length() bytes, borrowed
 */
int nbd_fuse_buffers_init(struct nbd_fuse_buffers *b, size_t largest,
			  uint8_t *memory, struct error *err);
void nbd_fuse_buffers_done(struct nbd_fuse_buffers *b);

/* The number of a buffer, and the buffer of a number; NULL: there is none. */
unsigned nbd_fuse_buffers_number(const struct nbd_fuse_buffers *b,
				 const struct nbd_fuse_buffer *buffer);
struct nbd_fuse_buffer *nbd_fuse_buffers_at(const struct nbd_fuse_buffers *b,
					    unsigned number);

/* Take an unused buffer, which a process before had in use. */
void nbd_fuse_buffers_adopt(struct nbd_fuse_buffers *b,
			    struct nbd_fuse_buffer *buffer);

/*
 * Receive into @buffer from now on, which is large and unused; NULL: into any.
 */
void nbd_fuse_buffers_stage(struct nbd_fuse_buffers *b,
			    struct nbd_fuse_buffer *buffer);

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
					     size_t length);
/* Put the buffer back. NULL is fine. */
void nbd_fuse_buffers_put(struct nbd_fuse_buffers *b,
			  struct nbd_fuse_buffer *buffer);

#endif
