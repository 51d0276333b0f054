/* SPDX-License-Identifier: Apache-2.0 */
/* What loop.c, loop_work.c and iobuf.c share. Nobody else includes it. */
#ifndef BASE_LOOP_INTERNAL_H
#define BASE_LOOP_INTERNAL_H

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/loop.h"

#define IOBUF_CLASSES 15 /* 4 KiB << 0..14: 4 KiB to 64 MiB */

/* Buffers by size class; those put back are kept for the next. */
struct iobuf_pool {
	struct iobuf *free[IOBUF_CLASSES];
	size_t limit;     /* bytes */
	size_t allocated; /* bytes, in use and kept */
	size_t in_use;    /* bytes */
};

void iobuf_pool_init(struct iobuf_pool *pool, size_t limit);
void iobuf_pool_done(struct iobuf_pool *pool);
struct iobuf *iobuf_get(struct iobuf_pool *pool, uint32_t size);
void iobuf_put(struct iobuf_pool *pool, struct iobuf *buf);

/* One helper thread for what would block the loop, made at first use. */
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
	struct iobuf_pool buffers;
	struct loop_worker worker;
};

#endif
