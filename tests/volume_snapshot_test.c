/* SPDX-License-Identifier: Apache-2.0 */
/* The flows of volume/snapshot.h over two nodes that keep numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/size.h"
#include "csi/fake_node.h"
#include "volume/snapshot.h"

#define NODES  2
#define NOBODY "00000000-0000-4000-8000-000000000000"

struct test {
	char dir[64];
	char store[96];
	struct volume_context *volumes;
	struct fake_node nodes[NODES]; /* "h0" and "h1", 1 GiB each */
};

static int begin(void **state)
{
	struct test *t = calloc(1, sizeof(*t));
	struct volume_config config = {.call_timeout_ms = 1000};
	char name[8];

	(void)strcpy(t->dir, "/tmp/trib-snapshot-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	(void)snprintf(t->store, sizeof(t->store), "local:%s/db", t->dir);
	config.store = t->store;
	config.node = "here";
	config.run_dir = t->dir;
	assert_int_equal(volume_context_open(&config, &t->volumes, NULL), 0);
	for (int i = 0; i < NODES; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		fake_node_start(&t->nodes[i], t->dir, name, GIB, t->volumes);
	}
	*state = t;
	return 0;
}

static int end(void **state)
{
	struct test *t = *state;
	const char *const argv[] = {"rm", "-rf", t->dir, NULL};
	struct process_result result;

	for (int i = 0; i < NODES; i++)
		fake_node_stop(&t->nodes[i]);
	volume_context_close(t->volumes);
	if (process_run(argv, NULL, -1, -1, &result, NULL) == 0)
		process_result_done(&result);
	free(t);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

/* ---- what the tests say ---- */

static size_t extents(struct test *t)
{
	return fake_node_extents(&t->nodes[0]) +
	       fake_node_extents(&t->nodes[1]);
}

/* One extent on each node. */
static int make(struct test *t, const char *name, uint64_t size,
		const struct volume_source *source)
{
	struct volume_spec spec = {.capacity = size,
				   .min_splits = source ? 0 : 2};
	const struct volume_create_request request = {.name = name,
						      .spec = &spec};
	struct error err = {0};
	int r;

	if (source)
		spec.source = *source;
	r = volume_create(t->volumes, &request, NULL, &err);
	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

static int make_from(struct test *t, enum volume_source_kind kind,
		     const char *from, const char *name, uint64_t size)
{
	struct volume_source source = {.kind = kind};

	(void)snprintf(source.name, sizeof(source.name), "%s", from);
	return make(t, name, size, &source);
}

static int snapshot(struct test *t, const char *name, const char *volume)
{
	const struct snapshot_create_request request = {.name = name,
							.volume = volume};
	struct error err = {0};
	int r = volume_snapshot_create(t->volumes, &request, NULL, &err);

	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

static int group(struct test *t, const char *name)
{
	const char *const volumes[] = {"w", "v"};
	const struct group_create_request request = {
		.name = name, .volumes = volumes, .n_volumes = 2};
	struct error err = {0};
	int r = volume_group_create(t->volumes, &request, NULL, &err);

	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

static struct fake_node *node_of(struct test *t, const char *name)
{
	return &t->nodes[strcmp(name, "h1") == 0];
}

/* What a snapshot's split holds. */
static uint64_t held(struct test *t, const struct snapshot_split *split)
{
	struct fake_extent e;

	assert_true(fake_node_look(node_of(t, split->node), split->extent, &e));
	assert_true(e.snapshot);
	return e.content;
}

static uint64_t content(struct test *t, const char *volume, unsigned index)
{
	struct volume_record *record = NULL;
	struct fake_extent e;

	assert_int_equal(volume_get(t->volumes, volume, &record, NULL), 0);
	assert_true(index < record->n_splits);
	assert_true(fake_node_look(node_of(t, record->splits[index].node),
				   record->splits[index].extent, &e));
	volume_record_free(record);
	return e.content;
}

static void write_split(struct test *t, const char *volume, unsigned index,
			uint64_t value)
{
	struct volume_record *record = NULL;

	assert_int_equal(volume_get(t->volumes, volume, &record, NULL), 0);
	fake_node_write(node_of(t, record->splits[index].node),
			record->splits[index].extent, value);
	volume_record_free(record);
}

static struct snapshot_record *load(struct test *t, const char *name)
{
	struct snapshot_record *record = NULL;

	assert_int_equal(volume_snapshot_get(t->volumes, name, &record, NULL),
			 0);
	return record;
}

static bool there(struct test *t, const char *name)
{
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(t->volumes, name, &record, NULL);

	snapshot_record_free(record);
	return r == 0;
}

/* Nothing but the extents of v (and w). */
static void only(struct test *t, size_t n)
{
	struct orphan *orphans = NULL;
	size_t found = 0, silent = 0;

	assert_int_equal(extents(t), n);
	assert_int_equal(
		volume_orphans(t->volumes, &orphans, &found, &silent, NULL), 0);
	for (size_t i = 0; i < found; i++)
		print_message("# orphan %s: %s\n", orphans[i].name,
			      orphans[i].message);
	assert_int_equal(found, 0);
	free(orphans);
}

/* ---- one instant ---- */

struct writer {
	struct test *t;
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
				node_of(w->t, w->record->splits[i].node),
				w->record->splits[i].extent, n);
	}
	return NULL;
}

static void a_snapshot_is_one_instant_of_all_nodes(void **state)
{
	struct test *t = *state;
	struct volume_record *volume = NULL;
	struct writer w = {.t = t};
	pthread_t thread;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
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
		assert_int_equal(snapshot(t, name, "v"), 0);
		s = load(t, name);
		assert_int_equal(s->phase, SNAPSHOT_READY);
		assert_true(s->cut_s > 0);
		first = held(t, &s->splits[0]);
		second = held(t, &s->splits[1]);
		assert_true(first == second || first == second + 1);
		snapshot_record_free(s);
		assert_int_equal(volume_snapshot_delete(t->volumes, name, NULL),
				 0);
	}
	atomic_store(&w.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	volume_record_free(volume);
	only(t, 2);
}

static void a_hold_that_lapsed_is_cut_again_and_at_last_refused(void **state)
{
	struct test *t = *state;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	atomic_store(&t->nodes[1].lapses, 2);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	assert_int_equal(t->nodes[0].n_cuts, 3);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	atomic_store(&t->nodes[1].lapses, 9);
	assert_int_equal(snapshot(t, "s", "v"), -ESTALE);
	assert_false(there(t, "s"));
	only(t, 2);
}

static void what_fails_leaves_nothing_held_and_nothing_made(void **state)
{
	struct test *t = *state;
	static const int codes[] = {EBUSY, ENOSPC, -EIO};

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	for (size_t i = 0; i < array_size(codes); i++) {
		atomic_store(&t->nodes[1].hold_fails, codes[i]);
		assert_int_equal(snapshot(t, "s", "v"), -abs(codes[i]));
		atomic_store(&t->nodes[1].cut_fails, codes[i]);
		assert_int_equal(snapshot(t, "s", "v"), -abs(codes[i]));
		assert_string_equal(t->nodes[0].hold, "");
		assert_string_equal(t->nodes[1].hold, "");
		assert_false(there(t, "s"));
		only(t, 2);
	}
	fake_node_down(&t->nodes[1]);
	assert_int_equal(snapshot(t, "s", "v"), -EHOSTUNREACH);
	assert_string_equal(t->nodes[0].hold, "");
	assert_false(there(t, "s"));
	fake_node_up(&t->nodes[1]);
	/* Whether that one cut, nobody knows. */
	atomic_store(&t->nodes[1].cut_fails, -ETIMEDOUT);
	atomic_store(&t->nodes[1].release_fails, ETIMEDOUT);
	assert_int_equal(snapshot(t, "s", "v"), -ETIMEDOUT);
	assert_true(there(t, "s"));
	t->nodes[1].hold[0] = '\0'; /* its time is up */
	assert_int_equal(snapshot(t, "s", "v"), 0);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	only(t, 2);
}

static void a_snapshot_of_another_volume_keeps_its_name(void **state)
{
	struct test *t = *state;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(make(t, "w", 256 * MIB, NULL), 0);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	assert_int_equal(snapshot(t, "s", "w"), -EEXIST);
	assert_int_equal(snapshot(t, "x", "none"), -ENOENT);
	assert_int_equal(volume_snapshot_delete(t->volumes, "none", NULL), 0);
	assert_int_equal(volume_node_remove(t->volumes, "h0", NULL), -EBUSY);
	assert_int_equal(extents(t), 6);
	/* Another one that has the name is not the one that is meant. */
	assert_int_equal(snapshot(t, "x", "v@" NOBODY), -ENOENT);
	assert_int_equal(snapshot(t, "s", "v@" NOBODY), -EEXIST);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s@" NOBODY, NULL),
			 0);
	assert_true(there(t, "s"));
}

/* ---- what is made of it ---- */

static void a_snapshot_outlives_its_volume_and_is_restored_larger(void **state)
{
	struct test *t = *state;
	struct volume_record *record = NULL;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	write_split(t, "v", 0, 7);
	write_split(t, "v", 1, 8);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	write_split(t, "v", 0, 9);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_int_equal(volume_node_remove(t->volumes, "h0", NULL), -EBUSY);
	assert_int_equal(
		make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 512 * MIB), 0);
	assert_int_equal(
		make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 512 * MIB), 0);
	assert_int_equal(content(t, "r", 0), 7);
	assert_int_equal(content(t, "r", 1), 8);
	assert_int_equal(volume_get(t->volumes, "r", &record, NULL), 0);
	assert_int_equal(record->spec.capacity, 512 * MIB);
	assert_int_equal(record->splits[0].state, SPLIT_CREATED);
	volume_record_free(record);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	/* Also when its source is gone. */
	assert_int_equal(make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 0), 0);
	assert_int_equal(
		make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", GIB / 8),
		-EEXIST);
	assert_int_equal(volume_delete(t->volumes, "r", NULL), 0);
	only(t, 0);
}

