/* SPDX-License-Identifier: Apache-2.0 */
/* Each operation is one entry of the ring. */
#include <assert.h>
#include <liburing.h>

#include "base/loop/loop_internal.h"

/* ---- timers ---- */

void loop_timer_start(struct loop *loop, struct loop_timer *timer,
		      unsigned delay_ms)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	timer->at = (struct __kernel_timespec){
		.tv_sec = delay_ms / 1000,
		.tv_nsec = (long long)(delay_ms % 1000) * 1000000,
	};
	io_uring_prep_timeout(sqe, &timer->at, 0, 0);
	loop_entry_start(loop, sqe, &timer->op);
}

/* ---- descriptors ---- */

static int fixed_find(struct loop *loop, const void *data, uint32_t length)
{
	int fixed = iobuf_fixed_find(&loop->buffers.fixed, data, length);

	if (fixed >= 0)
		loop->fixed_ops++;
	return fixed;
}

static struct io_uring_sqe *read_entry(struct loop *loop, int fd, void *data,
				       uint32_t length, uint64_t offset)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);
	int fixed = fixed_find(loop, data, length);

	if (fixed < 0)
		io_uring_prep_read(sqe, fd, data, length, offset);
	else
		io_uring_prep_read_fixed(sqe, fd, data, length, offset, fixed);
	return sqe;
}

void loop_read(struct loop *loop, struct op *op, int fd, void *data,
	       uint32_t length, uint64_t offset)
{
	struct io_uring_sqe *sqe = read_entry(loop, fd, data, length, offset);

	loop_entry_start(loop, sqe, op);
}

/*
 * A copy that takes so long keeps the loop from its sockets: worth a hand-over
 * to another thread, which takes 10 us or so.
 */
#define ASIDE_MIN (UINT32_C(256) << 10) /* bytes, more than this */

/*
 * There is something else to do meanwhile: others have as much data in buffers
 * as this one reads.
 */
static bool is_forced_async(const struct loop *loop, uint32_t length)
{
	return length > ASIDE_MIN &&
	       loop->buffers.in_use >=
		       iobuf_counts(&loop->buffers, length) + length;
}

void loop_read_cached(struct loop *loop, struct op *op, int fd, void *data,
		      uint32_t length, uint64_t offset)
{
	struct io_uring_sqe *sqe = read_entry(loop, fd, data, length, offset);

	if (is_forced_async(loop, length)) {
		sqe->flags |= IOSQE_ASYNC;
		loop->forced_async_ops++;
	}
	loop_entry_start(loop, sqe, op);
}

void loop_write(struct loop *loop, struct op *op, int fd, const void *data,
		uint32_t length, uint64_t offset, int rw_flags)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);
	int fixed = fixed_find(loop, data, length);

	if (fixed < 0)
		io_uring_prep_write(sqe, fd, data, length, offset);
	else
		io_uring_prep_write_fixed(sqe, fd, data, length, offset, fixed);
	sqe->rw_flags = rw_flags;
	loop_entry_start(loop, sqe, op);
}

void loop_submit_early(struct loop *loop, unsigned most)
{
	/* Entries that are not taken now are taken at the end of the round. */
	if (io_uring_sq_ready(&loop->ring) >= most)
		(void)io_uring_submit(&loop->ring);
}

void loop_fdatasync(struct loop *loop, struct op *op, int fd)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	loop_entry_start(loop, sqe, op);
}

void loop_fallocate(struct loop *loop, struct op *op, int fd, int mode,
		    uint64_t offset, uint64_t length)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	/* liburing 2.3 types both as off_t or __u64; the fields are u64. */
	io_uring_prep_rw(IORING_OP_FALLOCATE, sqe, fd, NULL, (unsigned)mode,
			 offset);
	sqe->addr = length;
	loop_entry_start(loop, sqe, op);
}

void loop_fadvise(struct loop *loop, struct op *op, int fd, uint64_t offset,
		  uint64_t length, int advice)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	assert(length <= UINT32_MAX); /* all that the entry has room for */
	io_uring_prep_rw(IORING_OP_FADVISE, sqe, fd, NULL, (unsigned)length,
			 offset);
	sqe->fadvise_advice = (uint32_t)advice;
	loop_entry_start(loop, sqe, op);
}

void loop_accept(struct loop *loop, struct op *op, int fd)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
	loop_entry_start(loop, sqe, op);
}

void loop_recv(struct loop *loop, struct op *op, int fd, void *data,
	       size_t length, int flags)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_recv(sqe, fd, data, length, flags);
	loop_entry_start(loop, sqe, op);
}

void loop_recv_later(struct loop *loop, struct op *op, int fd, void *data,
		     size_t length, int flags)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_recv(sqe, fd, data, length, flags);
	if (loop->features & LOOP_POLL_FIRST)
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	loop_entry_start(loop, sqe, op);
}

void loop_sendmsg(struct loop *loop, struct op *op, int fd,
		  const struct msghdr *message, int flags)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_sendmsg(sqe, fd, message, (unsigned)flags | MSG_NOSIGNAL);
	loop_entry_start(loop, sqe, op);
}

void loop_cancel(struct loop *loop, struct op *op)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	io_uring_prep_cancel(sqe, op, 0);
	loop_entry_start(loop, sqe, NULL); /* whether it was found: op tells */
}
