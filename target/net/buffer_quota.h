/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing of a loop's buffers between its NBD and its iSCSI connections. While
 * connections of one protocol wait, those of the other get no more than half of
 * the buffers. Connections that sit on their buffers are dropped meanwhile. On
 * the loop's thread.
 */
#ifndef TARGET_BUFFER_QUOTA_H
#define TARGET_BUFFER_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"

/*
 * The most bytes that a connection may hold to get buffers of the loop's
 * reserve, these counted. The reserve needs no standing in line, so that other
 * connections never hold up such a small request. Ours.
 */
#define BUFFER_RESERVE_MAX (UINT32_C(256) << 10)

struct buffer_quota {
	size_t held;                /* bytes, without those of the reserve */
	bool waits;                 /* some stand in line */
	size_t half;                /* bytes */
	struct buffer_quota *other; /* NULL: there is none */
	/* Drop peers that hold buffers and neither take nor send anything. */
	void (*drop_stuck)(struct buffer_quota *quota, int64_t now_ms);
};

/* @limit: the loop's, bytes */
static inline void buffer_quota_pair(struct buffer_quota *a,
				     struct buffer_quota *b, size_t limit)
{
	a->half = b->half = limit / 2;
	a->other = b;
	b->other = a;
}

/*
 * Get a buffer of the reserve, for a connection that holds @held bytes. NULL:
 * not now.
 */
static inline struct iobuf *buffer_quota_get_reserve(struct loop *loop,
						     size_t held, uint32_t size)
{
	if (held + size > BUFFER_RESERVE_MAX)
		return NULL;
	return loop_iobuf_get_reserve(loop, size);
}

/*
 * Tell whether the other protocol waits, and @size more would be beyond half.
 */
static inline bool buffer_quota_exceeds(const struct buffer_quota *quota,
					uint32_t size)
{
	return quota->other && quota->other->waits && quota->held > 0 &&
	       quota->held + size > quota->half;
}

/* Get a buffer of the rest, for the head of the line. NULL: not now. */
static inline struct iobuf *buffer_quota_get(struct buffer_quota *quota,
					     struct loop *loop, uint32_t size)
{
	struct iobuf *buf;

	if (buffer_quota_exceeds(quota, size))
		return NULL;
	buf = loop_iobuf_get(loop, size);
	if (buf)
		quota->held += buf->size;
	return buf;
}

static inline void buffer_quota_put(struct buffer_quota *quota,
				    struct loop *loop, struct iobuf *buf)
{
	if (!buf->reserve)
		quota->held -= buf->size;
	loop_iobuf_put(loop, buf);
}

/* Look for peers that hold buffers in vain; now and then, while requests wait.
 */
static inline void buffer_quota_look(struct buffer_quota *quota, int64_t now_ms)
{
	quota->drop_stuck(quota, now_ms);
	if (quota->other)
		quota->other->drop_stuck(quota->other, now_ms);
}

#endif
