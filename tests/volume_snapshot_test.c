/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and their clones, over two nodes that keep numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "tests/snapshot_kit.h"

#define NOBODY "00000000-0000-4000-8000-000000000000"

struct writer {
	struct kit *t;
	const struct volume_record *record;
	atomic_bool stop;
};

/* First split 0, then split 1: no instant has more in 1. */
static void *write_in_order(void *writer_)
{
	struct writer *w = writer_;

	for (uint64_t n = 1; !atomic_load(&w->stop); n++) {
		for (int i = 0; i < 2; i++)
			fake_node_write(
				kit_node_of(w->t, w->record->splits[i].node),
				w->record->splits[i].extent, n);
	}
	return NULL;
}

static void a_snapshot_is_one_instant_of_all_nodes(void **state)
{
	struct kit *t = *state;
	struct volume_record *volume = NULL;
	struct writer w = {.t = t};
	pthread_t thread;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(volume_get(t->volumes, "v", &volume, NULL), 0);
	assert_int_equal(volume->n_splits, 2);
	assert_string_not_equal(volume->splits[0].node, volume->splits[1].node);
	w.record = volume;
	assert_int_equal(pthread_create(&thread, NULL, write_in_order, &w), 0);
	for (int i = 0; i < 5; i++) {
		struct snapshot_record *s;
		uint64_t first, second;
		char name[8];

		(void)snprintf(name, sizeof(name), "s%d", i);
		assert_int_equal(kit_snapshot(t, name, "v"), 0);
		s = kit_load(t, name);
		assert_int_equal(s->phase, SNAPSHOT_READY);
		assert_true(s->cut_s > 0);
		first = kit_held(t, &s->splits[0]);
		second = kit_held(t, &s->splits[1]);
		assert_true(first == second || first == second + 1);
		snapshot_record_free(s);
		assert_int_equal(volume_snapshot_delete(t->volumes, name, NULL),
				 0);
	}
	atomic_store(&w.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	volume_record_free(volume);
	kit_only(t, 2);
}

static void a_hold_that_lapsed_is_cut_again_and_at_last_refused(void **state)
{
	struct kit *t = *state;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	atomic_store(&t->nodes[1].lapses, 2);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(t->nodes[0].n_cuts, 3);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	atomic_store(&t->nodes[1].lapses, 9);
	assert_int_equal(kit_snapshot(t, "s", "v"), -ESTALE);
	assert_false(kit_there(t, "s"));
	kit_only(t, 2);
}

static void what_fails_leaves_nothing_held_and_nothing_made(void **state)
{
	struct kit *t = *state;
	static const int codes[] = {EBUSY, ENOSPC, -EIO};

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	for (size_t i = 0; i < array_size(codes); i++) {
		atomic_store(&t->nodes[1].hold_fails, codes[i]);
		assert_int_equal(kit_snapshot(t, "s", "v"), -abs(codes[i]));
		atomic_store(&t->nodes[1].cut_fails, codes[i]);
		assert_int_equal(kit_snapshot(t, "s", "v"), -abs(codes[i]));
		assert_string_equal(t->nodes[0].hold, "");
		assert_string_equal(t->nodes[1].hold, "");
		assert_false(kit_there(t, "s"));
		kit_only(t, 2);
	}
	fake_node_down(&t->nodes[1]);
	assert_int_equal(kit_snapshot(t, "s", "v"), -EHOSTUNREACH);
	assert_string_equal(t->nodes[0].hold, "");
	assert_false(kit_there(t, "s"));
	fake_node_up(&t->nodes[1]);
	/* Nobody knows whether that node cut. */
	atomic_store(&t->nodes[1].cut_fails, -ETIMEDOUT);
	atomic_store(&t->nodes[1].release_fails, ETIMEDOUT);
	assert_int_equal(kit_snapshot(t, "s", "v"), -ETIMEDOUT);
	assert_true(kit_there(t, "s"));
	t->nodes[1].hold[0] = '\0'; /* its time is up */
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	kit_only(t, 2);
}

static void a_snapshot_of_another_volume_keeps_its_name(void **state)
{
	struct kit *t = *state;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_make(t, "w", 256 * MIB, NULL), 0);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(kit_snapshot(t, "s", "w"), -EEXIST);
	assert_int_equal(kit_snapshot(t, "x", "none"), -ENOENT);
	assert_int_equal(volume_snapshot_delete(t->volumes, "none", NULL), 0);
	assert_int_equal(volume_node_remove(t->volumes, "h0", NULL), -EBUSY);
	assert_int_equal(kit_extents(t), 6);
	/* Another volume of that name is not the one meant. */
	assert_int_equal(kit_snapshot(t, "x", "v@" NOBODY), -ENOENT);
	assert_int_equal(kit_snapshot(t, "s", "v@" NOBODY), -EEXIST);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s@" NOBODY, NULL),
			 0);
	assert_true(kit_there(t, "s"));
}

