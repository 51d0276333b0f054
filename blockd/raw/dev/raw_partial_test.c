/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters that are written in part: the other blocks read as zeroes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blockd/testkit/raw_dev_kit.h"

static uint64_t mediums_writes(struct pool *pool, uint32_t from)
{
	const struct raw_super *super = raw_store_super(pool->store);
	uint8_t *data = malloc(CLUSTER);
	uint64_t n = 0;

	assert_non_null(data);
	assert_int_equal(pread(pool->fd, data, CLUSTER,
			       (off_t)(super->data_start + from * CLUSTER)),
			 (ssize_t)CLUSTER);
	for (uint64_t i = 0; i < CLUSTER; i += BLOCK)
		n += data[i] != 0xee;
	free(data);
	return n;
}

static uint32_t entry_of(struct pool *pool, uint32_t id, uint64_t cluster)
{
	struct raw_state *state = raw_store_lock(pool->store);
	uint32_t entry = raw_map_get(&raw_state_object(state, id)->map,
				     cluster);

	raw_store_unlock(pool->store);
	return entry;
}

/* All of the medium's clusters have something in them. */
static void scribble(struct pool *pool)
{
	const struct raw_super *super = raw_store_super(pool->store);
	uint8_t *data = malloc(CLUSTER);

	assert_non_null(data);
	memset(data, 0xee, CLUSTER);
	for (uint32_t i = 0; i < super->clusters; i++) {
		bool used = false;

		for (uint32_t j = 0; j < super->n_checkpoint; j++)
			used = used || super->checkpoint[j] == i;
		if (!used)
			assert_int_equal(pwrite(pool->fd, data, CLUSTER,
						(off_t)(super->data_start +
							i * CLUSTER)),
					 (ssize_t)CLUSTER);
	}
	free(data);
}

static void check_blocks(struct pool *pool, struct blockdev *dev, uint32_t mask)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);

	assert_non_null(data);
	assert_int_equal(
		raw_dev_kit_one(pool, dev, READ, data, CLUSTER, CLUSTER, 0), 0);
	for (uint64_t i = 0; i < CLUSTER; i++)
		assert_int_equal(data[i], mask >> i / BLOCK & 1 ? 7 : 0);
	free(data);
}

static void writes_only_what_is_written(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	const unsigned n = CLUSTER / BLOCK;
	struct blockdev *dev;
	struct pool pool;
	uint32_t entry, mask = 0;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN);
	scribble(&pool);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = (i * 5 + 3) % n;

		assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK,
						 CLUSTER + at * BLOCK,
						 BLOCKDEV_FUA),
				 0);
		mask |= 1u << at;
		check_blocks(&pool, dev, mask);
		entry = entry_of(&pool, 1, 1);
		assert_int_equal(!!(entry & RAW_PARTIAL), i + 1 < n);
		assert_int_equal(mediums_writes(&pool, RAW_PHYSICAL(entry)),
				 i + 1);
		if (i % 4 == 2) { /* so it is when it is opened again */
			raw_dev_kit_dev_close(&pool, 0, dev);
			raw_dev_kit_pool_close(&pool);
			raw_dev_kit_pool_open(&pool);
			dev = raw_dev_kit_dev_open(&pool, 0, 1);
			check_blocks(&pool, dev, mask);
		}
	}
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

static void copies_only_what_is_written(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev, *snapshot;
	struct pool pool;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN);
	scribble(&pool);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, 2 * BLOCK,
					 CLUSTER + 3 * BLOCK, 0),
			 0);
	raw_dev_kit_object_make(&pool, 2, 1);
	snapshot = raw_dev_kit_dev_open(&pool, 0, 2);
	check_blocks(&pool, snapshot, 3u << 3);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK,
					 CLUSTER + 9 * BLOCK, 0),
			 0);
	check_blocks(&pool, snapshot, 3u << 3);
	check_blocks(&pool, dev, 3u << 3 | 1u << 9);
	assert_int_equal(raw_dev_kit_one(&pool, dev, ZERO, NULL, 2 * BLOCK,
					 CLUSTER + 4 * BLOCK, BLOCKDEV_NO_HOLE),
			 0);
	check_blocks(&pool, snapshot, 3u << 3);
	check_blocks(&pool, dev, 1u << 3 | 1u << 9);
	raw_dev_kit_dev_close(&pool, 0, snapshot);
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

static void zeroes_around_it_without_the_feature(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev;
	struct pool pool;
	uint32_t entry;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	raw_dev_kit_pool_make_without(&pool, MEDIUM_MIN, RAW_INCOMPAT_PARTIAL);
	scribble(&pool);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK,
					 CLUSTER + BLOCK, 0),
			 0);
	entry = entry_of(&pool, 1, 1);
	assert_int_equal(entry, RAW_PHYSICAL(entry));
	assert_int_equal(mediums_writes(&pool, entry), CLUSTER / BLOCK);
	check_blocks(&pool, dev, 2);
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_only_what_is_written),
		cmocka_unit_test(copies_only_what_is_written),
		cmocka_unit_test(zeroes_around_it_without_the_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
