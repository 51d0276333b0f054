/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/testkit/loop_kit.h"
#include "target/conn/receiver.h"

#define ONCE         (UINT32_C(64) << 10)
#define WAIT_SECONDS 30

#define SMALL 16u /* receives; after fewer a stream is begun */

struct fixture {
	struct receiver in;
	struct loop *loop;
	pthread_t thread;
	struct loop_message first;
	sem_t rests, goes;
	int fd, peer;
	uint64_t sent; /* bytes */
	uint64_t seen; /* those that were parsed */
	int end;       /* what there was instead of bytes; 1: nothing yet */
	bool parse;    /* what comes, at once */
	bool stop_stream;
};

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 7 + at / 253);
}

/* The next @n bytes in the buffer are those that were sent. */
static void parse(struct fixture *f, uint32_t n)
{
	assert_true(n <= f->in.end - f->in.start);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(f->in.data[f->in.start++], byte_at(f->seen++));
}

static void wait_for(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_SECONDS;
	assert_int_equal(sem_timedwait(sem, &until), 0);
}

/* The loop stands still while the test looks and acts in its place. */
static void rest(struct fixture *f)
{
	sem_post(&f->rests);
	while (sem_wait(&f->goes) < 0)
		;
}

static void came(struct receiver *in, int res)
{
	struct fixture *f = container_of(in, struct fixture, in);

	assert_int_equal(f->end, 1);
	if (res <= 0 && res != -EINTR && res != -EAGAIN)
		f->end = res;
	else if (f->parse)
		parse(f, in->end - in->start);
	if (f->stop_stream)
		receiver_stream_end(in);
	rest(f);
}

static void *thread_run(void *context)
{
	struct fixture *f = context;

	assert_int_equal(loop_run(f->loop), 0);
	return NULL;
}

static void first_rest(struct loop_message *message)
{
	rest(container_of(message, struct fixture, first));
}

static int open_with(void **state, unsigned without)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	int pair[2];

	*f = (struct fixture){.loop = loop_make(without), .end = 1};
	sem_init(&f->rests, 0, 0);
	sem_init(&f->goes, 0, 0);
	loop_kit_pair(pair);
	f->fd = pair[0];
	f->peer = pair[1];
	assert_int_equal(receiver_init(&f->in, f->loop, ONCE, came), 0);
	receiver_open(&f->in, f->fd, false);
	assert_int_equal(pthread_create(&f->thread, NULL, thread_run, f), 0);
	f->first.run = first_rest;
	loop_post(f->loop, &f->first);
	wait_for(&f->rests);
	*state = f;
	return 0;
}

static int setup(void **state)
{
	return open_with(state, 0);
}

static int setup_without_streams(void **state)
{
	return open_with(state, LOOP_STREAMS);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_false(f->in.runs);
	loop_stop(f->loop);
	sem_post(&f->goes);
	pthread_join(f->thread, NULL);
	receiver_done(&f->in);
	loop_free(f->loop);
	sem_destroy(&f->rests);
	sem_destroy(&f->goes);
	close(f->fd);
	close(f->peer);
	return 0;
}

/* As much of it as the sockets take. */
static void say(struct fixture *f, size_t n)
{
	while (n-- > 0) {
		uint8_t byte = byte_at(f->sent);

		if (send(f->peer, &byte, 1, MSG_DONTWAIT) != 1)
			return;
		f->sent++;
	}
}

/* Until something came, or there is an end. */
static void run(struct fixture *f)
{
	sem_post(&f->goes);
	wait_for(&f->rests);
}

/* So many small receives that a stream is begun, where there are streams. */
static void begin_stream(struct fixture *f)
{
	f->parse = true;
	for (unsigned i = 0; i < SMALL && !f->in.runs; i++) {
		say(f, 1);
		receiver_start(&f->in, true);
		if (!f->in.stream.runs)
			run(f);
	}
}

/* Ask the stream to end, and wait until it has. */
static void end_stream(struct fixture *f)
{
	receiver_stream_end(&f->in);
	while (f->in.runs)
		run(f);
}

static void keeps_what_is_not_parsed(void **state)
{
	struct fixture *f = *state;

	say(f, 6);
	while (f->in.end - f->in.start < 6) {
		receiver_start(&f->in, false);
		assert_true(f->in.fills);
		run(f);
	}
	parse(f, 4);
	say(f, 3);
	while (f->in.end - f->in.start < 5) {
		receiver_start(&f->in, false);
		run(f);
	}
	assert_int_equal(f->in.start, 0); /* moved */
	parse(f, 5);
	assert_true(receiver_is_empty(&f->in));
}

