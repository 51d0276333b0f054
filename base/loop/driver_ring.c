/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/driver_ring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct driver_ring {
	struct io_uring ring;
};

int driver_ring_new(unsigned depth, struct driver_ring **ret)
{
	auto_free struct driver_ring *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return -ENOMEM;
	/* A ring whose work is deferred (DEFER_TASKRUN) wakes no poll(). */
	status = io_uring_queue_init(depth, &r->ring,
				     IORING_SETUP_SQE128 |
					     IORING_SETUP_COOP_TASKRUN);
	if (status == 0)
		*ret = take_ptr(r);
	return status;
}

void driver_ring_free(struct driver_ring *r)
{
	if (!r)
		return;
	io_uring_queue_exit(&r->ring);
	free(r);
}

void driver_ring_push(struct driver_ring *r, int fd, uint32_t operation,
		      const void *data, size_t length, uint64_t tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	assert(sqe && length <= DRIVER_COMMAND_MAX);
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = operation;
	sqe->user_data = tag;
	memcpy(sqe->cmd, data, length);
}

bool driver_ring_is_due(const struct driver_ring *r)
{
	return io_uring_sq_ready(&r->ring) > 0;
}

int driver_ring_submit(struct driver_ring *r)
{
	int status = driver_ring_is_due(r) ? io_uring_submit(&r->ring) : 0;

	return status < 0 && status != -EINTR ? status : 0;
}

bool driver_ring_take(struct driver_ring *r, uint64_t *ret_tag, int *ret)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&r->ring, &cqe) < 0)
		return false;
	*ret_tag = cqe->user_data;
	*ret = cqe->res;
	io_uring_cqe_seen(&r->ring, cqe);
	return true;
}

int driver_ring_wait(struct driver_ring *r, unsigned timeout_s)
{
	struct __kernel_timespec limit = {.tv_sec = timeout_s};
	struct io_uring_cqe *cqe;
	int status = driver_ring_submit(r);

	if (status < 0)
		return status;
	do {
		status = io_uring_wait_cqe_timeout(&r->ring, &cqe, &limit);
	} while (status == -EINTR);
	return status == -ETIME ? -ETIMEDOUT : status;
}

int driver_ring_fd(const struct driver_ring *r)
{
	return r->ring.ring_fd;
}