static void a_source_that_does_not_do_is_refused(void **state)
{
	struct test *t = *state;
	struct volume_spec spec = {
		.source = {.kind = VOLUME_SOURCE_SNAPSHOT, .name = "s"}};
	const struct volume_create_request request = {.name = "r",
						      .spec = &spec};

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(snapshot(t, "s", "v"), 0);
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
	assert_int_equal(make_from(t, VOLUME_SOURCE_SNAPSHOT, "none", "r", 0),
			 -ENOENT);
	assert_int_equal(
		make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 4 * GIB),
		-ENOSPC);
	only(t, 4);
}

static void a_clone_leaves_no_snapshot(void **state)
{
	struct test *t = *state;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	write_split(t, "v", 1, 5);
	t->nodes[0].copies = 2; /* its source, and itself, are copied */
	assert_int_equal(make_from(t, VOLUME_SOURCE_VOLUME, "v", "c", 0), 0);
	assert_int_equal(content(t, "c", 1), 5);
	only(t, 4);
	/* One that fails leaves none, too. */
	atomic_store(&t->nodes[0].fails, EIO);
	assert_int_equal(make_from(t, VOLUME_SOURCE_VOLUME, "v", "d", 0), -EIO);
	only(t, 4);
	assert_int_equal(make_from(t, VOLUME_SOURCE_VOLUME, "x", "d", 0),
			 -ENOENT);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_int_equal(volume_delete(t->volumes, "c", NULL), 0);
	only(t, 0);
}

