/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in a dir pool: tests/system/pool_dir.sh runs this on a file system
 * that has reflinks, and on one that is small.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/testkit/pool_dir_kit.h"

#define BLOCKS (SIZE / BLOCK)

/* ---- copies ---- */

static void a_copy_has_the_content_and_does_not_follow(void **state)
{
	struct pool_dir_kit *k = *state;
	auto_free char *data = NULL;

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', MIB, 2 * MIB);
	pool_dir_kit_put(k, "a", 'z', SIZE - BLOCK, BLOCK);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "b", SIZE, NULL), 0);
	pool_dir_kit_same_content(k, "a", "b");
	assert_in_range(pool_dir_kit_allocated(k, "b"), 2 * MIB,
			2 * MIB + 256 * KIB);
	pool_dir_kit_put(k, "a", 'y', 0, SIZE);
	pool_dir_kit_reopen(k);
	assert_int_equal(k->found, 2);
	assert_int_equal(k->damaged, 0);
	data = pool_dir_kit_content(k, "b", SIZE);
	assert_int_equal(data[0], 0);
	assert_int_equal(data[MIB], 'x');
	assert_int_equal(data[SIZE - 1], 'z');
}

static void a_larger_copy_ends_in_zeroes(void **state)
{
	struct pool_dir_kit *k = *state;
	auto_free char *data = NULL;

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', 0, SIZE);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "b", SIZE + MIB, NULL),
			 0);
	data = pool_dir_kit_content(k, "b", SIZE + MIB);
	assert_int_equal(data[SIZE - 1], 'x');
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(data[SIZE + i], 0);
}

static void a_thick_one_is_allocated(void **state)
{
	struct pool_dir_kit *k = *state;
	struct extent_record record = pool_dir_kit_record_of(k, "a", SIZE);

	record.thick = true;
	assert_int_equal(k->pool->ops->create(k->pool, &record, NULL), 0);
	assert_true(pool_dir_kit_allocated(k, "a") >= SIZE);
	record.size = 2 * SIZE;
	assert_int_equal(k->pool->ops->grow(k->pool, &record, NULL), 0);
	assert_true(pool_dir_kit_allocated(k, "a") >= 2 * SIZE);
}

static void a_thick_copy_is_allocated(void **state)
{
	struct pool_dir_kit *k = *state;
	struct extent_record record = pool_dir_kit_record_of(k, "b", 2 * SIZE);
	const struct pool_copy copy = {"a", &record};

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', 0, MIB);
	record.thick = true;
	assert_int_equal(
		k->pool->ops->copy(k->pool, &copy, 1, NULL, NULL, NULL), 0);
	assert_true(pool_dir_kit_allocated(k, "b") >= 2 * SIZE);
	assert_true(pool_dir_kit_allocated(k, "a") < 2 * MIB);
	assert_int_equal(k->pool->ops->revert(k->pool, &record, "a", NULL), 0);
	assert_true(pool_dir_kit_allocated(k, "b") >= 2 * SIZE);
}

static void says_what_is_shared(void **state)
{
	struct pool_dir_kit *k = *state;
	struct extent_usage usage = {0};

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', 0, SIZE);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "b", SIZE, NULL), 0);
	assert_int_equal(k->pool->ops->usage(k->pool, "a", &usage, NULL), 0);
	assert_true(usage.allocated >= SIZE);
	assert_int_equal(usage.shared, pool_dir_kit_reflinks(k) ? SIZE : 0);
	assert_int_equal(usage.reclaimable, usage.allocated - usage.shared);
}

/* Or the pool would seem to have room that nobody has. */
static void counts_what_is_shared_once(void **state)
{
	struct pool_dir_kit *k = *state;
	struct space_medium before = {0}, after = {0};
	const struct pool_ops *ops = k->pool->ops;

	pool_dir_kit_create(k, "a", 16 * MIB);
	pool_dir_kit_put(k, "a", 'x', 0, 16 * MIB);
	assert_int_equal(ops->measure(k->pool, &before, NULL), 0);
	for (int i = 0; i < 4; i++) {
		const char name[] = {'s', (char)('0' + i), '\0'};

		assert_int_equal(
			pool_dir_kit_copy_to(k, "a", name, 16 * MIB, NULL), 0);
	}
	assert_int_equal(ops->measure(k->pool, &after, NULL), 0);
	/* Elsewhere nothing is shared, and others use the medium too. */
	if (pool_dir_kit_reflinks(k))
		assert_true(after.allocated + after.free <=
			    before.allocated + before.free + 48 * MIB);
}

static int stops_late(void *context, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	assert_non_null(context);
	return done > total / 2 ? -ECANCELED : 0;
}

