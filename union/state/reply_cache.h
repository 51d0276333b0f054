/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are done once, even if the server was killed while it did them. The
 * kernel sends unanswered requests again (FUSE_NOTIFY_RESEND, Linux 6.9). Such
 * a request is the same, with REPLY_CACHE_RESENT set in its unique number.
 *
 * Each request that must not simply be done again has a slot in memory that
 * outlives the server. The slot says first that the request is begun. Then it
 * has the handler's note of the branches, written before their change, and the
 * nodes and open files that were counted. Last it has the reply, before that is
 * written to the kernel. So when a request comes again
 *
 *   - nothing is known of it: it was not begun, or need not be known. Do it;
 *   - its reply is known: the reply is sent, and nothing is done;
 *   - it was begun: its counts are given back, and it is done again. The
 *     handler finds its note (reply_cache_noted()) and compares it with what is
 *     there, to tell which part was done already.
 *
 * A kill at any instruction leaves one of the three. The kernel holds locks for
 * a request until it is answered: of the directories of names, or of the inode
 * whose attributes change. So an interrupted request finds its work unchanged.
 *
 * Some requests need no slot:
 *
 * - those that only read;
 * - WRITE, FALLOCATE and COPY_FILE_RANGE: they name a place, and under the
 *   kernel's lock of the inode give the same twice. The kernel asks for no
 *   FALLOCATE that moves data (fuse_file_fallocate(), 6.18). It refuses
 *   COPY_FILE_RANGE for ranges that overlap;
 * - SETATTR for the same reason, except one that sets no attribute (request.h);
 * - RELEASE, if the numbers of open files are not used again. Else a second one
 *   would close another's file;
 * - FORGET, which is not sent again: a server that dies with one leaves a node
 *   too many.
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

/* The server's part in a resent request. */
struct reply_cache_server {
	/*
	 * Callback: the kernel was not told of @node after all; node_forget()
	 * of one.
	 */
	void (*forget)(void *context, uint64_t node);
	/*
	 * Callback: the kernel was not told of @file, an open file or
	 * directory, if it exists. A thread that serves a request calls it, in
	 * the node's lock (migrate_lock.h).
	 */
	void (*drop)(void *context, uint64_t file);
	void *context;
};

/*
 * Use @memory: borrowed until reply_cache_free(), aligned to 8 bytes, zeroed at
 * first. Its content is taken for that of a server that is no more. Call this
 * after that server's nodes and open files were built anew, and before the
 * first request. There are no pointers in the memory. Content that makes no
 * sense is dropped.
 *
 * 0, -EINVAL (@size is too small for one slot) or -ENOMEM.
 */
int reply_cache_open(void *memory, size_t size,
		     const struct reply_cache_server *server,
		     struct reply_cache **ret);
void reply_cache_free(
	struct reply_cache *once); /* the memory stays as it is; NULL is fine */

/*
 * Count requests that were begun and have neither been answered nor come again.
 */
unsigned reply_cache_missing(const struct reply_cache *once);

/*
 * Are any such requests left, and may they still come? They come at once, but
 * for those whose callers were killed. So this ends REPLY_CACHE_PATIENCE_MS
 * after reply_cache_open(). Until then only a request may take a name off its
 * branch: else the note of a request to come would be taken for done.
 */
#define REPLY_CACHE_PATIENCE_MS 5000
bool reply_cache_is_waiting(const struct reply_cache *once);

/*
 * Begin to serve the request, once it has its locks (migrate_lock.h).
 * True: serve it. False: it came again and its reply is known; the reply was
 * written to @fd, and the request is not to be served. Without a free slot this
 * waits for one. All functions here take a NULL @once: nothing is noted,
 * nothing is known.
 */
bool reply_cache_begin(struct reply_cache *once, struct request *request,
		       int fd);

/*
 * Keep the reply of the request, before it is written. True: it is
 * kept; call reply_cache_end() when it is written or was refused. False: the
 * request has no slot, or this is no reply to it.
 */
bool reply_cache_reply(struct request *request, const struct iovec *iov,
		       int count);

/* Free the slot of a request that was answered, perhaps by another thread. */
void reply_cache_end(struct request *request);

/* For the handler, before the change that is noted: */

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

/* Is a note needed? Then none was written yet. */
bool reply_cache_wants_note(const struct request *request);
void reply_cache_note(struct request *request, enum reply_cache_note note);
void reply_cache_note_file(struct request *request, unsigned branch,
			   const struct handle *handle);

/*
 * Get the note of a killed server for this same request, written before any
 * change. False: there is none, so nothing was changed.
 */
bool reply_cache_noted(const struct request *request,
		       struct reply_cache_noted *ret);

/*
 * Note the result of a reply on its way: a node counted, a file or directory
 * opened.
 */
void reply_cache_gains_node(struct request *request, uint64_t node);
void reply_cache_gains_file(struct request *request, uint64_t file);

/* Drop these notes, before the result is taken back because of an error. */
void reply_cache_gains_nothing(struct request *request);

#endif
