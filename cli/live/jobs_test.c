/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/live/jobs.h"

#define MIB (UINT64_C(1) << 20)

static struct volume_split splits[2];
static struct volume_attachment attachment;

/* A ready volume of two splits, attached on a node. */
static struct volume_record sound_volume(void)
{
	struct volume_record record = {
		.name = "v",
		.phase = VOLUME_READY,
		.splits = splits,
		.n_splits = 2,
		.attachments = &attachment,
		.n_attachments = 1,
	};

	for (unsigned i = 0; i < 2; i++)
		splits[i] = (struct volume_split){.index = i,
						  .node = "a",
						  .size = 64 * MIB,
						  .state = SPLIT_READY};
	attachment = (struct volume_attachment){
		.node = "b",
		.state = ATTACHMENT_ATTACHED,
	};
	return record;
}

/* Check the volume's only job. */
static void is_doing(const struct volume_record *record, const char *doing,
		     uint64_t done, uint64_t total, const char *detail)
{
	struct job_list list = {0};

	jobs_of_volume(&list, record);
	assert_int_equal(list.n, 1);
	assert_string_equal(list.jobs[0].object, "volume v");
	assert_string_equal(list.jobs[0].doing, doing);
	assert_int_equal(list.jobs[0].done, done);
	assert_int_equal(list.jobs[0].total, total);
	assert_string_equal(list.jobs[0].detail, detail);
	free(list.jobs);
}

static void a_volume_in_use_has_no_job(void **state)
{
	struct volume_record record = sound_volume();
	struct job_list list = {0};

	(void)state;
	jobs_of_volume(&list, &record);
	assert_int_equal(list.n, 0);
	assert_null(list.jobs);
}

static void every_unfinished_work_of_a_volume_is_a_job(void **state)
{
	struct volume_record record = sound_volume();

	(void)state;
	record.phase = VOLUME_CREATING;
	splits[1].state = SPLIT_PLANNED;
	is_doing(&record, "creating", 1, 2, "extents that are made");
	record.phase = VOLUME_READY;
	is_doing(&record, "growing", 0, 0, "by split 1 on node a");
	splits[1].state = SPLIT_DELETED;
	record.phase = VOLUME_DELETING;
	is_doing(&record, "deleting", 1, 2, "extents that are gone");
	record = sound_volume();
	record.phase = VOLUME_REVERTING;
	(void)strcpy(record.reverted, "s");
	is_doing(&record, "reverting", 0, 0, "to snapshot s");
	record = sound_volume();
	splits[0].grow_to = 96 * MIB;
	is_doing(&record, "growing", 0, 0, "split 0 on node a");
	record = sound_volume();
	splits[1].copying = true;
	splits[1].pulled = MIB;
	(void)strcpy(splits[1].source_node, "c");
	is_doing(&record, "copying", MIB, 64 * MIB,
		 "split 1 from node c to node a");
	record = sound_volume();
	attachment.state = ATTACHMENT_ATTACHING;
	is_doing(&record, "attaching", 0, 0, "on node b");
	attachment.state = ATTACHMENT_DETACHING;
	is_doing(&record, "detaching", 0, 0, "on node b");
}

static void a_move_says_how_far_it_is(void **state)
{
	struct volume_record record = sound_volume();

	(void)state;
	record.phase = VOLUME_MOVING;
	splits[1].move = (struct split_move){
		.node = "c", .pool = "p", .extent = "v-1", .copied = 16 * MIB};
	is_doing(&record, "moving", 16 * MIB, 64 * MIB,
		 "split 1 from node a to pool p of node c");
	record.phase = VOLUME_READY;
	splits[1].move.left = true;
	is_doing(&record, "deleting", 0, 0,
		 "extent v-1 of node c, which split 1 has left");
	splits[1].move.left = false;
	splits[1].lost = true;
	is_doing(&record, "repairing", 0, 0,
		 "split 1 anew in pool p of node c");
}

static void a_snapshot_says_how_far_it_is(void **state)
{
	struct snapshot_split split = {.size = 64 * MIB,
				       .copied = 8 * MIB,
				       .state = SNAPSHOT_SPLIT_COPYING};
	struct snapshot_record record = {
		.name = "s",
		.volume = "v",
		.phase = SNAPSHOT_COPYING,
		.spec = {.capacity = 64 * MIB},
		.splits = &split,
		.n_splits = 1,
	};
	struct job_list list = {0};

	(void)state;
	jobs_of_snapshot(&list, &record);
	record.phase = SNAPSHOT_READY;
	jobs_of_snapshot(&list, &record);
	record.phase = SNAPSHOT_CREATING;
	jobs_of_snapshot(&list, &record);
	record.phase = SNAPSHOT_DELETING;
	jobs_of_snapshot(&list, &record);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.jobs[0].doing, "copying");
	assert_int_equal(list.jobs[0].done, 8 * MIB);
	assert_int_equal(list.jobs[0].total, 64 * MIB);
	assert_string_equal(list.jobs[1].doing, "creating");
	assert_string_equal(list.jobs[2].doing, "deleting");
	free(list.jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume_in_use_has_no_job),
		cmocka_unit_test(every_unfinished_work_of_a_volume_is_a_job),
		cmocka_unit_test(a_move_says_how_far_it_is),
		cmocka_unit_test(a_snapshot_says_how_far_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
