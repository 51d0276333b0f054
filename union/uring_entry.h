/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries: which request of the kernel is where, and where its reply goes.
 *
 * An entry belongs to one thread, which serves the request that is in it and
 * gives it back with the reply. The reply may come from another thread, also
 * after the owner's handler is done: then the owner waits for it. Who hangs is
 * answered by taking its entry away: from then on the entry, with its reply,
 * is the taker's, and what the owner says later finds no request, as with
 * /dev/fuse.
 *
 * A request is copied out of the entry before it is served, so that the entry
 * can be used again while somebody who hangs still looks at it.
 */
#ifndef UNION_URING_ENTRY_H
#define UNION_URING_ENTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "union/uring_record.h"
#include "union/uring_wire.h"

#define URING_ENTRIES_MAX 2048
#define URING_PAYLOAD     (1u << 20) /* bytes; the largest of libfuse */
#define URING_REQUEST_MAX (URING_PAYLOAD + 4096) /* with its headers */

/* The memory of an entry. */
struct uring_place {
	struct uring_headers *headers;
	char *payload;               /* URING_PAYLOAD bytes */
	struct uring_record *record; /* NULL: it ends with the server */
	unsigned number;             /* of one that does not */
};

struct uring_entry {
	struct uring_place place;
	unsigned queue;

	pthread_mutex_t lock;
	pthread_cond_t answered;
	const void *owner;
	uint64_t unique;    /* of the request in it, as it is served; 0: none */
	uint64_t commit_id; /* that the kernel wants back with its reply */
	bool replied;
};

struct uring_entries {
	struct uring_entry *_Atomic items[URING_ENTRIES_MAX];
	atomic_uint count; /* those being made among them, still NULL */
};

/*
 * One more, of @owner. NULL: no memory, or there are too many.
 *
 * @place  its memory, borrowed until uring_entries_done(); NULL: it gets some
 */
struct uring_entry *uring_entry_new(struct uring_entries *entries,
				    const struct uring_place *place,
				    unsigned queue, const void *owner);
void uring_entries_done(struct uring_entries *entries);

/*
 * The kernel has put a request into @entry: copy it, as /dev/fuse would have
 * given it. It is answered by uring_entries_reply() from now on.
 *
 * @data       URING_REQUEST_MAX bytes
 * @published  of its ring, if that is kept (struct uring_counts): a killed
 *             server leaves it to uring_entry_again() from now on
 *
 * Returns its length, or -EPROTO when it says sizes that cannot be; then it
 * is to be answered with EIO.
 */
int uring_entry_begin(struct uring_entry *entry, void *data,
		      uint32_t published);

/*
 * A server that is no more had begun so: copy the same, as if the kernel had
 * sent it again. Its length.
 */
int uring_entry_again(struct uring_entry *entry, void *data);

/*
 * A reply as one would write it to /dev/fuse, but with a whole header in the
 * first part. Its length, or -ENOENT: no such request is in an entry; -EINVAL:
 * it is longer than a reply can be, and the kernel gets EIO instead.
 *
 * @first  look there first; or NULL
 */
int uring_entries_reply(struct uring_entries *entries,
			struct uring_entry *first, const struct iovec *iov,
			int count);

/* Wait for the reply. False: @entry is not @owner's any more. */
bool uring_entry_wait(struct uring_entry *entry, const void *owner);

/*
 * The owner is about to give the entry back. What the kernel wants with the
 * reply, never 0; 0 when there is none yet, or the entry is somebody else's.
 */
uint64_t uring_entry_end(struct uring_entry *entry, const void *owner);

/* The entry with that request, which may go on meanwhile; NULL. */
const struct uring_entry *uring_entries_find(struct uring_entries *entries,
					     uint64_t unique);

/*
 * Take the entry with that request for @owner, answered with @error (negative)
 * unless it was answered. NULL: there is none.
 */
struct uring_entry *uring_entries_take(struct uring_entries *entries,
				       uint64_t unique, int error,
				       const void *owner);

#endif
