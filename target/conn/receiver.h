/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a connection: a buffer of bytes that are not parsed
 * yet, and how they get there. While large payloads come, it receives little
 * more than the next header, and the payload where its owner wants it. Else it
 * receives as much as there is. While all that comes is small, one operation
 * receives again and again (a stream, base/loop/loop.h). On the loop's thread.
 */
#ifndef TARGET_RECEIVER_H
#define TARGET_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"

struct receiver;

/*
 * @res bytes are there: where receiver_start_direct() wanted them if
 * receiver->direct, else behind those in the buffer. 0: the peer has closed its
 * side; negative: -EINTR and -EAGAIN (to be begun again), or the socket's
 * error. The receiver may be begun again; a stream goes on by itself.
 */
typedef void receiver_came(struct receiver *receiver, int res);

struct receiver {
	receiver_came *came;
	struct loop *loop;
	int fd; /* borrowed */

	uint8_t *data;       /* owned */
	uint32_t start, end; /* of bytes not parsed yet */

	bool runs;     /* it receives; op and stream are the loop's */
	bool fills;    /* by op, and no stream, which goes on by itself */
	bool direct;   /* the last one did, not into the buffer */
	bool streamed; /* the last bytes were a stream's */

	/* The receiver's. */
	struct op op;
	struct loop_stream stream; /* receives instead, while it runs */
	bool streams;              /* it may */
	bool stream_ends;          /* it was asked to */
	bool closed;               /* bytes that still come are dropped */
	bool drained;              /* the last receive took all there was */
	unsigned small;            /* receives since the last large payload */
	uint32_t size;             /* bytes of @data */
	uint32_t once;             /* bytes received at once, at most */
	uint32_t limit;            /* bytes, of the next receive */
	uint32_t asked;            /* bytes, of the one under way */
};

/*
 * @once  the most bytes that are received at once; an item to parse may be no
 *        longer
 *
 * -ENOMEM.
 */
int receiver_init(struct receiver *receiver, struct loop *loop, uint32_t once,
		  receiver_came *came);
void receiver_done(struct receiver *receiver); /* it does not run */

/* @is_unix: a unix socket's stream may miss its end (base/loop/loop.h). */
void receiver_open(struct receiver *receiver, int fd, bool is_unix);

/* Nothing is to be parsed. */
static inline bool receiver_is_empty(const struct receiver *receiver)
{
	return receiver->start == receiver->end;
}

/* Return the room behind the bytes to parse, for @ret_length bytes. */
uint8_t *receiver_room(struct receiver *receiver, uint32_t *ret_length);

/*
 * Into the buffer. It does not run.
 *
 * @stream  it may be one: what may come next is for the buffer
 */
void receiver_start(struct receiver *receiver, bool stream);

/* To @to, @flags: MSG_WAITALL. It does not run. */
void receiver_start_direct(struct receiver *receiver, void *to, uint32_t length,
			   int flags);

/*
 * End the stream: the next bytes are not for a stream, or must wait, or are not
 * wanted.
 */
void receiver_stream_end(struct receiver *receiver);

/* Nothing more is wanted, ever. What runs is told to came() all the same. */
void receiver_close(struct receiver *receiver);

#endif
