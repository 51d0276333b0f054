/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <assert.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop_internal.h"

#define DEFAULT_ENTRIES      256u
#define DEFAULT_BUFFER_LIMIT (UINT64_C(64) << 20) /* bytes */

/*
 * How often a round looks for more before it runs the batches: I/O that
 * completes at once joins its batch, and a peer that never pauses still
 * gets its replies.
 */
#define ROUND_LOOKS 4

/* Setup flags, and the features that stand for them, best first. */
static const struct {
	unsigned feature;
	unsigned setup;
} setups[] = {
	{LOOP_SINGLE_ISSUER | LOOP_DEFER_TASKRUN,
	 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN},
	{LOOP_SINGLE_ISSUER | LOOP_COOP_TASKRUN,
	 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN},
	{LOOP_COOP_TASKRUN, IORING_SETUP_COOP_TASKRUN},
	{0, 0},
};

/*
 * Make the ring disabled: SINGLE_ISSUER binds it to the thread that enables
 * it, and that is the one in loop_run().
 */
static int ring_open(struct loop *loop, unsigned entries, unsigned without)
{
	int r = -EINVAL;

	for (size_t i = 0; i < array_size(setups); i++) {
		struct io_uring_params params = {
			.flags = setups[i].setup | IORING_SETUP_R_DISABLED |
				 IORING_SETUP_CLAMP,
		};

		if (setups[i].feature & without)
			continue;
		r = io_uring_queue_init_params(entries, &loop->ring, &params);
		if (r == 0) {
			loop->features = setups[i].feature;
			return 0;
		}
		if (r != -EINVAL)
			return r;
	}
	return r;
}

static void probe_operations(struct loop *loop, unsigned without)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&loop->ring);

	if (!probe)
		return;
	if (io_uring_opcode_supported(probe, IORING_OP_SEND_ZC) &&
	    !(without & LOOP_SEND_ZC))
		loop->features |= LOOP_SEND_ZC;
	/* The flag can't be asked for; this operation came with it. */
	if (io_uring_opcode_supported(probe, IORING_OP_SOCKET) &&
	    !(without & LOOP_POLL_FIRST))
		loop->features |= LOOP_POLL_FIRST;
	io_uring_free_probe(probe);
}

static int explain(int r, struct error *err)
{
	if (r == -ENOSYS)
		return error_set(err, ENOSYS,
				 "this kernel has no io_uring; Linux 5.15 or "
				 "later is needed");
	if (r == -EPERM)
		return error_set(err, EPERM,
				 "io_uring is forbidden here; see sysctl "
				 "kernel.io_uring_disabled and the container's "
				 "seccomp profile");
	if (r == -ENOMEM)
		return error_set(err, ENOMEM,
				 "io_uring: no memory (raise the limit on "
				 "locked memory, ulimit -l)");
	return error_set(err, -r, "io_uring: %s", strerror(-r));
}

int loop_new(const struct loop_options *options, struct loop **ret,
	     struct error *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return error_set(err, ENOMEM, "no memory for a loop");
	loop->name = options->name;
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0) {
		r = error_set(err, errno, "eventfd: %s", strerror(errno));
		goto undo_loop;
	}
	r = ring_open(loop, options->entries ?: DEFAULT_ENTRIES,
		      options->without);
	if (r < 0) {
		r = explain(r, err);
		goto undo_wake;
	}
	probe_operations(loop, options->without);
	iobuf_pool_init(&loop->buffers,
			options->buffer_limit ?: DEFAULT_BUFFER_LIMIT);
	loop_worker_init(&loop->worker, loop);
	*ret = loop;
	return 0;

undo_wake:
	fd_close(loop->wake_fd);
undo_loop:
	free(loop);
	return r;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	assert(loop->in_flight == 0);
	loop_worker_done(&loop->worker);
	io_uring_queue_exit(&loop->ring);
	iobuf_pool_done(&loop->buffers);
	fd_close(loop->wake_fd);
	free(loop);
}

unsigned loop_features(const struct loop *loop)
{
	return loop->features;
}

unsigned loop_in_flight(const struct loop *loop)
{
	return loop->in_flight;
}

bool loop_is_current(const struct loop *loop)
{
	return atomic_load(&loop->running) &&
	       pthread_equal(loop->thread, pthread_self());
}

/*
 * A free submission entry. When the queue is full, what is in it is
 * submitted first; the kernel takes all of it, or as much as it has memory
 * for, and then takes the rest at the next try.
 */
static struct io_uring_sqe *entry_get(struct loop *loop)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&loop->ring);

	while (!sqe) {
		(void)io_uring_submit(&loop->ring); /* tried again at once */
		sqe = io_uring_get_sqe(&loop->ring);
	}
	return sqe;
}

static void entry_start(struct loop *loop, struct io_uring_sqe *sqe,
			struct op *op)
{
	io_uring_sqe_set_data(sqe, op);
	if (op)
		loop->in_flight++;
}

/* ---- messages from other threads ---- */

