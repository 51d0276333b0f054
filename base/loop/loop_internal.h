/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that loop*.c and iobuf*.c share, for these files only. */
#ifndef BASE_LOOP_INTERNAL_H
#define BASE_LOOP_INTERNAL_H

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/loop/iobuf.h"
#include "base/loop/loop.h"

/* One helper thread for work that would block the loop, made at first use. */
struct loop_worker {
	struct loop *loop;
	pthread_t thread;
	bool started;                 /* the loop's */
	pthread_mutex_t lock;         /* guards what follows */
	pthread_cond_t more;          /* something to do, or ending */
	struct loop_work *todo_first; /* in order */
	struct loop_work *todo_last;
	struct loop_work *ready_first; /* run, not yet told to the loop */
	struct loop_work *ready_last;
	bool posted; /* the message below is on its way */
	bool ending;
	struct loop_message message;
};

void loop_worker_init(struct loop_worker *worker, struct loop *loop);
void loop_worker_done(struct loop_worker *worker);

/* The buffers of streams, and the ring by which the kernel has them. */
struct loop_provided {
	struct io_uring_buf_ring *ring; /* NULL: none */
	uint8_t *data;
	size_t size; /* bytes of both */
};

int loop_provided_init(struct loop_provided *provided, struct io_uring *ring);
void loop_provided_done(struct loop_provided *provided);

/* How the next round waits (loop_round.c). */
struct loop_wait {
	bool soon;       /* the last wait was short */
	unsigned vain;   /* looks that found nothing, less those that did */
	unsigned asleep; /* so many more waits do not look */
	/* Looks that found something, and those in vain, for tests. */
	uint64_t looks, vain_looks;
};

struct loop {
	struct io_uring ring;
	const char *name;
	unsigned features;
	unsigned in_flight;
	bool enabled; /* the ring belongs to a thread */
	pthread_t thread;
	atomic_bool running;
	atomic_bool stopping;
	_Atomic(struct loop_message *) messages; /* newest first */
	int wake_fd;
	bool wake_armed;
	uint64_t wake_count;
	struct op wake_op;
	struct loop_batch *batch_first;
	struct loop_batch *batch_last;
	struct op *results_first, *results_last;
	struct loop_wait wait;
	struct loop_blocking *blocking; /* NULL: the thread never blocks */
	int64_t block_ns;               /* since when it may be blocked */
	bool was_blocked;               /* since messages were looked for */
	unsigned disks;                 /* loop_disk_begin() without its end */
	int64_t payload_ns; /* loop_payload_begin(): so long; 0: none comes */
	struct loop_provided provided;
	unsigned done_flags; /* of the completion being told */
	struct iobuf_pool buffers;
	uint64_t fixed_ops;        /* on registered buffers, for tests */
	uint64_t forced_async_ops; /* given to another thread at once, for tests
				    */
	struct loop_worker worker;
};

/* The kernel took nothing: until there is a completion, or for a moment. */
void loop_pause(struct loop *loop);

/* Run the messages of other threads, in order. */
void loop_messages_run(struct loop *loop);
/* Have the ring tell when another thread wakes the loop. */
void loop_wake_arm(struct loop *loop);

/*
 * Return a free submission entry. A full queue is submitted first. The kernel
 * takes all of it, or as much as it has memory for, and takes the rest at the
 * next try.
 */
struct io_uring_sqe *loop_entry_get(struct loop *loop);
/* The entry is filled in; @op is done when it is. NULL: nobody is told. */
void loop_entry_start(struct loop *loop, struct io_uring_sqe *sqe,
		      struct op *op);

#endif
