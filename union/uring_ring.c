/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_ring.h"

#include <errno.h>
#include <string.h>

/* linux/io_uring.h; since 6.0 and 6.1, so there where FUSE knows rings. */
#define SETUP_FLAGS                                         \
	(IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | \
	 IORING_SETUP_DEFER_TASKRUN)

#define SQES 4 /* never more than one command is under way */

int uring_ring_init(struct uring_ring *ring, int fd)
{
	struct io_uring_params params = {.flags = SETUP_FLAGS};
	int r = io_uring_queue_init_params(SQES, &ring->io, &params);

	if (r < 0)
		return r;
	r = io_uring_register_files(&ring->io, &fd, 1);
	if (r < 0) {
		io_uring_queue_exit(&ring->io);
		return r;
	}
	(void)io_uring_register_ring_fd(&ring->io); /* else a little slower */
	return 0;
}

void uring_ring_done(struct uring_ring *ring)
{
	io_uring_queue_exit(&ring->io);
}

static struct io_uring_sqe *command(struct uring_ring *ring, uint32_t operation,
				    const struct uring_cmd *cmd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->io);

	assert(sqe); /* the last one left before its completion came */
	memset(sqe, 0, 2 * sizeof(*sqe)); /* SQE128 */
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE; /* the first one */
	sqe->cmd_op = operation;
	memcpy(sqe->cmd, cmd, sizeof(*cmd));
	return sqe;
}

int uring_ring_register(struct uring_ring *ring,
			const struct uring_entry *entry)
{
	const struct uring_cmd cmd = {.queue = (uint16_t)entry->queue};
	const struct iovec parts[2] = {
		{entry->headers, sizeof(*entry->headers)},
		{entry->payload, URING_PAYLOAD},
	};
	struct io_uring_sqe *sqe = command(ring, URING_CMD_REGISTER, &cmd);
	struct io_uring_cqe *cqe;
	int r;

	sqe->addr = (uintptr_t)parts;
	sqe->len = 2;
	r = uring_ring_flush(ring);
	/* A refusal is there at once; a request may be, too, and stays. */
	if (r == 0 && io_uring_peek_cqe(&ring->io, &cqe) == 0 && cqe->res < 0)
		r = cqe->res;
	return r;
}

void uring_ring_commit(struct uring_ring *ring, const struct uring_entry *entry,
		       uint64_t commit_id)
{
	const struct uring_cmd cmd = {
		.commit_id = commit_id,
		.queue = (uint16_t)entry->queue,
	};

	(void)command(ring, URING_CMD_COMMIT_AND_FETCH, &cmd);
}

int uring_ring_flush(struct uring_ring *ring)
{
	int r;

	do
		r = io_uring_submit(&ring->io);
	while (r == -EINTR || r == -EAGAIN);
	return r < 0 ? r : 0;
}

int uring_ring_wait(struct uring_ring *ring)
{
	struct io_uring_cqe *cqe;
	int r;

	do
		r = io_uring_submit_and_wait(&ring->io, 1);
	while (r == -EINTR || r == -EAGAIN);
	while (r >= 0 && (r = io_uring_wait_cqe(&ring->io, &cqe)) == -EINTR)
		r = 0; /* what was to leave has left */
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(&ring->io, cqe);
	return r < 0 ? r : 0;
}
