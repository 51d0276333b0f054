/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: one operation receives again and again, each time into a buffer
 * that the kernel picks from the ring's. The buffers are made with the first
 * stream and go back as soon as their bytes were handed over, so all streams
 * of a loop share a few.
 */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/loop/loop_internal.h"

#define GROUP 0 /* of buffers; there is one */

/* The kernel may fill the buffer @i at @data from now on. */
static void provide(struct loop_provided *provided, void *data, unsigned i)
{
	io_uring_buf_ring_add(provided->ring, data, LOOP_STREAM_PIECE,
			      (unsigned short)i, LOOP_STREAM_PIECES - 1, 0);
	io_uring_buf_ring_advance(provided->ring, 1);
}

int loop_provided_init(struct loop_provided *provided, struct io_uring *ring)
{
	size_t head = LOOP_STREAM_PIECES * sizeof(struct io_uring_buf);
	struct io_uring_buf_reg reg = {
		.ring_entries = LOOP_STREAM_PIECES,
		.bgid = GROUP,
	};
	void *memory;
	int r;

	head = (head + 4095) & ~(size_t)4095;
	provided->size = head + LOOP_STREAM_TOTAL;
	memory = mmap(NULL, provided->size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -errno;
	reg.ring_addr = (uintptr_t)memory;
	r = io_uring_register_buf_ring(ring, &reg, 0);
	if (r < 0) {
		(void)munmap(memory, provided->size);
		return r;
	}
	provided->ring = memory;
	provided->data = (uint8_t *)memory + head;
	io_uring_buf_ring_init(provided->ring);
	for (unsigned i = 0; i < LOOP_STREAM_PIECES; i++)
		provide(provided,
			provided->data + (size_t)i * LOOP_STREAM_PIECE, i);
	return 0;
}

void loop_provided_done(struct loop_provided *provided)
{
	if (provided->ring) /* the ring that knew of it is gone */
		(void)munmap(provided->ring, provided->size);
}

static void stream_done(struct op *op, int res)
{
	struct loop_stream *stream = container_of(op, struct loop_stream, op);
	struct loop *loop = stream->loop;
	struct loop_provided *provided = &loop->provided;
	unsigned flags = loop->done_flags;
	unsigned i = flags >> IORING_CQE_BUFFER_SHIFT;
	uint8_t *data = NULL;

	if (flags & IORING_CQE_F_BUFFER) {
		assert(i < LOOP_STREAM_PIECES);
		data = provided->data + (size_t)i * LOOP_STREAM_PIECE;
	}
	stream->runs = flags & IORING_CQE_F_MORE;
	stream->taken(stream, data, res);
	if (data) /* the stream may be gone */
		provide(provided, data, i);
}

void loop_stream_start(struct loop *loop, struct loop_stream *stream, int fd)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	assert(!stream->runs && loop->features & LOOP_STREAMS);
	stream->loop = loop;
	stream->runs = true;
	stream->op.done = stream_done;
	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	loop_entry_start(loop, sqe, &stream->op);
}