static void wake(struct loop *loop)
{
	uint64_t one = 1;

	/* A full counter (EAGAIN) wakes it as well. */
	(void)!write(loop->wake_fd, &one, sizeof(one));
}

void loop_post(struct loop *loop, struct loop_message *message)
{
	struct loop_message *head = atomic_load(&loop->messages);

	do
		message->next = head;
	while (!atomic_compare_exchange_weak(&loop->messages, &head, message));
	/* Whoever found it empty wakes the loop; the others ride along. */
	if (!head)
		wake(loop);
}

static void messages_run(struct loop *loop)
{
	struct loop_message *message = atomic_exchange(&loop->messages, NULL);
	struct loop_message *ordered = NULL;

	while (message) { /* the newest is first: turn it round */
		struct loop_message *next = message->next;

		message->next = ordered;
		ordered = message;
		message = next;
	}
	while (ordered) {
		struct loop_message *next = ordered->next;

		ordered->run(ordered); /* may free it */
		ordered = next;
	}
}

static void wake_arm(struct loop *loop)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_read(sqe, loop->wake_fd, &loop->wake_count,
			   sizeof(loop->wake_count), 0);
	io_uring_sqe_set_data(sqe, &loop->wake_op);
	loop->wake_armed = true;
}

static void wake_done(struct op *op, int res)
{
	struct loop *loop = container_of(op, struct loop, wake_op);

	(void)res; /* messages and the stop flag are looked at in any case */
	loop->wake_armed = false;
	messages_run(loop);
	if (!atomic_load(&loop->stopping))
		wake_arm(loop);
}

struct call {
	struct loop_message message;
	int (*call)(void *context);
	void *context;
	int res;
	sem_t done;
};

static void call_run(struct loop_message *message)
{
	struct call *call = container_of(message, struct call, message);

	call->res = call->call(call->context);
	sem_post(&call->done);
}

int loop_call(struct loop *loop, int (*function)(void *context), void *context)
{
	struct call call = {
		.message.run = call_run,
		.call = function,
		.context = context,
	};

	assert(!loop_is_current(loop));
	sem_init(&call.done, 0, 0);
	loop_post(loop, &call.message);
	while (sem_wait(&call.done) < 0)
		assert(errno == EINTR);
	sem_destroy(&call.done);
	return call.res;
}

/* ---- batches ---- */

void loop_batch_add(struct loop *loop, struct loop_batch *batch)
{
	if (batch->queued)
		return;
	batch->queued = true;
	batch->next = NULL;
	if (loop->batch_last)
		loop->batch_last->next = batch;
	else
		loop->batch_first = batch;
	loop->batch_last = batch;
}

void loop_batch_remove(struct loop *loop, struct loop_batch *batch)
{
	struct loop_batch **at = &loop->batch_first;
	struct loop_batch *before = NULL;

	if (!batch->queued)
		return;
	while (*at != batch) {
		before = *at;
		at = &(*at)->next;
	}
	*at = batch->next;
	if (loop->batch_last == batch)
		loop->batch_last = before;
	batch->queued = false;
}

static void batches_run(struct loop *loop)
{
	while (loop->batch_first) {
		struct loop_batch *batch = loop->batch_first;

		loop_batch_remove(loop, batch);
		batch->run(batch);
	}
}

/* ---- running ---- */

static unsigned completions_run(struct loop *loop)
{
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;

	io_uring_for_each_cqe(&loop->ring, head, cqe)
	{
		struct op *op = io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		/* Give the entry back first: done() may start more. */
		io_uring_cq_advance(&loop->ring, 1);
		seen++;
		if (!op)
			continue;
		if (op != &loop->wake_op)
			loop->in_flight--;
		op->done(op, res);
	}
	return seen;
}

