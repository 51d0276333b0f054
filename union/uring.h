/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests by io_uring instead of read() and write() of /dev/fuse: one system
 * call a request instead of two, and who asks and who serves are on the same
 * CPU. Kernels since 6.14, where the parameter enable_uring of the module fuse
 * says so; libfuse goes on decoding the requests.
 *
 * The kernel has a queue for each CPU and puts a request into an entry of the
 * CPU's queue. Each entry has a thread with a ring of its own. The answer to
 * FUSE_INIT says that we want it, and from then on the kernel keeps every
 * other request back until all queues have entries: so everything that can
 * fail is done before. If it still refuses, requests come by /dev/fuse.
 *
 * FORGET, INTERRUPT and what we notify of go by /dev/fuse always; so the
 * threads that read it (serve.h) stay.
 *
 * A ring is of its thread, and ends with it; or, in a union that survives its
 * server (survive.h), it is the holder's: uring_kept.h. Of the first kind the
 * kernel would lose requests when the server is killed (fs/fuse/dev_uring.c
 * and dev.c, 6.14 to 6.18):
 *
 * - A request is given to an entry by who asks (fuse_uring_queue_fuse_req()),
 *   but copied there by the task that has issued the entry's command, later
 *   (fuse_uring_send_in_task()). When that has died in between it is not
 *   copied, and never served.
 * - FUSE_NOTIFY_RESEND (fuse_resend()) sends again what was read from
 *   /dev/fuse. What is in entries is in lists of the queues, where it does not
 *   look.
 * - A connection that has used rings never goes back to /dev/fuse.
 *
 * With the second kind that task is a thread of the holder's, which does not
 * die with the server, and what it has copied is in memory that the next server
 * has, too. That finds in the rings what each entry was about
 * (uring_record.h), and serves again what was not answered: so nothing needs to
 * be sent again by the kernel. When the holder is killed its threads hand over
 * what they were given before they end (io_sq_thread()), and the server goes on
 * with rings of its own; what came in between is had by kick.h.
 */
#ifndef UNION_URING_H
#define UNION_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"

struct uring;
struct uring_kept;

/* Who serves. */
struct uring_server {
	int fd; /* of /dev/fuse; borrowed */
	/* One more thread is about to be made. False: there are too many. */
	bool (*begin)(void *context);
	/* In a new thread, first; 0 or -errno. */
	int (*setup)(void);
	/* Serve a request of the kernel. */
	void (*serve)(void *context, void *data, size_t length);
	/* Have the kernel put FUSE_NOTIFY_REPLY into the queue of the calling
	 * thread's CPU: kick.h. That one is not served. */
	void (*kick)(void *context);
	/* Such a thread ends, or was not made after all. */
	void (*end)(void *context);
	void *context;
};

/* May it be used? 0 or -EOPNOTSUPP; @err says what this kernel lacks. */
int uring_check(struct error *err);

/*
 * Make @threads threads for each queue, fewer where there are many CPUs. They
 * wait for uring_begin().
 *
 * Returns 0, or -errno with @err, and why it cannot be: then all requests come
 * by /dev/fuse. Those threads that were made end by themselves.
 *
 * @ret  set in both cases, but NULL without memory: for uring_free()
 */
int uring_start(const struct uring_server *server, unsigned threads,
		struct uring **ret, struct error *err);

/*
 * The same with those that are kept, borrowed until uring_free(): as a server
 * before has left them.
 */
int uring_start_kept(const struct uring_server *server,
		     const struct uring_kept *kept, struct uring **ret,
		     struct error *err);
void uring_free(struct uring *uring); /* once all threads have ended */

/*
 * May FUSE_INIT be answered with FUSE_OVER_IO_URING?
 *
 * @largest  bytes of payload that are agreed upon
 */
bool uring_fits(struct uring *uring, size_t largest);

/* It has been answered so (@wanted), or not: then the threads end. */
void uring_begin(struct uring *uring, bool wanted);

/* Do requests come by io_uring? */
bool uring_is_on(const struct uring *uring);

/*
 * What one would write to /dev/fuse. -ENOENT: it belongs there; else as
 * writev() would: the length, or -errno.
 */
int uring_reply(struct uring *uring, const struct iovec *iov, int count);

/* A thread is held up: see that each queue has one that is not. */
void uring_more(struct uring *uring);

/*
 * Answer @unique with @error (negative) for a thread that hangs. 0; -ENOENT:
 * it is not here; or -errno: no thread can be made to go on with the entry.
 */
int uring_answer(struct uring *uring, uint64_t unique, int error);

#endif
