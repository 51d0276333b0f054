/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/testkit/loop_kit.h"

#define MANY 40u /* streams; more than there are buffers */

/* What stream @seed carries at @at. */
static uint8_t byte_at(unsigned seed, size_t at)
{
	return (uint8_t)(at * 7 + at / 251 + seed);
}

struct reader {
	struct loop_stream stream;
	struct loop *loop;
	unsigned *left; /* the loop stops at 0 */
	unsigned seed;
	size_t got, cancel_at; /* bytes */
	int fd, peer, end;
};

static void taken(struct loop_stream *stream, const void *data, int res)
{
	struct reader *reader = container_of(stream, struct reader, stream);

	for (int i = 0; i < res; i++)
		assert_int_equal(
			((const uint8_t *)data)[i],
			byte_at(reader->seed, reader->got + (size_t)i));
	if (res > 0) {
		assert_true(res <= (int)LOOP_STREAM_PIECE);
		reader->got += (size_t)res;
		if (reader->cancel_at && reader->got >= reader->cancel_at)
			loop_cancel(reader->loop, &stream->op);
		reader->cancel_at = 0;
	}
	if (stream->runs)
		return;
	if (res > 0 || res == -ENOBUFS) {
		loop_stream_start(reader->loop, stream, reader->fd);
		return;
	}
	reader->end = res;
	if (--*reader->left == 0)
		loop_stop(reader->loop);
}

static void reader_init(struct reader *reader, struct loop *loop, unsigned seed,
			unsigned *left)
{
	int pair[2];

	loop_kit_pair(pair);
	*reader = (struct reader){
		.stream.taken = taken,
		.loop = loop,
		.left = left,
		.seed = seed,
		.fd = pair[0],
		.peer = pair[1],
		.end = 1,
	};
}

static void reader_done(struct reader *reader)
{
	fd_close(reader->fd);
	fd_close(reader->peer);
}

static void say(struct reader *reader, size_t length)
{
	uint8_t *data = malloc(length);

	assert_non_null(data);
	for (size_t i = 0; i < length; i++)
		data[i] = byte_at(reader->seed, i);
	assert_int_equal(send(reader->peer, data, length, 0), length);
	free(data);
}

static struct loop *loop_with_streams(void)
{
	struct loop *loop = loop_make(0);

	if (loop_features(loop) & LOOP_STREAMS)
		return loop;
	loop_free(loop);
	skip(); /* an older kernel */
	return NULL;
}

struct all {
	struct loop_message message;
	struct reader readers[MANY];
};

static void all_start(struct loop_message *message)
{
	struct all *all = container_of(message, struct all, message);

	for (unsigned i = 0; i < MANY; i++)
		loop_stream_start(all->readers[i].loop, &all->readers[i].stream,
				  all->readers[i].fd);
}

static void all_bytes_come_in_order_until_the_end(void **state)
{
	struct loop *loop = loop_with_streams();
	static struct all all = {.message.run = all_start};
	struct reader *readers = all.readers;
	unsigned left = MANY;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		reader_init(&readers[i], loop, i, &left);
		say(&readers[i], 1 + 1500 * i);
		assert_int_equal(shutdown(readers[i].peer, SHUT_WR), 0);
	}
	loop_post(loop, &all.message);
	assert_int_equal(loop_run(loop), 0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(readers[i].end, 0);
		assert_int_equal(readers[i].got, 1 + 1500 * i);
		reader_done(&readers[i]);
	}
	assert_int_equal(loop_in_flight(loop), 0);
	loop_free(loop);
}

static void it_ends_when_it_is_cancelled(void **state)
{
	struct loop *loop = loop_with_streams();
	struct reader reader;
	unsigned left = 1;

	(void)state;
	reader_init(&reader, loop, 3, &left);
	reader.cancel_at = 1;
	say(&reader, 100);
	loop_stream_start(loop, &reader.stream, reader.fd);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(reader.end, -ECANCELED);
	assert_int_equal(reader.got, 100);
	assert_int_equal(loop_in_flight(loop), 0);
	reader_done(&reader);
	loop_free(loop);
}

static void there_are_none_without_what_they_need(void **state)
{
	static const unsigned without[] = {LOOP_STREAMS, LOOP_DEFER_TASKRUN};

	(void)state;
	for (size_t i = 0; i < array_size(without); i++) {
		struct loop *loop = loop_make(without[i]);

		assert_int_equal(loop_features(loop) & LOOP_STREAMS, 0);
		loop_free(loop);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_bytes_come_in_order_until_the_end),
		cmocka_unit_test(it_ends_when_it_is_cancelled),
		cmocka_unit_test(there_are_none_without_what_they_need),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
