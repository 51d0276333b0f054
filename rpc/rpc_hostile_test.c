/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that does what ours would never do, by the library itself.
 */
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_test_kit.h"

#define METHOD "/tributary.v1.Blockd/GetExtent"

struct peer {
	grpc_channel *channel;
	grpc_completion_queue *cq;
};

/* One call of the peer's. */
struct shot {
	grpc_call *call;
	grpc_metadata_array initial, trailing;
	grpc_status_code status;
	grpc_slice details;
};

static void peer_open(struct peer *peer, const struct kit *kit)
{
	grpc_channel_credentials *creds = grpc_insecure_credentials_create();

	peer->channel = grpc_channel_create(kit->address, creds, NULL);
	peer->cq = grpc_completion_queue_create_for_next(NULL);
	grpc_channel_credentials_release(creds);
}

static grpc_event peer_next(struct peer *peer)
{
	return grpc_completion_queue_next(
		peer->cq,
		gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			     gpr_time_from_seconds(10, GPR_TIMESPAN)),
		NULL);
}

static void peer_close(struct peer *peer)
{
	grpc_channel_destroy(peer->channel);
	grpc_completion_queue_shutdown(peer->cq);
	while (peer_next(peer).type == GRPC_OP_COMPLETE)
		;
	grpc_completion_queue_destroy(peer->cq);
}

/*
 * Begin a call. @n of @more follow the initial metadata; the status comes with
 * @shot.
 */
