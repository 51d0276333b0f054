/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/testkit/loop_kit.h"
#include "target/conn/conn.h"

#define KIB   UINT32_C(1024)
#define LIMIT (64 * 1024 * KIB) /* of the loop */

/* A request, and the buffer that it waits for. */
struct request {
	struct conn_wait wait;
	struct iobuf *buf;
};

struct fixture {
	struct loop *loop;
	struct conn_service a, b;
	/* One and another of service a, and one of b. */
	struct conn one, another, other;
};

static bool request_get(struct conn *conn, struct request *request,
			uint32_t size)
{
	return conn_buffers_get(conn, &request->wait, &size, 1, &request->buf);
}

/* conn_ops.retry */
static bool retry(struct conn_wait *wait)
{
	struct request *request = container_of(wait, struct request, wait);

	if (!request_get(wait->conn, request, (uint32_t)wait->size))
		return false;
	conn_wait_remove(wait);
	return true;
}

static const struct conn_ops ops = {.retry = retry};

static void ended(struct conn_service *service, unsigned n)
{
	(void)service;
	(void)n;
}

static void conn_make(struct conn *conn, struct conn_service *service)
{
	*conn = (struct conn){
		.service = service,
		.ops = service->ops,
		.loop = service->loop,
	};
	TAILQ_INIT(&conn->own);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	const struct loop_options options = {.buffer_limit = LIMIT};
	struct error err = {0};

	*f = (struct fixture){0};
	assert_int_equal(loop_new(&options, &f->loop, &err), 0);
	conn_service_init(&f->a, &ops, f->loop, NULL);
	conn_service_init(&f->b, &ops, f->loop, NULL);
	f->a.ended = f->b.ended = ended;
	conn_service_pair(&f->a, &f->b, LIMIT);
	conn_make(&f->one, &f->a);
	conn_make(&f->another, &f->a);
	conn_make(&f->other, &f->b);
	/* No timer: what waits is looked at by hand. */
	f->a.stopping = f->b.stopping = true;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->a.held + f->b.held, 0);
	assert_int_equal(loop_iobufs_in_use(f->loop), 0);
	loop_free(f->loop);
	return 0;
}

/* A round of the loop goes by, which runs its batches. */
static void line_look(struct fixture *f)
{
	loop_batch_remove(f->loop, &f->a.wake);
	loop_batch_remove(f->loop, &f->b.wake);
	conn_service_wake(&f->a.wake);
	conn_service_wake(&f->b.wake);
}

static void request_end(struct conn *conn, struct request *request)
{
	conn_buffer_put(conn, take_ptr(request->buf));
}

static void one_alone_may_have_its_limit(void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, more = {0};

	assert_true(request_get(&f->one, &all, CONN_BUFFER_MAX));
	assert_false(request_get(&f->one, &more, 4 * KIB));
	assert_true(request_get(&f->another, &more, 1024 * KIB));
	request_end(&f->another, &more);
	request_end(&f->one, &all);
}

static void while_the_other_waits_a_protocol_gets_a_half(void **state)
{
	struct fixture *f = *state;
	struct request half = {0}, more = {0}, waits = {0};

	assert_true(request_get(&f->one, &half, LIMIT / 2));
	assert_true(request_get(&f->another, &more, LIMIT / 4));
	request_end(&f->another, &more);
	conn_wait_add(&f->other, &waits.wait, LIMIT / 2);
	assert_false(request_get(&f->another, &more, LIMIT / 4));
	/* The reserve has nothing to do with it. */
	assert_true(request_get(&f->another, &more, 4 * KIB));
	request_end(&f->another, &more);
	line_look(f);
	assert_non_null(waits.buf);
	request_end(&f->one, &half);
	assert_true(request_get(&f->another, &more, LIMIT / 4));
	request_end(&f->another, &more);
	request_end(&f->other, &waits);
}

/* A protocol that holds no buffer gets one, however large. */
static void none_waits_for_ever(void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, other = {0};

	conn_wait_add(&f->other, &other.wait, 4 * KIB);
	assert_true(request_get(&f->one, &all, LIMIT));
	line_look(f);
	assert_non_null(other.buf); /* of the reserve */
	request_end(&f->other, &other);
	request_end(&f->one, &all);
}

static void a_little_is_of_the_reserve(void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, little = {0}, more = {0};

	assert_true(request_get(&f->one, &all, LIMIT));
	assert_true(request_get(&f->other, &little, CONN_RESERVE_MAX / 2));
	assert_false(request_get(&f->other, &more, CONN_RESERVE_MAX));
	request_end(&f->other, &little);
	request_end(&f->one, &all);
}