static void of_several_all_or_none_are_there(void **state)
{
	struct pool_dir_kit *k = *state;
	struct error err = {0};

	pool_dir_kit_create_three(k);
	assert_int_equal(pool_dir_kit_copy_three(k, stops_late, &err),
			 -ECANCELED);
	assert_int_equal(pool_dir_kit_files(k), 6);
	pool_dir_kit_create(k, "c1", MIB);
	assert_int_equal(pool_dir_kit_copy_three(k, NULL, &err), -EEXIST);
	assert_non_null(strstr(error_text(&err), "c1.data"));
	assert_int_equal(pool_dir_kit_files(k), 8);
	assert_int_equal(k->pool->ops->begin_delete(k->pool, "c1", NULL), 0);
	assert_int_equal(k->pool->ops->erase(k->pool, "c1", NULL), 0);
	assert_int_equal(pool_dir_kit_copy_three(k, NULL, NULL), 0);
	assert_int_equal(pool_dir_kit_files(k), 12);
	pool_dir_kit_same_content(k, "b", "b1");
	pool_dir_kit_same_content(k, "c", "c1");
}

static void a_revert_brings_content_and_record(void **state)
{
	struct pool_dir_kit *k = *state;

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', MIB, MIB);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "s", SIZE, NULL), 0);
	pool_dir_kit_put(k, "a", 'y', 0, SIZE);
	assert_int_equal(pool_dir_kit_revert_to(k, "a", "s", SIZE), 0);
	pool_dir_kit_same_content(k, "a", "s");
	/*
	 * The extent has its own content again, and the snapshot does not
	 * follow.
	 */
	pool_dir_kit_put(k, "a", 'z', 0, BLOCK);
	assert_int_equal(pool_dir_kit_files(k), 4);
	assert_int_equal(pool_dir_kit_revert_to(k, "a", "s", SIZE), 0);
	pool_dir_kit_same_content(k, "a", "s");
	pool_dir_kit_reopen(k);
	assert_int_equal(k->found, 2);
	assert_int_equal(k->damaged, 0);
}

/* ---- a full file system ---- */

static void without_room_nothing_is_left(void **state)
{
	struct pool_dir_kit *k = *state;
	struct error err = {0};
	struct statvfs vfs;
	uint64_t size;

	assert_int_equal(statvfs(k->dir, &vfs), 0);
	size = vfs.f_bavail * vfs.f_frsize;
	size = size / 5 / MIB * MIB;
	pool_dir_kit_create(k, "a", size);
	pool_dir_kit_create(k, "b", size);
	pool_dir_kit_put(k, "a", 'x', 0, size);
	pool_dir_kit_put(k, "b", 'x', 0, size);
	pool_dir_kit_create(k, "fill", 2 * size);
	pool_dir_kit_put(k, "fill", 'x', 0, 2 * size);
	{
		struct extent_record records[2] = {
			pool_dir_kit_record_of(k, "a1", size),
			pool_dir_kit_record_of(k, "b1", size)};
		const struct pool_copy copies[2] = {{"a", &records[0]},
						    {"b", &records[1]}};

		assert_int_equal(k->pool->ops->copy(k->pool, copies, 2, NULL,
						    NULL, &err),
				 -ENOSPC);
	}
	assert_int_equal(pool_dir_kit_files(k), 6);
	pool_dir_kit_reopen(k);
	assert_int_equal(k->found, 3);
	assert_int_equal(k->notes, 0);
}

/* ---- ranges ---- */

struct ranges {
	unsigned char told[BLOCKS];
	uint64_t end; /* of the last one */
	unsigned n, stop_after;
};

static int on_range(void *context, uint64_t offset, uint64_t length)
{
	struct ranges *ranges = context;

	assert_true(length > 0);
	assert_true(offset > ranges->end || ranges->n == 0);
	assert_true(offset + length <= SIZE);
	ranges->end = offset + length;
	for (uint64_t at = offset; at < ranges->end; at += BLOCK)
		ranges->told[at / BLOCK] = 1;
	return ++ranges->n == ranges->stop_after ? 7 : 0;
}

static int list(struct pool_dir_kit *k, const char *name, const char *base,
		uint64_t start, struct ranges *ranges)
{
	return k->pool->ops->ranges(k->pool, name, base, start, on_range,
				    ranges, NULL);
}

static void tells_what_is_allocated(void **state)
{
	struct pool_dir_kit *k = *state;
	struct ranges all = {0}, some = {0}, none = {0};

	pool_dir_kit_create(k, "a", SIZE);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "empty", SIZE, NULL), 0);
	pool_dir_kit_put(k, "a", 'x', MIB, MIB);
	pool_dir_kit_put(k, "a", 'x', 3 * MIB, BLOCK);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "s", SIZE, NULL), 0);
	assert_int_equal(list(k, "s", NULL, 0, &all), 0);
	assert_int_equal(all.n, 2);
	for (uint64_t i = 0; i < BLOCKS; i++)
		assert_int_equal(all.told[i],
				 (i >= 256 && i < 512) || i == 768);
	assert_int_equal(list(k, "s", NULL, 2 * MIB, &some), 0);
	assert_int_equal(some.n, 1);
	assert_int_equal(list(k, "empty", NULL, 0, &none), 0);
	assert_int_equal(none.n, 0);
	some = (struct ranges){.stop_after = 1};
	assert_int_equal(list(k, "s", NULL, 0, &some), 7);
}