static void a_snapshot_outlives_its_volume_and_is_restored_larger(void **state)
{
	struct kit *t = *state;
	struct volume_record *record = NULL;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	kit_write_split(t, "v", 0, 7);
	kit_write_split(t, "v", 1, 8);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	kit_write_split(t, "v", 0, 9);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_int_equal(volume_node_remove(t->volumes, "h0", NULL), -EBUSY);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 512 * MIB),
		0);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 512 * MIB),
		0);
	assert_int_equal(kit_content(t, "r", 0), 7);
	assert_int_equal(kit_content(t, "r", 1), 8);
	assert_int_equal(volume_get(t->volumes, "r", &record, NULL), 0);
	assert_int_equal(record->spec.capacity, 512 * MIB);
	assert_int_equal(record->splits[0].state, SPLIT_CREATED);
	volume_record_free(record);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	/* Also when its source is gone. */
	assert_int_equal(kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 0),
			 0);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", GIB / 8),
		-EEXIST);
	assert_int_equal(volume_delete(t->volumes, "r", NULL), 0);
	kit_only(t, 0);
}

static void a_source_that_does_not_do_is_refused(void **state)
{
	struct kit *t = *state;
	struct volume_spec spec = {
		.source = {.kind = VOLUME_SOURCE_SNAPSHOT, .name = "s"}};
	const struct volume_create_request request = {.name = "r",
						      .spec = &spec};

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	(void)strcpy(spec.layout, "linear");
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -EINVAL);
	(void)strcpy(spec.layout, "union");
	(void)strcpy(spec.fs_type, "xfs");
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -EINVAL);
	spec.fs_type[0] = '\0';
	spec.capacity = 128 * MIB;
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -ERANGE);
	spec.capacity = 0;
	spec.max_splits = 1;
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -EINVAL);
	spec.max_splits = 0;
	assert_int_equal(name_list_add(&spec.nodes, "h0", NULL), 0);
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -ENOSPC);
	name_list_done(&spec.nodes);
	(void)strcpy(spec.source.uid, NOBODY);
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL),
			 -ENOENT);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "none", "r", 0),
		-ENOENT);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 4 * GIB),
		-ENOSPC);
	kit_only(t, 4);
}

static void a_clone_leaves_no_snapshot(void **state)
{
	struct kit *t = *state;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	kit_write_split(t, "v", 1, 5);
	t->nodes[0].copies = 2; /* its source, and itself, are copied */
	assert_int_equal(kit_make_from(t, VOLUME_SOURCE_VOLUME, "v", "c", 0),
			 0);
	assert_int_equal(kit_content(t, "c", 1), 5);
	kit_only(t, 4);
	/* A clone that fails leaves no snapshot, either. */
	atomic_store(&t->nodes[0].fails, EIO);
	assert_int_equal(kit_make_from(t, VOLUME_SOURCE_VOLUME, "v", "d", 0),
			 -EIO);
	kit_only(t, 4);
	assert_int_equal(kit_make_from(t, VOLUME_SOURCE_VOLUME, "x", "d", 0),
			 -ENOENT);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_int_equal(volume_delete(t->volumes, "c", NULL), 0);
	kit_only(t, 0);
}

static void copying_is_followed_until_it_is_ready(void **state)
{
	struct kit *t = *state;
	struct snapshot_record *s = NULL;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	t->nodes[1].copies = 3;
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	s = kit_load(t, "s");
	assert_int_equal(s->phase, SNAPSHOT_COPYING);
	assert_true(s->cut_s > 0);
	assert_true(snapshot_record_copied(s) > 0);
	assert_true(snapshot_record_copied(s) < s->spec.capacity);
	snapshot_record_free(s);
	assert_int_equal(kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 0),
			 -EAGAIN);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			volume_snapshot_refresh(t->volumes, "s", &s, NULL), 0);
		if (i < 2)
			snapshot_record_free(s);
	}
	assert_int_equal(s->phase, SNAPSHOT_READY);
	snapshot_record_free(s);
}

static void a_volume_is_reverted_whole(void **state)
{
	struct kit *t = *state;
	struct volume_record *record = NULL;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_make(t, "w", 256 * MIB, NULL), 0);
	kit_write_split(t, "v", 0, 1);
	kit_write_split(t, "v", 1, 2);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	kit_write_split(t, "v", 0, 3);
	kit_write_split(t, "v", 1, 4);
	assert_int_equal(volume_revert(t->volumes, "w", "s", NULL), -EINVAL);
	atomic_store(&t->nodes[1].revert_fails, EIO);
	assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), -EIO);
	/* Half of it is not used. */
	assert_int_equal(kit_snapshot(t, "x", "v"), -EBUSY);
	assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), 0);
	assert_int_equal(kit_content(t, "v", 0), 1);
	assert_int_equal(kit_content(t, "v", 1), 2);
	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	assert_int_equal(record->phase, VOLUME_READY);
	assert_string_equal(record->reverted, "s");
	volume_record_free(record);
	assert_int_equal(volume_publish(t->volumes,
					&(struct volume_publish_request){
						.name = "v", .node = "h0"},
					NULL, NULL),
			 0);
	assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), -EBUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(a_snapshot_is_one_instant_of_all_nodes),
		KIT_TEST(a_hold_that_lapsed_is_cut_again_and_at_last_refused),
		KIT_TEST(what_fails_leaves_nothing_held_and_nothing_made),
		KIT_TEST(a_snapshot_of_another_volume_keeps_its_name),
		KIT_TEST(a_snapshot_outlives_its_volume_and_is_restored_larger),
		KIT_TEST(a_source_that_does_not_do_is_refused),
		KIT_TEST(a_clone_leaves_no_snapshot),
		KIT_TEST(copying_is_followed_until_it_is_ready),
		KIT_TEST(a_volume_is_reverted_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
