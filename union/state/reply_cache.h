/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are done once, though the server that was doing them was killed
 * and the kernel sends what it had no answer to again (FUSE_NOTIFY_RESEND,
 * Linux 6.9): the same request with REPLY_CACHE_RESENT set in its unique
 * number.
 *
 * Each request that must not simply be done again has a slot in memory that
 * outlives the server: first that it is begun, then what its handler noted of
 * the branches before it changed them and which nodes and open files it
 * counted, and last its reply, before that is written to the kernel. So when a
 * request comes again
 *
 *   - nothing is known of it: it was not begun, or need not be known. Do it;
 *   - its reply is known: it is sent, and nothing is done;
 *   - it was begun: what it counted is given back, and it is done again by a
 *     handler that finds what had been noted (reply_cache_noted()) and so can
 * tell what it did already from what was there before.
 *
 * Whatever is killed at whatever instruction leaves one of the three. The
 * kernel holds locks for a request until it is answered (the directories of
 * names, the inode whose attributes change), so what it left is as it was.
 *
 * What needs no slot: all that only reads; WRITE, FALLOCATE (the kernel asks
 * for no mode that moves data; fuse_file_fallocate(), 6.18) and
 * COPY_FILE_RANGE (which it refuses for ranges that overlap), for they say
 * where, and under the kernel's lock of the inode give the same twice; so does
 * SETATTR, but for one that wants nothing (request.h);
 * RELEASE, if the numbers of open files are not used again (else one that is
 * done twice closes another's file); FORGET, which is not sent again: a server
 * that dies with one leaves a node too many.
 */
#ifndef UNION_REPLY_CACHE_H
#define UNION_REPLY_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "union/state/request.h"
#include "union/sys/handle.h"

/* Of fuse_in_header.unique; FUSE_UNIQUE_RESEND of linux/fuse.h, 7.40. */
#define REPLY_CACHE_RESENT (UINT64_C(1) << 63)

/*
 * Bytes that have a slot for all requests that can be in work at once. Most
 * of them are never touched, so in a memfd they take no memory.
 */
#define REPLY_CACHE_SIZE (8u << 20)

struct reply_cache;

/* What a resent request needs of the server. */
struct reply_cache_server {
	/* The kernel was not told of it after all: node_forget() of one. */
	void (*forget)(void *context, uint64_t node);
	/* Nor of this open file or directory, if there is such a one. It is
	 * called by a thread that serves a request, in the node's gate. */
	void (*drop)(void *context, uint64_t file);
	void *context;
};

/*
 * Use @memory (borrowed until reply_cache_free(); aligned to 8 bytes, zeroed at
 * first), and take what is in it for that of a server that is no more: after
 * its nodes and open files were built anew and before the first request. There
 * are no pointers in it. What makes no sense in it is dropped.
 *
 * 0, -EINVAL (@size is too small for one slot) or -ENOMEM.
 */
int reply_cache_open(void *memory, size_t size,
		     const struct reply_cache_server *server,
		     struct reply_cache **ret);
void reply_cache_free(
	struct reply_cache *once); /* the memory stays as it is; NULL is fine */

/* Requests that were begun and have neither been answered nor come again. */
unsigned reply_cache_missing(const struct reply_cache *once);

/*
 * Are there any, and may they still come? They come at once, but for those
 * whose callers were killed: so this ends REPLY_CACHE_PATIENCE_MS after
 * reply_cache_open(). Until then nothing is to leave its branch but by a
 * request, or what such a one has noted would be taken for done.
 */
#define REPLY_CACHE_PATIENCE_MS 5000
bool reply_cache_is_waiting(const struct reply_cache *once);

/*
 * This thread begins to serve the request @note, once it is through its gate.
 * True: serve it. False: it came again and its reply is known; that is written
 * to @fd, and it is not to be served. Without a slot it waits for one. A NULL
 * @once is for all of these: nothing is noted, nothing is known.
 */
bool reply_cache_begin(struct reply_cache *once,
		       const struct request_note *note, int fd);

/*
 * True: this is its reply, not written yet, and is kept; reply_cache_end() when
 * it is written or was refused. False: it has no slot, or this is no reply to
 * it.
 */
bool reply_cache_reply(const struct iovec *iov, int count);

/* Its slot is free: it was answered, or by another thread. */
void reply_cache_end(void);

/* For its handler, before the change that is noted: */

enum reply_cache_note {
	REPLY_CACHE_ABSENT = 1, /* the name, or attribute, was not there */
	REPLY_CACHE_PRESENT, /* it was; the name for the file @handle on @branch
			      */
	REPLY_CACHE_TAKEN,   /* as what a setattr was taken: see ops_attr.c */
};

struct reply_cache_noted {
	enum reply_cache_note note;
	unsigned branch;
	struct handle handle;
};

/* Would it be of use to note something? It was not, and is to be. */
bool reply_cache_wants_note(void);
void reply_cache_note(enum reply_cache_note note);
void reply_cache_note_file(unsigned branch, const struct handle *handle);

/*
 * What a server that was killed noted before it changed anything for this same
 * request. False: nothing, so nothing was changed.
 */
bool reply_cache_noted(struct reply_cache_noted *ret);

/* Of a reply on its way: it counts a node, or opens a file or directory. */
void reply_cache_gains_node(uint64_t node);
void reply_cache_gains_file(uint64_t file);

/* Before that is taken back, because there will be an error instead. */
void reply_cache_gains_nothing(void);

#endif
