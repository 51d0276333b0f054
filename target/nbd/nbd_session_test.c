/* SPDX-License-Identifier: Apache-2.0 */
/* The session with its export: requests, and what comes with them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/testkit/nbd_session_kit.h"

static void lets_good_requests_through(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, true, true);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 1 << 20), 0);
	assert_true(f->event.request.cookie == 42);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_DF, 5, 7), 0);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_FLUSH, 0, 0, 0), 0);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_FLUSH, NBD_CMD_FLAG_FUA, 9, 9), 0);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_TRIM, NBD_CMD_FLAG_FUA, 0, 512), 0);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_WRITE_ZEROES,
					 NBD_CMD_FLAG_NO_HOLE, 0, 512),
			 0);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_BLOCK_STATUS,
					 NBD_CMD_FLAG_REQ_ONE, 0, 512),
			 0);
	nbd_kit_request(f, NBD_CMD_DISC, 0, 0, 0);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_CLOSE);
}

static void refuses_requests_past_the_end(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} rows[] = {
		{1 << 20, 1},    {(1 << 20) - 1, 2},       {0, (1 << 20) + 1},
		{UINT64_MAX, 1}, {UINT64_MAX - 511, 1024}, /* wraps */
	};
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, true, true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t offset = rows[i].offset;
		uint32_t length = rows[i].length;

		assert_int_equal(
			nbd_kit_verdict(f, NBD_CMD_READ, 0, offset, length),
			NBD_EINVAL);
		assert_int_equal(
			nbd_kit_verdict(f, NBD_CMD_TRIM, 0, offset, length),
			NBD_EINVAL);
		assert_int_equal(nbd_kit_verdict(f, NBD_CMD_BLOCK_STATUS, 0,
						 offset, length),
				 NBD_EINVAL);
		assert_int_equal(nbd_kit_verdict(f, NBD_CMD_WRITE_ZEROES, 0,
						 offset, length),
				 NBD_ENOSPC);
	}
}

static void a_grown_export_is_reached_to_its_new_end(void **state)
{
	enum { MIB = 1 << 20 };
	struct nbd_kit *f = *state;

	nbd_session_grow(&f->session, 8 * MIB); /* has no export yet */
	nbd_kit_begin(f, false, false);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, MIB, 512),
			 NBD_EINVAL);
	nbd_session_grow(&f->session, 2 * MIB);
	nbd_session_grow(&f->session, MIB);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, MIB, 512), 0);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_READ, 0, 2 * MIB - 512, 512), 0);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_READ, 0, 2 * MIB - 256, 512),
		NBD_EINVAL);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_WRITE_ZEROES, 0, 2 * MIB, 512),
		NBD_ENOSPC);
}

static void refuses_flags_and_commands_not_offered(void **state)
{
	struct nbd_kit *f = *state;

	f->device_flags &= ~NBD_TRANSMIT_SEND_TRIM;
	nbd_kit_begin(f, false, false);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_DF, 0, 512),
		NBD_EINVAL);
	assert_int_equal(
		nbd_kit_verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_NO_HOLE, 0, 512),
		NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 1 << 15, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_WRITE_ZEROES,
					 NBD_CMD_FLAG_FAST_ZERO, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_TRIM, 0, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_BLOCK_STATUS, 0, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_CACHE, 0, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_RESIZE, 0, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, 999, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 0), NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void a_read_only_export_takes_no_change(void **state)
{
	struct nbd_kit *f = *state;

	f->device_flags = NBD_TRANSMIT_READ_ONLY;
	nbd_kit_begin(f, false, false);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_TRIM, 0, 0, 512),
			 NBD_EPERM);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_WRITE_ZEROES, 0, 0, 512),
			 NBD_EPERM);
	nbd_kit_request(f, NBD_CMD_WRITE, 0, 0, 512);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_REFUSED);
	assert_int_equal(f->event.error, NBD_EPERM);
}

static void a_block_size_is_held_to(void **state)
{
	struct nbd_kit *f = *state;

	f->block_size = 4096;
	nbd_kit_begin(f, false, false);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 512, 4096),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 4096, 512),
			 NBD_EINVAL);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 4096, 4096), 0);
}

static void the_payload_of_a_write_is_the_owners(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, false, false);
	nbd_kit_request(f, NBD_CMD_WRITE, 0, 0, 512);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_REQUEST);
	assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
	nbd_session_payload_taken(&f->session, 500);
	assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
	nbd_session_payload_taken(&f->session, 12);
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void the_payload_of_a_refused_write_is_skipped(void **state)
{
	struct nbd_kit *f = *state;
	uint8_t payload[512] = {0};

	nbd_kit_begin(f, false, false);
	nbd_kit_request(f, NBD_CMD_WRITE, 0, 1 << 20, sizeof(payload));
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_REFUSED);
	assert_int_equal(f->event.error, NBD_ENOSPC);
	nbd_kit_put(f, payload, sizeof(payload));
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
	nbd_kit_request(f, NBD_CMD_WRITE, 0, 0, sizeof(payload));
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_REQUEST);
	nbd_session_payload_skip(&f->session); /* the owner had no memory */
	nbd_kit_put(f, payload, sizeof(payload));
	assert_int_equal(nbd_kit_verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void a_refused_write_that_is_huge_drops(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, false, false);
	nbd_kit_request(f, NBD_CMD_WRITE, 0, 0, NBD_DRAIN_MAX + 1);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void a_request_that_is_garbage_drops(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, false, false);
	nbd_kit_put(f, "no request has such a magic.", 28);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
	assert_false(nbd_session_transmits(&f->session));
}

int main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, nbd_kit_setup, nbd_kit_teardown)
	static const struct CMUnitTest tests[] = {
		TEST(lets_good_requests_through),
		TEST(refuses_requests_past_the_end),
		TEST(a_grown_export_is_reached_to_its_new_end),
		TEST(refuses_flags_and_commands_not_offered),
		TEST(a_read_only_export_takes_no_change),
		TEST(a_block_size_is_held_to),
		TEST(the_payload_of_a_write_is_the_owners),
		TEST(the_payload_of_a_refused_write_is_skipped),
		TEST(a_refused_write_that_is_huge_drops),
		TEST(a_request_that_is_garbage_drops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