static void shot_begin(struct shot *shot, struct peer *peer,
		       grpc_metadata *metadata, size_t n_metadata,
		       const grpc_op *more, size_t n)
{
	grpc_op ops[6] = {
		{.op = GRPC_OP_SEND_INITIAL_METADATA,
		 .data.send_initial_metadata = {.count = n_metadata,
						.metadata = metadata}},
		{.op = GRPC_OP_RECV_INITIAL_METADATA,
		 .data.recv_initial_metadata.recv_initial_metadata =
			 &shot->initial},
		{.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		 .data.recv_status_on_client = {
			 .trailing_metadata = &shot->trailing,
			 .status = &shot->status,
			 .status_details = &shot->details,
		 }}};

	memset(shot, 0, sizeof(*shot));
	grpc_metadata_array_init(&shot->initial);
	grpc_metadata_array_init(&shot->trailing);
	if (n)
		memcpy(ops + 3, more, n * sizeof(*more));
	shot->call = grpc_channel_create_call(
		peer->channel, NULL, GRPC_PROPAGATE_DEFAULTS, peer->cq,
		grpc_slice_from_static_string(METHOD), NULL,
		gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	assert_int_equal(
		grpc_call_start_batch(shot->call, ops, 3 + n, shot, NULL),
		GRPC_CALL_OK);
}

static void shot_end(struct shot *shot)
{
	grpc_call_unref(shot->call);
	grpc_metadata_array_destroy(&shot->initial);
	grpc_metadata_array_destroy(&shot->trailing);
	grpc_slice_unref(shot->details);
}

static void one_shot(struct kit *kit, grpc_metadata *metadata,
		     size_t n_metadata, const grpc_op *more, size_t n,
		     grpc_status_code want, const char *text)
{
	struct peer peer;
	struct shot shot;
	grpc_event event;
	char *details;

	peer_open(&peer, kit);
	shot_begin(&shot, &peer, metadata, n_metadata, more, n);
	event = peer_next(&peer);
	assert_ptr_equal(event.tag, &shot);
	details = grpc_slice_to_c_string(shot.details);
	if (shot.status != want || !strstr(details, text))
		fail_msg("status %d: %s", (int)shot.status, details);
	gpr_free(details);
	shot_end(&shot);
	peer_close(&peer);
}

static void refuses_a_call_without_a_message(void **state)
{
	struct kit *kit = *state;
	const grpc_op end = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};

	kit_start(kit);
	one_shot(kit, NULL, 0, &end, 1, GRPC_STATUS_INVALID_ARGUMENT,
		 "no request message");
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void refuses_a_compressed_message(void **state)
{
	struct kit *kit = *state;
	/* Repeated bytes: they compress well, as a bomb does. */
	char bytes[4096] = {0x0a, (char)0xfd, 0x1f};
	grpc_slice slice;
	grpc_byte_buffer *body;
	grpc_metadata gzip = {
		.key = grpc_slice_from_static_string(
			GRPC_COMPRESSION_REQUEST_ALGORITHM_MD_KEY),
		.value = grpc_slice_from_static_string("gzip"),
	};
	grpc_op ops[2] = {{.op = GRPC_OP_SEND_MESSAGE},
			  {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}};

	kit_start(kit);
	memset(bytes + 3, 'x', sizeof(bytes) - 3);
	slice = grpc_slice_from_copied_buffer(bytes, sizeof(bytes));
	body = grpc_raw_byte_buffer_create(&slice, 1);
	ops[0].data.send_message.send_message = body;
	one_shot(kit, &gzip, 1, ops, 2, GRPC_STATUS_UNIMPLEMENTED, "gzip");
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
	grpc_byte_buffer_destroy(body);
	grpc_slice_unref(slice);
}

static void refuses_metadata_that_is_too_large(void **state)
{
	struct kit *kit = *state;
	const grpc_op end = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
	char *value = malloc(100000);
	grpc_metadata large = {.key = grpc_slice_from_static_string("x-large")};

	kit_start(kit);
	memset(value, 'x', 100000);
	large.value = grpc_slice_from_copied_buffer(value, 100000);
	one_shot(kit, &large, 1, &end, 1, GRPC_STATUS_RESOURCE_EXHAUSTED, "");
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
	grpc_slice_unref(large.value);
	free(value);
}

#define MANY 100

/* Calls that never send a body take a place each, up to a limit. */
static void survives_calls_that_never_send_a_body(void **state)
{
	static struct shot shots[MANY];
	struct kit *kit = *state;
	struct peer peer;
	grpc_event event;
	int refused = 0;

	kit->options.workers = 1;
	kit->options.queue = 1; /* 20 calls may be open */
	kit_start(kit);
	peer_open(&peer, kit);
	for (int i = 0; i < MANY; i++)
		shot_begin(&shots[i], &peer, NULL, 0, NULL, 0);
	for (int i = 0; i < MANY - 20; i++) {
		struct shot *shot;

		event = peer_next(&peer);
		shot = event.tag;
		assert_int_equal(event.type, GRPC_OP_COMPLETE);
		assert_int_equal(shot->status, GRPC_STATUS_UNAVAILABLE);
		refused++;
	}
	assert_int_equal(refused, MANY - 20);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), -EAGAIN);
	assert_non_null(strstr(kit->err.msg, "too many calls open"));
	/* Others are not kept out for ever ... */
	for (int i = 0; kit_get(kit, "echo:x", 30000, NULL) < 0; i++) {
		assert_int_equal(kit->err.code, EAGAIN);
		assert_true(i < 600);
		(void)usleep(100000);
	}
	/* ... by those that asked for nothing. */
	event = peer_next(&peer);
	assert_int_equal(event.type, GRPC_OP_COMPLETE);
	assert_int_not_equal(((struct shot *)event.tag)->status,
			     GRPC_STATUS_OK);
	for (int i = 0; i < MANY; i++)
		grpc_call_cancel(shots[i].call, NULL);
	for (int i = 1; i < 20; i++)
		assert_int_equal(peer_next(&peer).type, GRPC_OP_COMPLETE);
	for (int i = 0; i < MANY; i++)
		shot_end(&shots[i]);
	peer_close(&peer);
}

static void stops_while_a_call_waits_for_its_body(void **state)
{
	struct kit *kit = *state;
	struct peer peer;
	struct shot shot;

	kit_start(kit);
	peer_open(&peer, kit);
	shot_begin(&shot, &peer, NULL, 0, NULL, 0);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
	kit_stop(kit);
	assert_int_equal(peer_next(&peer).type, GRPC_OP_COMPLETE);
	assert_int_not_equal(shot.status, GRPC_STATUS_OK);
	shot_end(&shot);
	peer_close(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
		T(refuses_a_call_without_a_message),
		T(refuses_a_compressed_message),
		T(refuses_metadata_that_is_too_large),
		T(survives_calls_that_never_send_a_body),
		T(stops_while_a_call_waits_for_its_body),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
