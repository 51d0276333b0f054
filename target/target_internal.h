/* SPDX-License-Identifier: Apache-2.0 */
/* What target*.c share, for these files only. */
#ifndef TARGET_INTERNAL_H
#define TARGET_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/loop/loop.h"
#include "target/iscsi/iscsi_conn.h"
#include "target/nbd/nbd_conn.h"
#include "target/target.h"

/* A thread with its loop and its connections. */
struct worker {
	struct target *target;
	struct loop *loop;
	struct conn_service nbd;
	struct iscsi_service iscsi;
	pthread_t thread;
	bool started;
	char name[16];
	atomic_uint connections; /* on it, or on their way to it */
	/*
	 * Since when its thread may wait for a disk, ns; 0: it does not. Only
	 * while it has one connection, by NBD, and never worker 0.
	 */
	atomic_llong blocked_ns;
	struct loop_blocking blocking;
	struct loop_message stop_message;
};

struct target {
	struct export_table *exports;
	struct tls_server *tls; /* NULL: none */
	struct iscsi_table *iscsi;
	unsigned max_connections;
	/* Of worker 0, which accepts for all. */
	struct listener *listeners;
	unsigned listeners_open;
	sem_t listeners_closed;
	struct log_limit log_limit;
	unsigned n_workers;
	struct worker workers[];
};

/*
 * Start the worker's thread.
 *
 * @index  among the target's workers; 0 accepts for all
 *
 * Returns 0 or a negative errno; worker_end() also after a failure.
 */
int worker_start(struct target *target, struct worker *worker,
		 const struct target_options *options, unsigned index,
		 struct error *err);

/* Let its connections end; the last one ends the loop. */
void worker_stop(struct worker *worker);

/* Wait until it has ended, and free what it has. */
void worker_end(struct worker *worker);

/*
 * Tell connections of the export @name that it has @size bytes. A worker is not
 * waited for while a disk does not answer its thread. Its one connection is
 * told before it receives anything.
 */
void worker_grow(struct worker *worker, const char *name, uint64_t size);

#endif