static void copying_is_followed_until_it_is_ready(void **state)
{
	struct test *t = *state;
	struct snapshot_record *s = NULL;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	t->nodes[1].copies = 3;
	assert_int_equal(snapshot(t, "s", "v"), 0);
	s = load(t, "s");
	assert_int_equal(s->phase, SNAPSHOT_COPYING);
	assert_true(s->cut_s > 0);
	assert_true(snapshot_record_copied(s) > 0);
	assert_true(snapshot_record_copied(s) < s->spec.capacity);
	snapshot_record_free(s);
	assert_int_equal(make_from(t, VOLUME_SOURCE_SNAPSHOT, "s", "r", 0),
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
	struct test *t = *state;
	struct volume_record *record = NULL;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(make(t, "w", 256 * MIB, NULL), 0);
	write_split(t, "v", 0, 1);
	write_split(t, "v", 1, 2);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	write_split(t, "v", 0, 3);
	write_split(t, "v", 1, 4);
	assert_int_equal(volume_revert(t->volumes, "w", "s", NULL), -EINVAL);
	atomic_store(&t->nodes[1].revert_fails, EIO);
	assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), -EIO);
	/* Half of it is not used. */
	assert_int_equal(snapshot(t, "x", "v"), -EBUSY);
	assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), 0);
	assert_int_equal(content(t, "v", 0), 1);
	assert_int_equal(content(t, "v", 1), 2);
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

