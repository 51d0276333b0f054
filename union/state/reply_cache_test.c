/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of requests that are done once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/testkit/reply_cache_kit.h"

#include <cmocka.h>

static void a_request_that_is_over_is_not_known(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request = reply_cache_kit_request(2, FUSE_MKDIR);
	struct reply_cache_noted noted;

	(void)state;
	assert_true(reply_cache_begin(once, &request, -1));
	assert_false(reply_cache_noted(&request, &noted));
	assert_true(reply_cache_wants_note(&request));
	reply_cache_note(&request, REPLY_CACHE_ABSENT);
	assert_false(reply_cache_wants_note(&request));
	assert_false(
		reply_cache_noted(&request, &noted)); /* it is the first time */
	assert_true(reply_cache_kit_reply_kept(&request, 2));
	reply_cache_end(&request);
	reply_cache_free(once);
	once = reply_cache_kit_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	request.unique |= REPLY_CACHE_RESENT;
	assert_true(reply_cache_begin(once, &request, -1));
	assert_false(reply_cache_noted(&request, &noted));
	reply_cache_end(&request);
	reply_cache_free(once);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void what_was_noted_is_found_and_counts_are_given_back(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request = reply_cache_kit_request(4, FUSE_CREATE);
	const struct handle handle = reply_cache_kit_handle(7);
	struct reply_cache_noted noted;
	int i;

	(void)state;
	assert_true(reply_cache_begin(once, &request, -1));
	reply_cache_note_file(&request, 3, &handle);
	reply_cache_note(&request, REPLY_CACHE_ABSENT); /* the first counts */
	reply_cache_gains_node(&request, 11);
	reply_cache_gains_node(&request, 12);
	reply_cache_gains_file(&request, 13);
	reply_cache_free(once);
	request.unique |= REPLY_CACHE_RESENT;
	for (i = 0; i < 2; i++) { /* and the next is killed, too */
		once = reply_cache_kit_open(memory,
					    REPLY_CACHE_KIT_MEMORY_SIZE);
		assert_int_equal(reply_cache_missing(once), 1);
		assert_true(reply_cache_is_waiting(once));
		assert_true(reply_cache_begin(once, &request, -1));
		assert_false(reply_cache_is_waiting(once));
		assert_int_equal(reply_cache_missing(once), 0);
		assert_int_equal(reply_cache_kit_forgotten_count, i ? 0 : 2);
		assert_int_equal(reply_cache_kit_dropped, i ? 0 : 13);
		assert_true(reply_cache_noted(&request, &noted));
		assert_int_equal(noted.note, REPLY_CACHE_PRESENT);
		assert_int_equal(noted.branch, 3);
		assert_true(handle_equal(&noted.handle, &handle));
		reply_cache_free(once);
	}
	reply_cache_end(&request);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void a_known_reply_is_sent_with_the_new_number(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request = reply_cache_kit_request(6, FUSE_LOOKUP);
	struct reply_cache_kit_reply want = reply_cache_kit_reply(
					     6 | REPLY_CACHE_RESENT),
				     got;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(reply_cache_begin(once, &request, -1));
	reply_cache_gains_node(&request, 9);
	assert_false(reply_cache_kit_reply_kept(&request, 8)); /* of another */
	assert_true(reply_cache_kit_reply_kept(&request, 6));
	reply_cache_free(once);
	once = reply_cache_kit_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	assert_int_equal(reply_cache_missing(once), 0);
	request.unique |= REPLY_CACHE_RESENT;
	assert_false(reply_cache_begin(once, &request, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), sizeof(got));
	assert_memory_equal(&got, &want, sizeof(got));
	assert_int_equal(reply_cache_kit_forgotten_count, 0);
	/* Once: it is not known any more. */
	assert_true(reply_cache_begin(once, &request, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), -1);
	reply_cache_end(&request);
	reply_cache_free(once);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void a_known_reply_that_nobody_wants_counts_nothing(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request = reply_cache_kit_request(6, FUSE_LOOKUP);

	(void)state;
	assert_true(reply_cache_begin(once, &request, -1));
	reply_cache_gains_node(&request, 9);
	assert_true(reply_cache_kit_reply_kept(&request, 6));
	reply_cache_free(once);
	once = reply_cache_kit_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	request.unique |= REPLY_CACHE_RESENT;
	assert_false(reply_cache_begin(once, &request, -1)); /* EBADF */
	assert_int_equal(reply_cache_kit_forgotten_count, 1);
	assert_int_equal(reply_cache_kit_forgotten[0], 9);
	reply_cache_free(once);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

/* Longer than is kept: readdirplus. */
static void a_reply_that_was_not_kept_is_made_again(void **state)
{
	static char list[REPLY_CACHE_REPLY_MAX];
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request = reply_cache_kit_request(6, FUSE_READDIRPLUS);
	struct fuse_out_header header = {.unique = 6};
	const struct iovec iov[] = {{&header, sizeof(header)},
				    {list, sizeof(list)}};
	uint64_t node;

	(void)state;
	assert_true(reply_cache_begin(once, &request, -1));
	for (node = 1; node <= REPLY_CACHE_NODES_MAX + 5; node++)
		reply_cache_gains_node(&request, node);
	assert_true(reply_cache_reply(&request, iov, 2));
	reply_cache_free(once);
	once = reply_cache_kit_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	request.unique |= REPLY_CACHE_RESENT;
	assert_true(reply_cache_begin(once, &request, -1));
	assert_int_equal(reply_cache_kit_forgotten_count,
			 REPLY_CACHE_NODES_MAX);
	reply_cache_end(&request);
	reply_cache_free(once);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void slots_of_requests_that_never_come_are_used_again(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct request request;
	struct reply_cache *once;
	uint64_t i;

	(void)state;
	for (i = 1; i <= 3 * REPLY_CACHE_KIT_SLOTS; i++) {
		once = reply_cache_kit_open(memory,
					    REPLY_CACHE_KIT_MEMORY_SIZE);
		request = reply_cache_kit_request(2 * i, FUSE_RMDIR);
		assert_true(reply_cache_begin(once, &request, -1));
		assert_int_equal(reply_cache_missing(once),
				 i <= REPLY_CACHE_KIT_SLOTS
					 ? i - 1
					 : REPLY_CACHE_KIT_SLOTS - 1);
		reply_cache_free(once);
	}
	/* The oldest went. */
	once = reply_cache_kit_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
	request = reply_cache_kit_request(2 * (2 * REPLY_CACHE_KIT_SLOTS + 1) |
						  REPLY_CACHE_RESENT,
					  FUSE_RMDIR);
	assert_true(reply_cache_begin(once, &request, -1));
	assert_int_equal(reply_cache_missing(once), REPLY_CACHE_KIT_SLOTS - 1);
	reply_cache_end(&request);
	reply_cache_free(once);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void takes_what_it_can_of_damaged_memory(void **state)
{
	uint8_t *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct reply_cache_slots slots;
	struct reply_cache_slot *slot;
	unsigned i, hint = 0;

	(void)state;
	assert_int_equal(
		reply_cache_slots_open(memory, REPLY_CACHE_SLOT_SIZE, &slots),
		-EINVAL);
	assert_int_equal(reply_cache_slots_open(
				 memory, REPLY_CACHE_KIT_MEMORY_SIZE, &slots),
			 0);
	for (i = 0; i < 4; i++) {
		slot = reply_cache_slots_claim(&slots, &hint);
		reply_cache_slot_begin(slot, 2 * i, FUSE_MKDIR);
	}
	slots.slots[0].note = REPLY_CACHE_PRESENT;
	slots.slots[0].handle.length = HANDLE_MAX + 1;
	slots.slots[1].node_count = REPLY_CACHE_NODES_MAX + 1;
	slots.slots[2].state = 77;
	atomic_store(&slots.head->used, 1u << 31);
	assert_int_equal(reply_cache_slots_open(
				 memory, REPLY_CACHE_KIT_MEMORY_SIZE, &slots),
			 0);
	assert_int_equal(reply_cache_slots_missing(&slots), 1);
	assert_non_null(reply_cache_slots_find(&slots, 6));
	/* Memory of another layout is not believed. */
	memset(memory, 0x11, REPLY_CACHE_KIT_MEMORY_SIZE);
	assert_int_equal(reply_cache_slots_open(
				 memory, REPLY_CACHE_KIT_MEMORY_SIZE, &slots),
			 0);
	assert_int_equal(reply_cache_slots_missing(&slots), 0);
	for (i = 0; i < REPLY_CACHE_KIT_SLOTS; i++)
		assert_non_null(reply_cache_slots_claim(&slots, &hint));
	assert_null(reply_cache_slots_claim(&slots, &hint));
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

static void without_it_nothing_is_known(void **state)
{
	struct request request = reply_cache_kit_request(2 | REPLY_CACHE_RESENT,
							 FUSE_MKDIR);
	struct reply_cache_noted noted;

	(void)state;
	assert_true(reply_cache_begin(NULL, &request, -1));
	assert_false(reply_cache_wants_note(&request));
	reply_cache_note(&request, REPLY_CACHE_ABSENT);
	reply_cache_gains_node(&request, 1);
	reply_cache_gains_file(&request, 1);
	reply_cache_gains_nothing(&request);
	assert_false(reply_cache_noted(&request, &noted));
	assert_false(
		reply_cache_kit_reply_kept(&request, 2 | REPLY_CACHE_RESENT));
	reply_cache_end(&request);
	assert_int_equal(reply_cache_missing(NULL), 0);
	reply_cache_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_that_is_over_is_not_known),
		cmocka_unit_test(
			what_was_noted_is_found_and_counts_are_given_back),
		cmocka_unit_test(a_known_reply_is_sent_with_the_new_number),
		cmocka_unit_test(
			a_known_reply_that_nobody_wants_counts_nothing),
		cmocka_unit_test(a_reply_that_was_not_kept_is_made_again),
		cmocka_unit_test(
			slots_of_requests_that_never_come_are_used_again),
		cmocka_unit_test(takes_what_it_can_of_damaged_memory),
		cmocka_unit_test(without_it_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
