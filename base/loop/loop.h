/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one thread, one io_uring, everything made on it.
 *
 * Every function but loop_post() and loop_stop() is called on the loop's own
 * thread (or before loop_run()). Nothing that runs on a loop may block:
 * blocking work goes through loop_work(). An operation embeds a struct op. Its
 * done() is called exactly once, on the loop, with the result of the system
 * call (bytes or negative errno). The call that started the operation never
 * calls done() itself. A buffer, path or struct given to an operation stays
 * valid and unmoved until its done().
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <linux/time_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/error.h"

struct loop;
struct iobuf;

struct op {
	void (*done)(struct op *op, int res);
	struct op *next; /* the loop's, between loop_complete() and done() */
	int res;         /* the same */
};

/* Features that the kernel may lack; loop_features() tells those found. */
enum loop_feature {
	LOOP_COOP_TASKRUN = 1 << 0,  /* Linux 5.19 */
	LOOP_SINGLE_ISSUER = 1 << 1, /* 6.0 */
	LOOP_DEFER_TASKRUN = 1 << 2, /* 6.1 */
	LOOP_SEND_ZC = 1 << 3,       /* 6.0 */
	LOOP_POLL_FIRST = 1 << 4,    /* 5.19 */
	LOOP_FIXED_BUFFERS = 1 << 5, /* 5.19 */
	LOOP_STREAMS = 1 << 6,       /* 6.1: needs DEFER_TASKRUN */
	LOOP_BUSY_WAIT = 1 << 7,     /* 6.1: needs DEFER_TASKRUN */
	LOOP_ALL_FEATURES = (1 << 8) - 1,
	LOOP_DROPPED = 1 << 8, /* had a name, which may be left out still */
};

/*
 * The word of a loop's owner, whether the loop's thread may wait for a disk.
 * Nothing else of the loop goes on meanwhile. Both are called on the loop.
 */
struct loop_blocking {
	/* Required. False: the thread may not wait now. */
	bool (*begin)(struct loop_blocking *blocking, int64_t now_ns);
	/* Required. The thread goes on. */
	void (*end)(struct loop_blocking *blocking);
};

struct loop_options {
	const char *name;    /* of its thread, up to 15 bytes; borrowed */
	unsigned entries;    /* submission queue size; 0: 256 */
	unsigned without;    /* features not to use, for tests */
	size_t buffer_limit; /* bytes of iobufs, and a reserve; 0: 64 MiB */
	struct loop_blocking *blocking; /* borrowed; NULL: never */
};

/*
 * -ENOSYS or -EPERM with the reason where io_uring is missing or forbidden
 * (sysctl kernel.io_uring_disabled). Needs Linux 5.15.
 */
int loop_new(const struct loop_options *options, struct loop **ret,
	     struct error *err);

/* No operation may be in flight. NULL is fine. */
void loop_free(struct loop *loop);

/* Run on the calling thread until loop_stop(). 0 or a negative errno. */
int loop_run(struct loop *loop);

/* From any thread; sticky: a loop_run() that starts later returns at once. */
void loop_stop(struct loop *loop);

unsigned loop_features(const struct loop *loop);

/* What loop_feature_find() knows, for a help text. */
#define LOOP_FEATURE_NAMES                                                  \
	"coop-taskrun, single-issuer, defer-taskrun, send-zc, poll-first, " \
	"fixed-buffers, streams, busy-wait"

/* 0: no feature has that name. */
enum loop_feature loop_feature_find(const char *name);

/* Operations started and not done yet. */
unsigned loop_in_flight(const struct loop *loop);

/* True when the calling thread is the one inside loop_run(@loop). */
bool loop_is_current(const struct loop *loop);

/* ---- from other threads ---- */

struct loop_message {
	void (*run)(struct loop_message *message); /* on the loop */
	struct loop_message *next;                 /* the loop's */
};