/* ---- groups ---- */

static void a_group_is_one_instant_and_goes_as_one(void **state)
{
	struct test *t = *state;
	const struct snapshot_filter filter = {.group = "g", .cut = true};
	const struct snapshot_filter page = {.max = 1}, next = {.after = "g-0"};
	struct snapshot_record **members = NULL;
	struct group_record *g = NULL;
	bool more = false;
	size_t n = 0;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(make(t, "w", 256 * MIB, NULL), 0);
	assert_int_equal(group(t, "g"), 0);
	assert_int_equal(group(t, "g"), 0);
	assert_int_equal(volume_group_get(t->volumes, "g", &g, NULL), 0);
	assert_int_equal(g->phase, SNAPSHOT_READY);
	assert_int_equal(g->n_members, 2);
	assert_string_equal(g->members[0].volume, "v");
	assert_int_equal(volume_snapshot_list(t->volumes, &filter, &members, &n,
					      NULL, NULL, NULL),
			 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(members[i]->cut, g->cut);
		assert_int_equal(members[i]->cut_s, g->cut_s);
	}
	snapshot_records_free(members, n);
	group_record_free(g);
	assert_int_equal(volume_snapshot_list(t->volumes, &page, &members, &n,
					      &more, NULL, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_string_equal(members[0]->name, "g-0");
	assert_true(more);
	snapshot_records_free(members, n);
	assert_int_equal(volume_snapshot_list(t->volumes, &next, &members, &n,
					      &more, NULL, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_false(more);
	snapshot_records_free(members, n);
	assert_int_equal(volume_snapshot_delete(t->volumes, "g-0", NULL),
			 -EPERM);
	assert_int_equal(make_from(t, VOLUME_SOURCE_SNAPSHOT, "g-1", "r", 0),
			 0);
	assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
	assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
	only(t, 6);
}

static void a_group_that_fails_leaves_none_of_its_members(void **state)
{
	struct test *t = *state;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(make(t, "w", 256 * MIB, NULL), 0);
	atomic_store(&t->nodes[1].cut_fails, ENOSPC);
	assert_int_equal(group(t, "g"), -ENOSPC);
	assert_false(there(t, "g-0"));
	only(t, 4);
	/* A name that somebody has is his. */
	assert_int_equal(snapshot(t, "g-1", "v"), 0);
	assert_int_equal(group(t, "g"), -EEXIST);
	assert_false(there(t, "g-0"));
	assert_true(there(t, "g-1"));
	only(t, 6);
}

/* ---- limits, ranges ---- */

static void limits_are_divided_and_all_or_nothing(void **state)
{
	struct test *t = *state;
	struct volume_limits limits = {.iops = 1000, .bytes_per_second = 3};
	struct volume_record *record = NULL;
	struct fake_extent e[2];

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(volume_limit(t->volumes, "v", &limits, &record, NULL),
			 0);
	for (int i = 0; i < 2; i++)
		assert_true(fake_node_look(node_of(t, record->splits[i].node),
					   record->splits[i].extent, &e[i]));
	assert_int_equal(e[0].iops + e[1].iops, 1000);
	assert_true(e[0].bytes_per_second >= 1 && e[1].bytes_per_second >= 1);
	volume_record_free(record);
	limits.iops = 5;
	atomic_store(&t->nodes[1].limit_fails, EIO);
	assert_int_equal(volume_limit(t->volumes, "v", &limits, NULL, NULL),
			 -EIO);
	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	assert_int_equal(record->spec.limits.iops, 1000);
	for (int i = 0; i < 2; i++)
		assert_true(fake_node_look(node_of(t, record->splits[i].node),
					   record->splits[i].extent, &e[i]));
	assert_int_equal(e[0].iops + e[1].iops, 1000);
	volume_record_free(record);
	assert_int_equal(volume_limit(t->volumes, "none", &limits, NULL, NULL),
			 -ENOENT);
}

static int sum(void *total, uint64_t size, const struct snapshot_range *ranges,
	       size_t n)
{
	assert_int_equal(size, 128 * MIB);
	for (size_t i = 0; i < n; i++)
		*(uint64_t *)total += ranges[i].length;
	return 0;
}

static void ranges_are_of_a_volume_of_one_extent(void **state)
{
	struct test *t = *state;
	struct volume_spec spec = {.capacity = 128 * MIB, .layout = "linear"};
	struct snapshot_ranges_request request = {.snapshot = "a"};
	uint64_t total = 0;

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	write_split(t, "l", 0, 4096);
	assert_int_equal(snapshot(t, "a", "l"), 0);
	write_split(t, "l", 0, 12288);
	assert_int_equal(snapshot(t, "b", "l"), 0);
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		0);
	assert_int_equal(total, 4096);
	request = (struct snapshot_ranges_request){.snapshot = "b",
						   .older = "a"};
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		0);
	assert_int_equal(total, 12288);
	request.start = 128 * MIB + 1;
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-ERANGE);
	request = (struct snapshot_ranges_request){.snapshot = "none"};
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-ENOENT);
	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	request.snapshot = "s";
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-EINVAL);
}