static void buffers_come_all_or_none(void **state)
{
	struct fixture *f = *state;
	const uint32_t sizes[] = {1024 * KIB, 0, LIMIT};
	struct request request = {0};
	struct iobuf *got[3] = {NULL};

	assert_false(conn_buffers_get(&f->one, &request.wait, sizes, 3, got));
	assert_null(got[0]);
	assert_int_equal(f->one.buffered, 0);
}

/*
 * A connection that has all it may have waits by itself: others get buffers,
 * and the other protocol is not kept to its half.
 */
static void a_connection_at_its_limit_keeps_no_other_waiting(void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, waits = {0}, more = {0};

	assert_true(request_get(&f->one, &all, CONN_BUFFER_MAX));
	assert_false(request_get(&f->one, &waits, 1024 * KIB));
	conn_wait_add(&f->one, &waits.wait, 1024 * KIB);
	assert_true(TAILQ_EMPTY(&f->a.line));
	assert_false(f->a.waits);
	assert_true(request_get(&f->another, &more, LIMIT / 4));
	request_end(&f->another, &more);
	line_look(f);
	assert_null(waits.buf);
	request_end(&f->one, &all);
	line_look(f);
	assert_non_null(waits.buf);
	request_end(&f->one, &waits);
}

/* Each goes on when those before it let it, in order. */
static void requests_of_one_connection_keep_their_order(void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, first = {0}, second = {0}, third = {0};

	assert_true(request_get(&f->one, &all, CONN_BUFFER_MAX));
	conn_wait_add(&f->one, &first.wait, CONN_BUFFER_MAX);
	conn_wait_add(&f->one, &second.wait, 1024 * KIB);
	conn_wait_add(&f->one, &third.wait, 1024 * KIB);
	request_end(&f->one, &all);
	line_look(f);
	assert_non_null(first.buf);
	assert_null(second.buf);
	request_end(&f->one, &first);
	line_look(f);
	line_look(f);
	assert_non_null(second.buf);
	assert_non_null(third.buf);
	request_end(&f->one, &second);
	request_end(&f->one, &third);
}

/* Its turn came, and its connection had got others meanwhile. */
static void a_request_whose_connection_is_full_by_now_leaves_the_line(
	void **state)
{
	struct fixture *f = *state;
	struct request all = {0}, waits = {0}, full = {0}, next = {0};

	assert_true(request_get(&f->other, &all, LIMIT));
	conn_wait_add(&f->one, &waits.wait, 1024 * KIB);
	conn_wait_add(&f->another, &next.wait, 1024 * KIB);
	f->one.buffered += CONN_BUFFER_MAX;
	request_end(&f->other, &all);
	line_look(f);
	assert_null(waits.buf);
	assert_non_null(next.buf);
	assert_true(TAILQ_EMPTY(&f->a.line));
	f->one.buffered -= CONN_BUFFER_MAX;
	assert_true(request_get(&f->one, &full, 4 * KIB));
	request_end(&f->one, &full);
	line_look(f);
	assert_non_null(waits.buf);
	request_end(&f->one, &waits);
	request_end(&f->another, &next);
}

static void a_request_that_waits_no_more_lets_the_next_go(void **state)
{
	struct fixture *f = *state;
	struct request some = {0}, large = {0}, small = {0};

	assert_true(request_get(&f->one, &some, CONN_BUFFER_MAX / 2));
	conn_wait_add(&f->one, &large.wait, CONN_BUFFER_MAX);
	conn_wait_add(&f->one, &small.wait, 1024 * KIB);
	line_look(f);
	assert_null(small.buf);
	conn_wait_remove(&large.wait);
	line_look(f);
	assert_non_null(small.buf);
	request_end(&f->one, &small);
	request_end(&f->one, &some);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_alone_may_have_its_limit),
		TEST(while_the_other_waits_a_protocol_gets_a_half),
		TEST(none_waits_for_ever),
		TEST(a_little_is_of_the_reserve),
		TEST(buffers_come_all_or_none),
		TEST(a_connection_at_its_limit_keeps_no_other_waiting),
		TEST(requests_of_one_connection_keep_their_order),
		TEST(a_request_whose_connection_is_full_by_now_leaves_the_line),
		TEST(a_request_that_waits_no_more_lets_the_next_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