/* Any thread; never fails; messages of one thread run in order. */
void loop_post(struct loop *loop, struct loop_message *message);

/*
 * Post a call and wait for it. Not from a loop's own thread.
 * Returns what @call returned.
 */
int loop_call(struct loop *loop, int (*call)(void *context), void *context);

/* ---- after this batch ---- */

struct loop_batch {
	void (*run)(struct loop_batch *batch);
	struct loop_batch *next; /* the loop's */
	bool queued;             /* the loop's */
};

/*
 * Run once, after every completion that is ready now has been handled and
 * before the loop waits: where replies are sent together. Adding a queued
 * one again does nothing. One that adds itself is run again in this round or
 * the next: the loop does not wait, but takes completions meanwhile.
 */
void loop_batch_add(struct loop *loop, struct loop_batch *batch);
void loop_batch_remove(struct loop *loop, struct loop_batch *batch);

/* ---- results that are known at once ---- */

/* On the loop: @op is done with @res, in this round. Counted as in flight. */
void loop_complete(struct loop *loop, struct op *op, int res);

/*
 * Tell whether nothing is to be submitted yet. Then an operation that need not
 * wait costs less by its own system call than by the ring. Such an operation
 * ends with loop_complete().
 */
bool loop_sq_empty(const struct loop *loop);

/* ---- blocking work ---- */

/*
 * On the loop: begin a system call that ends at once as a rule, and may wait
 * for a disk. False: it may not be made here. True: loop_block_end() follows.
 */
bool loop_block_begin(struct loop *loop);

/* Returns how long it took, in ns. */
int64_t loop_block_end(struct loop *loop);

struct loop_work {
	int (*run)(struct loop_work *work);            /* on a helper thread */
	void (*done)(struct loop_work *work, int res); /* on the loop */
	struct loop_work *next;                        /* the loop's */
	int res;                                       /* the loop's */
};

/* Counted as in flight until done. The helper thread is made at first use. */
void loop_work(struct loop *loop, struct loop_work *work);

/* ---- timers ---- */

struct loop_timer {
	struct op op; /* done(-ETIME) when it fires, -ECANCELED when not */
	struct __kernel_timespec at;
};

/* Set timer->op.done first. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer,
		      unsigned delay_ms);

/* ---- descriptors: results and errors are those of the system call ---- */

/*
 * These two are cheaper with data in one of the loop's own buffers (below). The
 * ring knows the buffers of up to 1 MiB, and keeps their pages.
 */
void loop_read(struct loop *loop, struct op *op, int fd, void *data,
	       uint32_t length, uint64_t offset);
/*
 * The same for a file whose data may be in the page cache. Another thread makes
 * a long copy while other data is under way in the loop's buffers. So the loop
 * sends and receives meanwhile.
 */
void loop_read_cached(struct loop *loop, struct op *op, int fd, void *data,
		      uint32_t length, uint64_t offset);
/* @rw_flags: RWF_DSYNC or 0 */
void loop_write(struct loop *loop, struct op *op, int fd, const void *data,
		uint32_t length, uint64_t offset, int rw_flags);
/*
 * Submit all that was started once @most operations wait, not at the end of the
 * round as otherwise. The operation started last is for a device, which may
 * idle until then.
 */
void loop_submit_early(struct loop *loop, unsigned most);
/*
 * Note that an operation of a disk is under way, or has ended. Meanwhile the
 * loop sleeps through its waits, however short they were. A disk takes longer
 * than a peer to ask again, and looking for it wastes the processor.
 */
void loop_disk_begin(struct loop *loop);
void loop_disk_end(struct loop *loop);
/*
 * Note that a large payload begins to come, or has come. Meanwhile, but for a
 * few ms at most, the loop sleeps through its waits. A payload comes as fast as
 * the peer can send it, and each look would find a little of it. The end of one
 * ends all.
 */