struct seen {
	uint64_t end; /* bytes */
	size_t n;
};

/* Whatever a node says, what is told is in order and inside. */
static int see(void *seen_, uint64_t size, const struct snapshot_range *ranges,
	       size_t n)
{
	struct seen *seen = seen_;

	assert_int_equal(size, 128 * MIB);
	for (size_t i = 0; i < n; i++) {
		assert_true(ranges[i].length > 0);
		assert_true(ranges[i].offset >= seen->end);
		assert_true(ranges[i].length <= size - ranges[i].offset);
		seen->end = ranges[i].offset + ranges[i].length;
		seen->n++;
	}
	return 0;
}

static void ranges_that_make_no_sense_are_refused(void **state)
{
	struct test *t = *state;
	struct volume_spec spec = {.capacity = 128 * MIB, .layout = "linear"};
	const struct snapshot_ranges_request request = {.snapshot = "a",
							.start = 2 * MIB};

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	write_split(t, "l", 0, 4 * MIB);
	assert_int_equal(snapshot(t, "a", "l"), 0);
	for (int what = 0; what < FAKE_RANGES_N; what++) {
		struct seen seen = {0};
		struct error err = {0};
		int want = what == FAKE_RANGES_GOOD  ? 0
			   : what == FAKE_RANGES_CUT ? -EIO
						     : -EPROTO;

		for (size_t i = 0; i < NODES; i++)
			atomic_store(&t->nodes[i].ranges, what);
		assert_int_equal(volume_snapshot_ranges(t->volumes, &request,
							see, &seen, &err),
				 want);
		assert_true(seen.n <= 2);
		if (want == -EPROTO)
			assert_non_null(strstr(err.msg, "list of ranges"));
	}
}

/* ---- killed at every step ---- */

/* In a process of its own, which dies at step @n; false: it came to the end. */
static bool killed(struct test *t, unsigned n, const char *command,
		   const char *first, const char *second, const char *third)
{
	char program[PATH_MAX], at[16];
	const char *const argv[] = {program, t->store, "here", t->dir,
				    t->dir,  command,  at,     first,
				    second,  third,    NULL};
	struct process_result result;
	ssize_t length = readlink("/proc/self/exe", program,
				  sizeof(program) - 64);
	bool dead;

	assert_true(length > 0);
	program[length] = '\0';
	*strrchr(program, '/') = '\0';
	(void)strcpy(strrchr(program, '/'), "/volume/volume_call_main");
	(void)snprintf(at, sizeof(at), "kill=%u", n);
	assert_int_equal(process_run(argv, NULL, -1, -1, &result, NULL), 0);
	dead = result.exit_code != 0;
	if (dead && result.exit_code < 128)
		print_message("# %s\n", result.errors);
	assert_true(!dead || result.exit_code >= 128);
	process_result_done(&result);
	for (int i = 0; i < NODES; i++) { /* the time of its holds is up */
		pthread_mutex_lock(&t->nodes[i].lock);
		t->nodes[i].hold[0] = '\0';
		pthread_mutex_unlock(&t->nodes[i].lock);
	}
	return dead;
}

