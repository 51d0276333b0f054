/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* linux/io_uring.h; since 6.0 and 6.1, so there where FUSE knows rings. */
#define SETUP_FLAGS                                         \
	(IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | \
	 IORING_SETUP_DEFER_TASKRUN)

#define KEPT_FLAGS (IORING_SETUP_SQE128 | IORING_SETUP_SQPOLL)

#define SQES    4 /* never more than one command is under way */
#define IDLE_MS 1 /* a tick: msecs_to_jiffies(); 0 would be a second */

#define PAUSE_NS 20000 /* for a command to be taken */
#define CHECK_S  1     /* whether anybody is there to take it */

int uring_ring_init(struct uring_ring *ring, int fd)
{
	struct io_uring_params params = {.flags = SETUP_FLAGS};
	int r = io_uring_queue_init_params(SQES, &ring->io, &params);

	if (r < 0)
		return r;
	ring->kept = false;
	r = io_uring_register_files(&ring->io, &fd, 1);
	if (r < 0) {
		io_uring_queue_exit(&ring->io);
		return r;
	}
	(void)io_uring_register_ring_fd(&ring->io); /* else a little slower */
	return 0;
}

int uring_ring_make_kept(int with, struct io_uring_params *ret_params)
{
	struct io_uring io;
	int fd, r;

	*ret_params = (struct io_uring_params){
		.flags = KEPT_FLAGS,
		.sq_thread_idle = IDLE_MS,
	};
	if (with >= 0) {
		ret_params->flags |= IORING_SETUP_ATTACH_WQ;
		ret_params->wq_fd = (uint32_t)with;
	}
	r = io_uring_queue_init_params(SQES, &io, ret_params);
	if (r < 0)
		return r;
	/* Mapped it is only where it is used. */
	fd = fcntl(io.ring_fd, F_DUPFD_CLOEXEC, 0);
	r = -errno;
	io_uring_queue_exit(&io);
	return fd < 0 ? r : fd;
}

int uring_ring_open(struct uring_ring *ring, int kept,
		    const struct io_uring_params *params, int fd)
{
	struct io_uring_params p = *params;
	int r, own = fcntl(kept, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return -errno;
	r = io_uring_queue_mmap(own, &p, &ring->io);
	if (r < 0) {
		(void)close(own); /* nothing was written */
		return r;
	}
	ring->kept = true;
	/* liburing since 2.5 leaves these to io_uring_queue_init_params(). */
	ring->io.flags = p.flags;
	ring->io.features = p.features;
	ring->io.ring_fd = own;
	ring->io.enter_ring_fd = own;
	ring->io.sq.sqe_tail = *ring->io.sq.ktail;
	ring->io.sq.sqe_head = ring->io.sq.sqe_tail;
	r = io_uring_register_files(&ring->io, &fd, 1);
	if (r < 0 && r != -EBUSY) { /* by a server before */
		io_uring_queue_exit(&ring->io);
		return r;
	}
	return 0;
}

void uring_ring_done(struct uring_ring *ring)
{
	io_uring_queue_exit(&ring->io);
}

struct uring_counts uring_ring_counts(const struct uring_ring *ring)
{
	const struct io_uring_cq *cq = &ring->io.cq;
	struct uring_counts counts;

	counts.published = io_uring_smp_load_acquire(ring->io.sq.ktail);
	counts.completed = io_uring_smp_load_acquire(cq->ktail);
	counts.result = cq->cqes[(counts.completed - 1) & cq->ring_mask].res;
	return counts;
}

bool uring_ring_is_unsent(const struct uring_ring *ring)
{
	return io_uring_sq_ready(&ring->io);
}

void uring_ring_skip(struct uring_ring *ring)
{
	const struct io_uring_cq *cq = &ring->io.cq;

	io_uring_smp_store_release(cq->khead,
				   io_uring_smp_load_acquire(cq->ktail));
}

/* From now on the kernel does it, whoever is killed. */
static void publish(struct uring_ring *ring)
{
	struct io_uring_sq *sq = &ring->io.sq;

	sq->sqe_head = sq->sqe_tail;
	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
}

/*
 * The kernel says so once it has issued the command; if it refused it, that
 * is there by then: io_submit_sqes().
 */
static int wait_until_taken(struct uring_ring *ring)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int r = 0;

	while (io_uring_sq_ready(&ring->io) && r >= 0) {
		(void)nanosleep(&pause, NULL);
		r = uring_ring_flush(ring);
	}
	return r;
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
		{entry->place.headers, sizeof(*entry->place.headers)},
		{entry->place.payload, URING_PAYLOAD},
	};
	struct io_uring_sqe *sqe = command(ring, URING_CMD_REGISTER, &cmd);
	struct io_uring_cqe *cqe;
	int r;

	sqe->addr = entry->place.record ? entry->place.record->parts_at
					: (uintptr_t)parts;
	sqe->len = 2;
	r = uring_ring_flush(ring);
	if (r == 0 && ring->kept)
		r = wait_until_taken(ring);
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
	if (ring->kept)
		publish(ring);
}

int uring_ring_flush(struct uring_ring *ring)
{
	int r;

	do
		r = io_uring_submit(&ring->io);
	while (r == -EINTR || r == -EAGAIN);
	return r < 0 ? r : 0;
}

/*
 * Who takes a command may be gone without a word before it does. One that was
 * taken has its completion in any case: io_uring_cancel_generic().
 */
static int submit_and_wait(struct uring_ring *ring)
{
	struct __kernel_timespec check = {.tv_sec = CHECK_S};
	struct io_uring_cqe *cqe;

	if (ring->kept && uring_ring_is_unsent(ring))
		return io_uring_submit_and_wait_timeout(&ring->io, &cqe, 1,
							&check, NULL);
	return io_uring_submit_and_wait(&ring->io, 1);
}

int uring_ring_wait(struct uring_ring *ring)
{
	struct io_uring_cqe *cqe;
	int r;

	do
		r = submit_and_wait(ring);
	while (r == -EINTR || r == -EAGAIN || r == -ETIME);
	while (r >= 0 && (r = io_uring_wait_cqe(&ring->io, &cqe)) == -EINTR)
		r = 0; /* what was to leave has left */
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(&ring->io, cqe);
	return r < 0 ? r : 0;
}
