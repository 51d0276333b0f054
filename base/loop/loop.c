/* SPDX-License-Identifier: Apache-2.0 */
/* A loop from its making to its end, and what other threads tell it. */
#include "base/loop/loop.h"

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
#include "base/loop/loop_internal.h"

#define DEFAULT_ENTRIES      256u
#define DEFAULT_BUFFER_LIMIT (UINT64_C(64) << 20) /* bytes */

/* Setup flags, and the features that stand for them, best first. */
static const struct {
	unsigned feature;
	unsigned setup;
} setups[] = {
	{LOOP_SINGLE_ISSUER | LOOP_DEFER_TASKRUN | LOOP_BUSY_WAIT,
	 IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
		 IORING_SETUP_TASKRUN_FLAG},
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

/* True: there is IORING_OP_SEND_ZC. */
static bool probe_operations(struct loop *loop, unsigned without)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&loop->ring);
	bool zero_copy;

	if (!probe)
		return false;
	zero_copy = io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
	if (zero_copy && !(without & LOOP_SEND_ZC))
		loop->features |= LOOP_SEND_ZC;
	/* The flag can't be asked for; this operation came with it. */
	if (io_uring_opcode_supported(probe, IORING_OP_SOCKET) &&
	    !(without & LOOP_POLL_FIRST))
		loop->features |= LOOP_POLL_FIRST;
	io_uring_free_probe(probe);
	return zero_copy;
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

static void loop_owner_set(struct loop *loop,
			   const struct loop_options *options)
{
	loop->name = options->name;
	loop->blocking = options->blocking;
}

int loop_new(const struct loop_options *options, struct loop **ret,
	     struct error *err)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	bool zero_copy;
	int r;

	if (!loop)
		return error_set(err, ENOMEM, "no memory for a loop");
	loop_owner_set(loop, options);
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
	zero_copy = probe_operations(loop, options->without);
	iobuf_pool_init(&loop->buffers,
			options->buffer_limit ?: DEFAULT_BUFFER_LIMIT);
	if (!(options->without & LOOP_FIXED_BUFFERS) &&
	    iobuf_fixed_init(&loop->buffers.fixed, loop->ring.ring_fd) == 0)
		loop->features |= LOOP_FIXED_BUFFERS;
	/*
	 * Receiving again and again came with SEND_ZC, and has no probe. Only
	 * with DEFER_TASKRUN nothing is received while completions are told,
	 * which bounds what comes to a stream that is to end.
	 */
	if (!(options->without & LOOP_STREAMS) && zero_copy &&
	    loop->features & LOOP_DEFER_TASKRUN &&
	    loop_provided_init(&loop->provided, &loop->ring) == 0)
		loop->features |= LOOP_STREAMS;
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
	loop_provided_done(&loop->provided);
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

#define PAUSE_MS 1

void loop_pause(struct loop *loop)
{
	struct pollfd fd = {.fd = loop->ring.ring_fd, .events = POLLIN};

	if (!io_uring_cq_ready(&loop->ring))
		(void)poll(&fd, 1, PAUSE_MS);
}

struct io_uring_sqe *loop_entry_get(struct loop *loop)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&loop->ring);

	while (!sqe) {
		if (io_uring_submit(&loop->ring) < 0)
			loop_pause(loop); /* and tried again */
		sqe = io_uring_get_sqe(&loop->ring);
	}
	return sqe;
}

void loop_entry_start(struct loop *loop, struct io_uring_sqe *sqe,
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
	/*
	 * The thread that found the list empty wakes the loop, also for the
	 * others.
	 */
	if (!head)
		wake(loop);
}

void loop_messages_run(struct loop *loop)
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

static void wake_done(struct op *op, int res);

void loop_wake_arm(struct loop *loop)
{
	struct io_uring_sqe *sqe = loop_entry_get(loop);

	loop->wake_op.done = wake_done;
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
	loop_messages_run(loop);
	if (!atomic_load(&loop->stopping))
		loop_wake_arm(loop);
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

void loop_stop(struct loop *loop)
{
	atomic_store(&loop->stopping, true);
	wake(loop);
}
