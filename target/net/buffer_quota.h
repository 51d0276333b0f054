/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a loop, between its NBD and its iSCSI connections: while some
 * of the one wait, those of the other get none beyond half of them, and those
 * that sit on theirs are dropped. On the loop's thread.
 */
#ifndef TARGET_BUFFER_QUOTA_H
#define TARGET_BUFFER_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"

/*
 * Bytes of buffers that a connection which holds no more may have of the loop's
 * reserve, without standing in line: what others do keeps it from nothing.
 * Ours.
 */
#define BUFFER_RESERVE_MAX (UINT32_C(256) << 10)

struct buffer_share {
	size_t held;                /* bytes, without those of the reserve */
	bool waits;                 /* some stand in line */
	size_t half;                /* bytes */
	struct buffer_share *other; /* NULL: there is none */
	/* Drop who holds buffers and neither takes nor sends anything. */
	void (*drop_stuck)(struct buffer_share *share, int64_t now_ms);
};

/* @limit: the loop's, bytes */
static inline void buffer_share_pair(struct buffer_share *a,
				     struct buffer_share *b, size_t limit)
{
	a->half = b->half = limit / 2;
	a->other = b;
	b->other = a;
}

/* Of the reserve, for a connection that holds @held bytes. NULL: not now. */
static inline struct iobuf *buffer_share_get_reserve(struct loop *loop,
						     size_t held, uint32_t size)
{
	if (held + size > BUFFER_RESERVE_MAX)
		return NULL;
	return loop_iobuf_get_reserve(loop, size);
}

/* The others wait, and it would be more than half. */
static inline bool buffer_share_exceeds(const struct buffer_share *share,
					uint32_t size)
{
	return share->other && share->other->waits && share->held > 0 &&
	       share->held + size > share->half;
}

/* Of the rest, for who is at the head of the line. NULL: not now. */
static inline struct iobuf *buffer_share_get(struct buffer_share *share,
					     struct loop *loop, uint32_t size)
{
	struct iobuf *buf;

	if (buffer_share_exceeds(share, size))
		return NULL;
	buf = loop_iobuf_get(loop, size);
	if (buf)
		share->held += buf->size;
	return buf;
}

static inline void buffer_share_put(struct buffer_share *share,
				    struct loop *loop, struct iobuf *buf)
{
	if (!buf->reserve)
		share->held -= buf->size;
	loop_iobuf_put(loop, buf);
}

/* For who waits, now and then. */
static inline void buffer_share_look(struct buffer_share *share, int64_t now_ms)
{
	share->drop_stuck(share, now_ms);
	if (share->other)
		share->other->drop_stuck(share->other, now_ms);
}

#endif