void loop_payload_begin(struct loop *loop);
void loop_payload_end(struct loop *loop);
void loop_fdatasync(struct loop *loop, struct op *op, int fd);
void loop_fallocate(struct loop *loop, struct op *op, int fd, int mode,
		    uint64_t offset, uint64_t length);
/* @length: up to UINT32_MAX; @advice: POSIX_FADV_... */
void loop_fadvise(struct loop *loop, struct op *op, int fd, uint64_t offset,
		  uint64_t length, int advice);
void loop_accept(struct loop *loop, struct op *op, int fd);
void loop_recv(struct loop *loop, struct op *op, int fd, void *data,
	       size_t length, int flags);
/* The same, from a socket that is believed to be empty now: costs less then. */
void loop_recv_later(struct loop *loop, struct op *op, int fd, void *data,
		     size_t length, int flags);

/*
 * A stream: receives again and again, until its end or loop_cancel(). After
 * that, called on the loop, it hands over LOOP_STREAM_TOTAL bytes at most.
 * Counted as in flight while it runs.
 */
struct loop_stream {
	struct op op;
	/*
	 * @data: @res bytes, for the call. @res 0: the peer has closed its
	 * side; negative: -ENOBUFS (all buffers are full: start it again),
	 * -ECANCELED, or what recv() fails with. The last call finds !runs,
	 * and may free the stream.
	 */
	void (*taken)(struct loop_stream *stream, const void *data, int res);
	bool runs;
	struct loop *loop; /* the loop's */
};

/* All streams of a loop share buffers of this many bytes in all. */
#define LOOP_STREAM_PIECE  (UINT32_C(16) << 10)
#define LOOP_STREAM_PIECES 16u
#define LOOP_STREAM_TOTAL  (LOOP_STREAM_PIECES * LOOP_STREAM_PIECE)

/*
 * Only with LOOP_STREAMS, and not for a unix socket. The stream of a unix
 * socket misses an end that came together with bytes (seen with Linux 6.18).
 * Set taken first; zeroed, or one that has ended.
 */
void loop_stream_start(struct loop *loop, struct loop_stream *stream, int fd);

void loop_sendmsg(struct loop *loop, struct op *op, int fd,
		  const struct msghdr *message, int flags);

/*
 * Ask for an operation to end early; its done() still comes, with
 * -ECANCELED or with what it managed to do.
 */
void loop_cancel(struct loop *loop, struct op *op);

/* ---- buffers ---- */

struct iobuf {
	void *data;             /* page aligned */
	uint32_t size;          /* bytes that may be used */
	uint32_t class_;        /* the pool's */
	bool reserve;           /* the pool's */
	struct iobuf_thp *pair; /* the pool's */
	struct iobuf *next;
};

#define IOBUF_MAX (UINT32_C(64) << 20) /* bytes */

/*
 * A buffer of at least @size bytes (1 to IOBUF_MAX) from the loop's pool;
 * content undefined. With LOOP_FIXED_BUFFERS the ring knows 256 of each size (4
 * KiB, 8 KiB... 1 MiB), as long as the process may lock memory. From 1 MiB on
 * buffers are of transparent huge pages where the kernel has them. A buffer of
 * 1 MiB counts as the 2 MiB of its page, where so much is left; the next one
 * shares that page. NULL when the loop's limit is reached: wait until one is
 * put back (back-pressure). This is not an error to log.
 */
struct iobuf *loop_iobuf_get(struct loop *loop, uint32_t size);
/*
 * The same from a reserve beyond the limit, this part of it. The reserve is for
 * connections that hold next to nothing yet, so that others with all of the
 * rest do not keep them out.
 */
#define LOOP_IOBUF_RESERVE 8u
struct iobuf *loop_iobuf_get_reserve(struct loop *loop, uint32_t size);
void loop_iobuf_put(struct loop *loop, struct iobuf *buf);

/* Return the bytes in use, without those of the reserve; a huge page whole. */
size_t loop_iobufs_in_use(const struct loop *loop);

#endif