/* Never left out, and by reflinks nothing else either. */
static void check_differences(struct pool_dir_kit *k, const char *newer,
			      const char *older, uint64_t start,
			      const unsigned char *touched)
{
	auto_free char *a = pool_dir_kit_content(k, newer, SIZE);
	auto_free char *b = pool_dir_kit_content(k, older, SIZE);
	struct ranges ranges = {0};

	assert_int_equal(list(k, newer, older, start, &ranges), 0);
	for (uint64_t i = start / BLOCK; i < BLOCKS; i++) {
		bool differs = memcmp(a + i * BLOCK, b + i * BLOCK, BLOCK) != 0;

		if (differs && !ranges.told[i])
			fail_msg("block %zu differs and is left out",
				 (size_t)i);
		if (ranges.told[i] && !touched[i] && pool_dir_kit_reflinks(k))
			fail_msg("block %zu is told, and is the same",
				 (size_t)i);
	}
}

static void never_leaves_a_difference_out(void **state)
{
	struct pool_dir_kit *k = *state;
	unsigned seed = (unsigned)getpid();
	const char *older = NULL;
	char names[2][8];

	print_message("seed %u\n", seed);
	pool_dir_kit_create(k, "a", SIZE);
	for (unsigned round = 0; round < 8; round++) {
		unsigned char touched[BLOCKS] = {0};
		char *name = names[round % 2];

		for (unsigned i = 0; i < 40; i++) {
			uint64_t at = (uint64_t)rand_r(&seed) % BLOCKS;
			uint64_t n = 1 + (uint64_t)rand_r(&seed) % 16;

			if (at + n > BLOCKS)
				n = BLOCKS - at;
			pool_dir_kit_put(k, "a",
					 (char)(rand_r(&seed) % 3 ? i + 1 : 0),
					 at * BLOCK, n * BLOCK);
			memset(touched + at, 1, n);
		}
		(void)snprintf(name, sizeof(names[0]), "s%u", round);
		assert_int_equal(pool_dir_kit_copy_to(k, "a", name, SIZE, NULL),
				 0);
		if (older) {
			check_differences(k, name, older, 0, touched);
			check_differences(k, name, older, 2 * MIB, touched);
			check_differences(k, older, name, 0, touched);
		}
		older = name;
	}
}

/* ---- what is not ours to undo ---- */

static void touch(struct pool_dir_kit *k, const char *name)
{
	char path[300];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/extents/%s", k->dir, name);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	fd_close(fd);
}

static void a_leftover_beside_a_record_is_left_alone(void **state)
{
	struct pool_dir_kit *k = *state;

	pool_dir_kit_create(k, "a", SIZE);
	touch(k, "a.copying");
	pool_dir_kit_reopen(k);
	assert_int_equal(k->found, 1);
	assert_int_equal(k->notes, 1);
	assert_int_equal(pool_dir_kit_files(k), 3);
	pool_dir_kit_put(k, "a", 'x', 0, BLOCK);
}

static void a_list_that_is_damaged_stops_the_load(void **state)
{
	struct pool_dir_kit *k = *state;
	char path[300];
	struct error err = {0};
	int fd;

	pool_dir_kit_create(k, "a", SIZE);
	touch(k, "a1.copying");
	touch(k, "a1.data");
	(void)snprintf(path, sizeof(path), "%s/extents/a1.copies", k->dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "a1\n../x\n", 8), 8);
	fd_close(fd);
	pool_close(k->pool);
	assert_int_equal(pool_dir_kit_open(k, &err), -EBADMSG);
	assert_non_null(strstr(error_text(&err), "a1.copies"));
	/* Nothing was thrown away: somebody may have been told of it. */
	(void)snprintf(path, sizeof(path), "%s/extents/a1.data", k->dir);
	assert_int_equal(access(path, F_OK), 0);
}

#define T(name)                                                   \
	cmocka_unit_test_setup_teardown(name, pool_dir_kit_setup, \
					pool_dir_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_copy_has_the_content_and_does_not_follow),
		T(a_larger_copy_ends_in_zeroes),
		T(a_thick_one_is_allocated),
		T(a_thick_copy_is_allocated),
		T(says_what_is_shared),
		T(counts_what_is_shared_once),
		T(of_several_all_or_none_are_there),
		T(a_revert_brings_content_and_record),
		T(without_room_nothing_is_left),
		T(tells_what_is_allocated),
		T(never_leaves_a_difference_out),
		T(a_leftover_beside_a_record_is_left_alone),
		T(a_list_that_is_damaged_stops_the_load),
	};

	/* Only on an image without reflinks made for this: it is filled. */
	if (!getenv("SMALL_IMAGE"))
		cmocka_set_skip_filter("without_room_nothing_is_left");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