static void puts_a_payload_where_it_is_wanted(void **state)
{
	struct fixture *f = *state;
	uint8_t payload[3000];

	say(f, sizeof(payload) + 20000);
	receiver_start_direct(&f->in, payload, sizeof(payload), MSG_WAITALL);
	run(f);
	assert_true(f->in.direct);
	assert_true(receiver_is_empty(&f->in));
	for (uint64_t i = 0; i < sizeof(payload); i++)
		assert_int_equal(payload[i], byte_at(f->seen++));
	/* Behind it comes a header, and another payload: few bytes at first. */
	receiver_start(&f->in, false);
	run(f);
	assert_false(f->in.direct);
	assert_in_range(f->in.end, 1, 4096);
	while (f->in.end < 20000) {
		receiver_start(&f->in, false);
		run(f);
	}
	parse(f, 20000);
}

static void is_a_stream_after_many_small_receives(void **state)
{
	struct fixture *f = *state;

	begin_stream(f);
	if (!(loop_features(f->loop) & LOOP_STREAMS)) {
		assert_false(f->in.runs);
		return;
	}
	assert_true(f->in.stream.runs);
	assert_false(f->in.fills);
	for (unsigned i = 0; i < 3; i++) {
		say(f, 100);
		while (f->seen < f->sent)
			run(f);
		assert_true(f->in.streamed);
	}
	end_stream(f);
	assert_false(f->in.stream.runs);
	/* And not at once again. */
	receiver_start(&f->in, true);
	assert_true(f->in.fills);
	say(f, 1);
	run(f);
	assert_false(f->in.streamed);
	assert_int_equal(f->seen, f->sent);
}

static void is_no_stream_where_it_may_not_be(void **state)
{
	struct fixture *f = *state;
	uint8_t payload;

	receiver_open(&f->in, f->fd, true); /* as if of a unix socket */
	begin_stream(f);
	assert_false(f->in.runs);
	receiver_open(&f->in, f->fd, false);
	say(f, 1);
	receiver_start(&f->in, false); /* what comes may not be for it */
	assert_true(f->in.fills);
	run(f);
	say(f, 1);
	receiver_start_direct(&f->in, &payload, 1, MSG_WAITALL);
	f->parse = false;
	run(f);
	f->seen++;
	f->parse = true;
	say(f, 1);
	receiver_start(&f->in, true); /* the payload was a large one */
	assert_true(f->in.fills);
	run(f);
}

/* Nothing of it is parsed any more once it is asked to end. */
static void has_room_for_what_a_stream_still_hands_over(void **state)
{
	struct fixture *f = *state;

	begin_stream(f);
	if (!f->in.runs)
		return; /* there are none */
	f->parse = false;
	f->stop_stream = true;
	say(f, 1 << 20);
	while (f->in.runs)
		run(f);
	assert_true(f->in.end > 0 && f->in.end <= f->in.size);
	parse(f, f->in.end - f->in.start);
	f->parse = true;
	f->stop_stream = false;
	while (f->seen < f->sent) {
		receiver_start(&f->in, false);
		run(f);
	}
}

static void says_that_the_peer_has_gone(void **state)
{
	struct fixture *f = *state;

	shutdown(f->peer, SHUT_WR);
	receiver_start(&f->in, false);
	run(f);
	assert_int_equal(f->end, 0);
}

static void says_that_a_stream_has_no_peer_any_more(void **state)
{
	struct fixture *f = *state;

	begin_stream(f);
	if (!f->in.runs)
		receiver_start(&f->in, false);
	shutdown(f->peer, SHUT_WR);
	while (f->in.runs)
		run(f);
	assert_int_equal(f->end, 0);
	assert_int_equal(f->seen, f->sent);
}

#define TEST(name)                                                           \
	cmocka_unit_test_setup_teardown(name, setup, teardown),              \
		cmocka_unit_test_setup_teardown(name, setup_without_streams, \
						teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keeps_what_is_not_parsed),
		TEST(puts_a_payload_where_it_is_wanted),
		TEST(is_a_stream_after_many_small_receives),
		TEST(is_no_stream_where_it_may_not_be),
		TEST(has_room_for_what_a_stream_still_hands_over),
		TEST(says_that_the_peer_has_gone),
		TEST(says_that_a_stream_has_no_peer_any_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