static int wait_more(struct loop *loop)
{
	int r = io_uring_submit_and_wait(&loop->ring, 1);

	/* EAGAIN, EBUSY: completions must be taken first. */
	if (r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return r;
}

/*
 * Submit what the last round started and take what is ready at once, so
 * that the results of cached I/O join the batch that asked for it.
 */
static int submit_more(struct loop *loop)
{
	int r;

	if (!io_uring_sq_ready(&loop->ring))
		return 0;
	if (loop->features & LOOP_DEFER_TASKRUN)
		r = io_uring_submit_and_get_events(&loop->ring);
	else
		r = io_uring_submit(&loop->ring);
	if (r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return r;
}

static int round_run(struct loop *loop)
{
	int r = wait_more(loop);

	for (int i = 0; i < ROUND_LOOKS && r >= 0; i++) {
		if (!completions_run(loop))
			break;
		r = submit_more(loop);
	}
	batches_run(loop);
	return r;
}

int loop_run(struct loop *loop)
{
	int r = 0;

	if (!loop->enabled) {
		/* liburing 2.3 declares a wrapper and does not export it. */
		r = io_uring_register((unsigned)loop->ring.ring_fd,
				      IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		if (r < 0)
			return r;
		loop->enabled = true;
	}
	if (loop->name)
		(void)pthread_setname_np(pthread_self(), loop->name);
	loop->thread = pthread_self();
	atomic_store(&loop->running, true);
	loop->wake_op.done = wake_done;
	if (!loop->wake_armed)
		wake_arm(loop);
	batches_run(loop); /* what was added before the run */
	while (r >= 0 && !atomic_load(&loop->stopping))
		r = round_run(loop);
	messages_run(loop);
	batches_run(loop);
	atomic_store(&loop->running, false);
	return r < 0 ? r : 0;
}

void loop_stop(struct loop *loop)
{
	atomic_store(&loop->stopping, true);
	wake(loop);
}

/* ---- timers ---- */

void loop_timer_start(struct loop *loop, struct loop_timer *timer,
		      unsigned delay_ms)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	timer->at = (struct __kernel_timespec){
		.tv_sec = delay_ms / 1000,
		.tv_nsec = (long long)(delay_ms % 1000) * 1000000,
	};
	io_uring_prep_timeout(sqe, &timer->at, 0, 0);
	entry_start(loop, sqe, &timer->op);
}

/* ---- descriptors ---- */

void loop_read(struct loop *loop, struct op *op, int fd, void *data,
	       uint32_t length, uint64_t offset)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_read(sqe, fd, data, length, offset);
	entry_start(loop, sqe, op);
}

void loop_write(struct loop *loop, struct op *op, int fd, const void *data,
		uint32_t length, uint64_t offset, int rw_flags)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_write(sqe, fd, data, length, offset);
	sqe->rw_flags = rw_flags;
	entry_start(loop, sqe, op);
}

void loop_hurry(struct loop *loop, unsigned most)
{
	/* What is not taken now is at the end of the round. */
	if (io_uring_sq_ready(&loop->ring) >= most)
		(void)io_uring_submit(&loop->ring);
}

void loop_fdatasync(struct loop *loop, struct op *op, int fd)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	entry_start(loop, sqe, op);
}

void loop_fallocate(struct loop *loop, struct op *op, int fd, int mode,
		    uint64_t offset, uint64_t length)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	/* liburing 2.3 types both as off_t or __u64; the fields are u64. */
	io_uring_prep_rw(IORING_OP_FALLOCATE, sqe, fd, NULL, (unsigned)mode,
			 offset);
	sqe->addr = length;
	entry_start(loop, sqe, op);
}

void loop_fadvise(struct loop *loop, struct op *op, int fd, uint64_t offset,
		  uint64_t length, int advice)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	assert(length <= UINT32_MAX); /* all that the entry has room for */
	io_uring_prep_rw(IORING_OP_FADVISE, sqe, fd, NULL, (unsigned)length,
			 offset);
	sqe->fadvise_advice = (uint32_t)advice;
	entry_start(loop, sqe, op);
}

void loop_accept(struct loop *loop, struct op *op, int fd)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
	entry_start(loop, sqe, op);
}

void loop_connect(struct loop *loop, struct op *op, int fd,
		  const struct sockaddr *address, socklen_t length)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_connect(sqe, fd, address, length);
	entry_start(loop, sqe, op);
}

void loop_recv(struct loop *loop, struct op *op, int fd, void *data,
	       size_t length, int flags)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_recv(sqe, fd, data, length, flags);
	entry_start(loop, sqe, op);
}

void loop_recv_later(struct loop *loop, struct op *op, int fd, void *data,
		     size_t length, int flags)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_recv(sqe, fd, data, length, flags);
	if (loop->features & LOOP_POLL_FIRST)
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	entry_start(loop, sqe, op);
}

void loop_send(struct loop *loop, struct op *op, int fd, const void *data,
	       size_t length, int flags)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_send(sqe, fd, data, length, flags | MSG_NOSIGNAL);
	entry_start(loop, sqe, op);
}

void loop_sendmsg(struct loop *loop, struct op *op, int fd,
		  const struct msghdr *message, int flags)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_sendmsg(sqe, fd, message, (unsigned)flags | MSG_NOSIGNAL);
	entry_start(loop, sqe, op);
}

void loop_poll(struct loop *loop, struct op *op, int fd, unsigned events)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_poll_add(sqe, fd, events);
	entry_start(loop, sqe, op);
}

void loop_close(struct loop *loop, struct op *op, int fd)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_close(sqe, fd);
	entry_start(loop, sqe, op);
}

void loop_cancel(struct loop *loop, struct op *op)
{
	struct io_uring_sqe *sqe = entry_get(loop);

	io_uring_prep_cancel(sqe, op, 0);
	entry_start(loop, sqe, NULL); /* whether it was found: op tells */
}

struct iobuf *loop_iobuf_get(struct loop *loop, uint32_t size)
{
	return iobuf_get(&loop->buffers, size);
}

void loop_iobuf_put(struct loop *loop, struct iobuf *buf)
{
	iobuf_put(&loop->buffers, buf);
}