static void a_snapshot_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct test *t = *state;
	unsigned n;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	for (n = 1; killed(t, n, "snapshot", "name=s", "from=v", NULL); n++) {
		if (n % 2)
			assert_int_equal(snapshot(t, "s", "v"), 0);
		assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL),
				 0);
		only(t, 2);
	}
	assert_true(n > 3);
	for (n = 1; killed(t, n, "unsnapshot", "name=s", NULL, NULL); n++) {
		assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL),
				 0);
		only(t, 2);
		assert_int_equal(snapshot(t, "s", "v"), 0);
	}
	assert_true(n > 2);
	only(t, 2);
}

static void a_group_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct test *t = *state;
	unsigned n;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(make(t, "w", 256 * MIB, NULL), 0);
	for (n = 1; killed(t, n, "group", "name=g", "of=v", "of=w"); n++) {
		if (n % 2)
			assert_int_equal(group(t, "g"), 0);
		assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
		only(t, 4);
	}
	assert_true(n > 3);
	for (n = 1; killed(t, n, "ungroup", "name=g", NULL, NULL); n++) {
		assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
		only(t, 4);
		assert_int_equal(group(t, "g"), 0);
	}
	assert_true(n > 4);
	only(t, 4);
}

static void a_clone_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct test *t = *state;
	unsigned n;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	write_split(t, "v", 1, 3);
	for (n = 1; killed(t, n, "create", "name=c", "volume=v", NULL); n++) {
		if (n % 2) {
			assert_int_equal(
				make_from(t, VOLUME_SOURCE_VOLUME, "v", "c", 0),
				0);
			assert_int_equal(content(t, "c", 1), 3);
			only(t, 4);
		}
		assert_int_equal(volume_delete(t->volumes, "c", NULL), 0);
		only(t, 2);
	}
	assert_true(n > 5);
	only(t, 4);
}

static void a_revert_killed_at_every_step_is_finished(void **state)
{
	struct test *t = *state;
	unsigned n;

	assert_int_equal(make(t, "v", 256 * MIB, NULL), 0);
	write_split(t, "v", 0, 1);
	write_split(t, "v", 1, 2);
	assert_int_equal(snapshot(t, "s", "v"), 0);
	for (n = 1; killed(t, n, "revert", "name=v", "from=s", NULL); n++) {
		assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), 0);
		assert_int_equal(content(t, "v", 0), 1);
		assert_int_equal(content(t, "v", 1), 2);
		write_split(t, "v", 0, 10 + n);
		write_split(t, "v", 1, 20 + n);
	}
	assert_true(n > 3);
	assert_int_equal(content(t, "v", 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_snapshot_is_one_instant_of_all_nodes),
		TEST(a_hold_that_lapsed_is_cut_again_and_at_last_refused),
		TEST(what_fails_leaves_nothing_held_and_nothing_made),
		TEST(a_snapshot_of_another_volume_keeps_its_name),
		TEST(a_snapshot_outlives_its_volume_and_is_restored_larger),
		TEST(a_source_that_does_not_do_is_refused),
		TEST(a_clone_leaves_no_snapshot),
		TEST(copying_is_followed_until_it_is_ready),
		TEST(a_volume_is_reverted_whole),
		TEST(a_group_is_one_instant_and_goes_as_one),
		TEST(a_group_that_fails_leaves_none_of_its_members),
		TEST(limits_are_divided_and_all_or_nothing),
		TEST(ranges_are_of_a_volume_of_one_extent),
		TEST(ranges_that_make_no_sense_are_refused),
		TEST(a_snapshot_killed_at_every_step_is_made_or_forgotten),
		TEST(a_group_killed_at_every_step_is_made_or_forgotten),
		TEST(a_clone_killed_at_every_step_is_made_or_forgotten),
		TEST(a_revert_killed_at_every_step_is_finished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
