/* SPDX-License-Identifier: Apache-2.0 */
/* A raw pool's metadata: there is always room for its next checkpoint. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/testkit/raw_store_kit.h"

static void keeps_room_for_a_checkpoint(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1};
	struct run run;
	uint32_t first;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	for (;;) {
		map.count = raw_store_take(run.store, 8, RAW_HOLE,
					   &map.physical);
		if (!map.count)
			break;
		map.logical = (map.logical + 8) % 32;
		run_change(&run, &map, 1);
	}
	assert_int_equal(raw_store_available(run.store), 0);
	for (int i = 0; i < 5; i++)
		run_must(&run, raw_store_checkpoint(run.store, &run.err),
			 "checkpoint");
	assert_int_equal(raw_store_take(run.store, 1, RAW_HOLE, &first), 0);
	run_done(&run);
}

static void uses_a_medium_that_has_grown(void **unused)
{
	struct raw_medium *medium;
	struct run run;
	uint32_t before, first = 0, n = 0;

	(void)unused;
	run_init(&run);
	medium = &run.power.medium;
	before = raw_store_available(run.store);
	assert_int_equal(
		raw_store_extend(run.store, SMALL - RAW_BLOCK, &run.err),
		-EINVAL);
	medium->size = MEDIUM;
	for (int i = 0; i < 2; i++) {
		run_must(&run, raw_store_extend(run.store, MEDIUM, &run.err),
			 "extend");
		assert_int_equal(raw_store_available(run.store),
				 before + ((MEDIUM - SMALL) >> 16));
	}
	run_make_object(&run, 1, 0);
	for (uint32_t i = 0; i < LENGTH; i++) {
		struct raw_record map = {
			.type = RAW_MAP, .object = 1, .logical = i, .count = 1};

		n += raw_store_take(run.store, 1, RAW_HOLE, &map.physical);
		first = map.physical;
		run_change(&run, &map, 1);
	}
	assert_int_equal(n, LENGTH);
	assert_true(first > before); /* it is in the new part */
	run_must(&run,
		 raw_store_commit(run.store, power_states_newest(&run.states),
				  &run.err),
		 "commit");
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store),
			 run.states.prints[power_states_newest(&run.states)]);
	raw_store_close(run.store);
	run.store = NULL;
	medium->size = MEDIUM - RAW_BLOCK;
	assert_int_equal(run_open_result(&run), -EBADMSG);
	run_done(&run);
}

/* The size is in the superblocks or not, whatever write was the last. */
static void stays_as_it_was_when_it_cannot_grow(void **unused)
{
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	before = raw_store_super(run.store)->clusters;
	run.power.medium.size = MEDIUM;
	run.power.fail_writes = -EIO;
	assert_int_equal(raw_store_extend(run.store, MEDIUM, &run.err), -EIO);
	run.power.fail_writes = 0;
	assert_int_equal(raw_store_extend(run.store, MEDIUM, &run.err), -EIO);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(raw_store_super(run.store)->clusters, before);
	run_must(&run, raw_store_extend(run.store, MEDIUM, &run.err), "extend");
	run_done(&run);
}

/*
 * What takes no cluster may make a checkpoint larger, too: holes in what is
 * shared. On a full medium that ends before the checkpoint has no room.
 */
static void takes_no_change_that_a_checkpoint_has_no_room_for(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1, .count = 1};
	struct raw_record make[3] = {
		{.type = RAW_OBJECT, .clusters = LENGTH, .text = ""},
		{.type = RAW_SHARE, .from = 1},
		{.type = RAW_UNMAP, .count = 1},
	};
	struct run run;
	uint32_t id = 2;
	int r = 0;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	while (map.logical < LENGTH &&
	       raw_store_take(run.store, 1, RAW_HOLE, &map.physical)) {
		run_change(&run, &map, 1);
		map.logical++;
	}
	while (raw_store_take(run.store, 8, RAW_HOLE, &map.physical))
		; /* by others */
	for (; r == 0; id++) {
		for (size_t i = 0; i < 3; i++)
			make[i].object = id;
		r = raw_store_change(run.store, make, 3, NULL, &run.err);
	}
	assert_int_equal(r, -ENOSPC);
	assert_true(id > 50);
	run_must(&run, raw_store_checkpoint(run.store, &run.err), "checkpoint");
	/* Less is always possible, and makes room. */
	run_must(&run,
		 raw_store_change(
			 run.store,
			 &(struct raw_record){.type = RAW_DROP, .object = 2}, 1,
			 NULL, &run.err),
		 "drop");
	run_must(&run, raw_store_checkpoint(run.store, &run.err), "checkpoint");
	run_done(&run);
}

/* The metadata of many clusters that are taken at once is large. */
static void all_may_be_taken_at_once(void **unused)
{
	const uint64_t size = UINT64_C(4) << 30;
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN, .text = ""};
	struct raw_record object = {.type = RAW_OBJECT,
				    .object = 1,
				    .clusters = size >> RAW_CLUSTER_SHIFT_MIN,
				    .text = ""};
	struct raw_record map = {.type = RAW_MAP, .object = 1};
	auto_close int fd = memfd_create("pool", MFD_CLOEXEC);
	struct raw_file_medium file;
	struct raw_report report;
	struct run run = {0};

	(void)unused;
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	raw_file_medium_init(&file, fd, size);
	run_must(&run, raw_store_format(&file.medium, &options, &run.err),
		 "format");
	run_must(&run,
		 raw_store_open(&file.medium, &run.store, &report, &run.err),
		 "open");
	run_must(&run, raw_store_change(run.store, &object, 1, NULL, &run.err),
		 "change");
	while ((map.count = raw_store_take(
			run.store, (uint32_t)(object.clusters - map.logical),
			RAW_HOLE, &map.physical))) {
		run_must(&run,
			 raw_store_change(run.store, &map, 1, NULL, &run.err),
			 "map");
		map.logical += map.count;
	}
	assert_true(map.logical > object.clusters / 100 * 98);
	run_must(&run, raw_store_checkpoint(run.store, &run.err), "checkpoint");
	raw_store_close(run.store);
}

/* Of a checkpoint that is not even begun nothing is lost. */
static void goes_on_after_a_checkpoint_that_had_no_room(void **unused)
{
	uint32_t taken[MEDIUM >> RAW_CLUSTER_SHIFT_MIN], n = 0;
	struct raw_state *state;
	struct run run;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	state = raw_store_lock(run.store);
	while (raw_alloc_take(&state->alloc, 1, RAW_HOLE, &taken[n]))
		n++;
	raw_store_unlock(run.store);
	assert_int_equal(raw_store_checkpoint(run.store, &run.err), -ENOSPC);
	assert_false(raw_store_broken(run.store, NULL));
	for (uint32_t i = 0; i < n; i++)
		raw_store_untake(run.store, taken[i], 1);
	run_make_object(&run, 2, 1);
	run_must(&run,
		 raw_store_commit(run.store, power_states_newest(&run.states),
				  &run.err),
		 "commit");
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store),
			 run.states.prints[power_states_newest(&run.states)]);
	run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_room_for_a_checkpoint),
		cmocka_unit_test(uses_a_medium_that_has_grown),
		cmocka_unit_test(stays_as_it_was_when_it_cannot_grow),
		cmocka_unit_test(
			takes_no_change_that_a_checkpoint_has_no_room_for),
		cmocka_unit_test(all_may_be_taken_at_once),
		cmocka_unit_test(goes_on_after_a_checkpoint_that_had_no_room),
	};

	return cmocka_run_group_tests_name("raw_store_room", tests, NULL, NULL);
}
