/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For uring.c alone: the threads of a struct uring. Each has an entry and a
 * ring; it registers the entry, serves the requests that come in it and gives
 * it back, until the connection ends.
 */
#ifndef UNION_URING_WORKER_H
#define UNION_URING_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "union/uring.h"
#include "union/uring_entry.h"
#include "union/uring_kept.h"

/* The steps of the first threads, which go together. */
enum uring_stage {
	URING_PREPARING, /* until all have what they need */
	URING_PREPARED,  /* until FUSE_INIT is answered */
	URING_ON,
	URING_OFF,
};

struct uring {
	struct uring_server server;
	struct uring_entries entries;
	unsigned queues;
	const struct uring_kept *kept; /* NULL: rings are of their threads */
	atomic_uint *idle; /* entries of a queue that wait for a request */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	enum uring_stage stage;
	unsigned preparing; /* threads */
	unsigned unregistered;
	int error;         /* the first one of a thread that prepares */
	atomic_bool begun; /* the kernel has been told */
	atomic_bool on;    /* and all are registered */
};

/* Who wants an entry to be taken from a thread that hangs waits for that. */
struct uring_taking {
	uint64_t unique;
	int error;  /* that it is answered with */
	int result; /* > 0: not yet; 0 or -errno */
};

/* What a thread begins with. */
struct uring_job {
	unsigned queue;
	bool first; /* one of those that go together */
	/* The ring that it uses; NULL: one of its own. */
	const struct uring_kept *kept;
	unsigned number;             /* of that */
	struct uring_taking *taking; /* NULL: an entry that nobody has */
};

/* 0 or -errno: -EAGAIN: there are too many; and then nothing has changed. */
int uring_worker_start(struct uring *uring, const struct uring_job *job);

/* Is the caller such a thread? Its entry, or NULL. */
struct uring_entry *uring_worker_entry(void);

/*
 * What the thread does now may wait for who waits for its reply: if that is
 * there, let it go first. Not without uring_worker_entry().
 */
void uring_worker_commit_early(void);

/*
 * The reply is there. By a ring that is kept it leaves at once: what is known
 * of the request, in case that it is served again, is known no more once this
 * has returned. As above.
 */
void uring_worker_commit_kept(void);

#endif
