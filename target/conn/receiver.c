/* SPDX-License-Identifier: Apache-2.0 */
#include "target/conn/receiver.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * Bytes received at once while large payloads come: little more than the next
 * header, because bytes that come with it must be copied.
 */
#define SIZE_SMALL 4096u

#define SIZE_LARGE (UINT32_C(128) << 10)

/* So many small receives in a row, and a stream is begun. */
#define STREAM_AFTER 8u

/* The piece in which a stream was asked to end, and what it may hand over. */
#define STREAM_ROOM (LOOP_STREAM_PIECE + LOOP_STREAM_TOTAL)

uint8_t *receiver_room(struct receiver *receiver, uint32_t *ret_length)
{
	uint32_t there = receiver->end - receiver->start;
	uint32_t room;

	if (receiver->start > 0) { /* only part of an element is left */
		memmove(receiver->data, receiver->data + receiver->start,
			there);
		receiver->end = there;
		receiver->start = 0;
	}
	room = receiver->size - receiver->end;
	*ret_length = room < receiver->once ? room : receiver->once;
	return receiver->data + receiver->end;
}

void receiver_start(struct receiver *receiver, bool stream)
{
	uint32_t room;
	uint8_t *to;

	receiver->runs = true;
	receiver->direct = receiver->streamed = false;
	if (stream && receiver->streams && receiver->small >= STREAM_AFTER &&
	    loop_features(receiver->loop) & LOOP_STREAMS) {
		loop_stream_start(receiver->loop, &receiver->stream,
				  receiver->fd);
		return;
	}
	receiver->fills = true;
	to = receiver_room(receiver, &room);
	if (room > receiver->limit)
		room = receiver->limit;
	receiver->asked = room;
	(receiver->drained ? loop_recv_later : loop_recv)(
		receiver->loop, &receiver->op, receiver->fd, to, room, 0);
}

void receiver_start_direct(struct receiver *receiver, void *to, uint32_t length,
			   int flags)
{
	receiver->runs = receiver->fills = receiver->direct = true;
	receiver->streamed = false;
	if (flags & MSG_WAITALL)
		loop_payload_begin(receiver->loop);
	loop_recv(receiver->loop, &receiver->op, receiver->fd, to, length,
		  flags);
}

void receiver_stream_end(struct receiver *receiver)
{
	receiver->small = 0;
	if (receiver->stream.runs && !receiver->stream_ends)
		loop_cancel(receiver->loop, &receiver->stream.op);
	receiver->stream_ends = receiver->stream.runs;
}

void receiver_close(struct receiver *receiver)
{
	receiver_stream_end(receiver);
	receiver->closed = true;
}

static void stream_taken(struct loop_stream *stream, const void *data, int res)
{
	struct receiver *receiver = container_of(stream, struct receiver,
						 stream);
	uint32_t room;
	uint8_t *to;

	if (!stream->runs)
		receiver->runs = receiver->stream_ends = false;
	if (res == -ENOBUFS || (res == -ECANCELED && !stream->runs))
		res = -EAGAIN; /* it is begun again when it may be */
	if (res > 0 && !receiver->closed) {
		to = receiver_room(receiver, &room);
		assert((uint32_t)res <= receiver->size - receiver->end);
		memcpy(to, data, (uint32_t)res);
		receiver->end += (uint32_t)res;
		receiver->streamed = true;
	}
	receiver->came(receiver, res);
}

static void received(struct op *op, int res)
{
	struct receiver *receiver = container_of(op, struct receiver, op);

	receiver->runs = receiver->fills = false;
	if (receiver->direct)
		loop_payload_end(receiver->loop);
	if (res > 0 && receiver->direct) {
		receiver->limit = SIZE_SMALL;
		receiver->small = 0;
		receiver->drained = false;
	} else if (res > 0) {
		receiver->end += (uint32_t)res;
		receiver->limit = SIZE_LARGE;
		receiver->drained = (uint32_t)res < receiver->asked;
		receiver->small++;
	}
	receiver->came(receiver, res);
}

int receiver_init(struct receiver *receiver, struct loop *loop, uint32_t once,
		  receiver_came *came)
{
	*receiver = (struct receiver){
		.came = came,
		.loop = loop,
		.fd = -1,
		.data = malloc(once + STREAM_ROOM),
		.op.done = received,
		.stream.taken = stream_taken,
		.size = once + STREAM_ROOM,
		.once = once,
		.limit = once,
	};
	return receiver->data ? 0 : -ENOMEM;
}

void receiver_done(struct receiver *receiver)
{
	free(receiver->data);
}

void receiver_open(struct receiver *receiver, int fd, bool is_unix)
{
	receiver->fd = fd;
	receiver->streams = !is_unix;
}
