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
#include "union/testkit/once_kit.h"

#include <cmocka.h>

static void a_request_that_is_over_is_not_known(void **state)
{
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once *once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	struct request_note note = once_kit_request(2, FUSE_MKDIR);
	struct once_noted noted;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	assert_false(once_noted(&noted));
	assert_true(once_wants_note());
	once_note(ONCE_ABSENT);
	assert_false(once_wants_note());
	assert_false(once_noted(&noted)); /* it is the first time */
	assert_true(once_kit_reply_kept(2));
	once_end();
	once_free(once);
	once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_true(once_begin(once, &note, -1));
	assert_false(once_noted(&noted));
	once_end();
	once_free(once);
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void what_was_noted_is_found_and_counts_are_given_back(void **state)
{
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once *once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	struct request_note note = once_kit_request(4, FUSE_CREATE);
	const struct handle handle = once_kit_handle(7);
	struct once_noted noted;
	int i;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	once_note_file(3, &handle);
	once_note(ONCE_ABSENT); /* the first counts */
	once_gains_node(11);
	once_gains_node(12);
	once_gains_file(13);
	once_free(once);
	note.unique |= ONCE_RESENT;
	for (i = 0; i < 2; i++) { /* and the next is killed, too */
		once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
		assert_int_equal(once_missing(once), 1);
		assert_true(once_is_waiting(once));
		assert_true(once_begin(once, &note, -1));
		assert_false(once_is_waiting(once));
		assert_int_equal(once_missing(once), 0);
		assert_int_equal(once_kit_forgotten_count, i ? 0 : 2);
		assert_int_equal(once_kit_dropped, i ? 0 : 13);
		assert_true(once_noted(&noted));
		assert_int_equal(noted.note, ONCE_PRESENT);
		assert_int_equal(noted.branch, 3);
		assert_true(handle_equal(&noted.handle, &handle));
		once_free(once);
	}
	once_end();
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void a_known_reply_is_sent_with_the_new_number(void **state)
{
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once *once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	struct request_note note = once_kit_request(6, FUSE_LOOKUP);
	struct once_kit_reply want = once_kit_reply(6 | ONCE_RESENT), got;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(once_begin(once, &note, -1));
	once_gains_node(9);
	assert_false(once_kit_reply_kept(8)); /* of another */
	assert_true(once_kit_reply_kept(6));
	once_free(once);
	once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	assert_int_equal(once_missing(once), 0);
	note.unique |= ONCE_RESENT;
	assert_false(once_begin(once, &note, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), sizeof(got));
	assert_memory_equal(&got, &want, sizeof(got));
	assert_int_equal(once_kit_forgotten_count, 0);
	/* Once: it is not known any more. */
	assert_true(once_begin(once, &note, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), -1);
	once_end();
	once_free(once);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void a_known_reply_that_nobody_wants_counts_nothing(void **state)
{
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once *once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	struct request_note note = once_kit_request(6, FUSE_LOOKUP);

	(void)state;
	assert_true(once_begin(once, &note, -1));
	once_gains_node(9);
	assert_true(once_kit_reply_kept(6));
	once_free(once);
	once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_false(once_begin(once, &note, -1)); /* EBADF */
	assert_int_equal(once_kit_forgotten_count, 1);
	assert_int_equal(once_kit_forgotten[0], 9);
	once_free(once);
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

/* Longer than is kept: readdirplus. */
static void a_reply_that_was_not_kept_is_made_again(void **state)
{
	static char list[ONCE_REPLY_MAX];
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once *once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	struct request_note note = once_kit_request(6, FUSE_READDIRPLUS);
	struct fuse_out_header header = {.unique = 6};
	const struct iovec iov[] = {{&header, sizeof(header)},
				    {list, sizeof(list)}};
	uint64_t node;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	for (node = 1; node <= ONCE_NODES_MAX + 5; node++)
		once_gains_node(node);
	assert_true(once_reply(iov, 2));
	once_free(once);
	once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_true(once_begin(once, &note, -1));
	assert_int_equal(once_kit_forgotten_count, ONCE_NODES_MAX);
	once_end();
	once_free(once);
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void slots_of_requests_that_never_come_are_used_again(void **state)
{
	void *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct request_note note;
	struct once *once;
	uint64_t i;

	(void)state;
	for (i = 1; i <= 3 * ONCE_KIT_SLOTS; i++) {
		once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
		note = once_kit_request(2 * i, FUSE_RMDIR);
		assert_true(once_begin(once, &note, -1));
		assert_int_equal(once_missing(once),
				 i <= ONCE_KIT_SLOTS ? i - 1
						     : ONCE_KIT_SLOTS - 1);
		once_free(once);
	}
	/* The oldest went. */
	once = once_kit_open(memory, ONCE_KIT_MEMORY_SIZE);
	note = once_kit_request(2 * (2 * ONCE_KIT_SLOTS + 1) | ONCE_RESENT,
				FUSE_RMDIR);
	assert_true(once_begin(once, &note, -1));
	assert_int_equal(once_missing(once), ONCE_KIT_SLOTS - 1);
	once_end();
	once_free(once);
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void takes_what_it_can_of_damaged_memory(void **state)
{
	uint8_t *memory = once_kit_memory(ONCE_KIT_MEMORY_SIZE);
	struct once_slots slots;
	struct once_slot *slot;
	unsigned i, hint = 0;

	(void)state;
	assert_int_equal(once_slots_open(memory, ONCE_SLOT_SIZE, &slots),
			 -EINVAL);
	assert_int_equal(once_slots_open(memory, ONCE_KIT_MEMORY_SIZE, &slots),
			 0);
	for (i = 0; i < 4; i++) {
		slot = once_slots_claim(&slots, &hint);
		once_slot_begin(slot, 2 * i, FUSE_MKDIR);
	}
	slots.slots[0].note = ONCE_PRESENT;
	slots.slots[0].handle.length = HANDLE_MAX + 1;
	slots.slots[1].node_count = ONCE_NODES_MAX + 1;
	slots.slots[2].state = 77;
	atomic_store(&slots.head->used, 1u << 31);
	assert_int_equal(once_slots_open(memory, ONCE_KIT_MEMORY_SIZE, &slots),
			 0);
	assert_int_equal(once_slots_missing(&slots), 1);
	assert_non_null(once_slots_find(&slots, 6));
	/* Of another layout: nothing of it is believed. */
	memset(memory, 0x11, ONCE_KIT_MEMORY_SIZE);
	assert_int_equal(once_slots_open(memory, ONCE_KIT_MEMORY_SIZE, &slots),
			 0);
	assert_int_equal(once_slots_missing(&slots), 0);
	for (i = 0; i < ONCE_KIT_SLOTS; i++)
		assert_non_null(once_slots_claim(&slots, &hint));
	assert_null(once_slots_claim(&slots, &hint));
	(void)munmap(memory, ONCE_KIT_MEMORY_SIZE);
}

static void without_it_nothing_is_known(void **state)
{
	const struct request_note note = once_kit_request(2 | ONCE_RESENT,
							  FUSE_MKDIR);
	struct once_noted noted;

	(void)state;
	assert_true(once_begin(NULL, &note, -1));
	assert_false(once_wants_note());
	once_note(ONCE_ABSENT);
	once_gains_node(1);
	once_gains_file(1);
	once_gains_nothing();
	assert_false(once_noted(&noted));
	assert_false(once_kit_reply_kept(2 | ONCE_RESENT));
	once_end();
	assert_int_equal(once_missing(NULL), 0);
	once_free(NULL);
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
