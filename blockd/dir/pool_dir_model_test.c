/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dir pool against a model in memory, as blockd/raw/pool_raw_model_test.c
 * does it with a raw pool; now and then there is no room above its floor. Below
 * $TMPDIR, else in memory: tests/system/pool_dir.sh runs it on several file
 * systems, one of them with reflinks.
 *
 * SEED=N is the first seed, SEEDS=N how many follow each other, STEPS=N how
 * long each run is.
 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "blockd/testkit/model_kit.h"

/* More than any file system has. */
#define EVERYTHING (UINT64_C(1) << 60)

/* One in eight times there is no room for the next twenty steps. */
static void set_floor(struct run *run)
{
	if (run->step % 20 == 0)
		run->pool->ops->keep_free(run->pool,
					  model_below(run, 8) ? 0 : EVERYTHING);
}

static void does_as_a_model_says(void **unused)
{
	(void)unused;
	model_seeds_run(&(struct model_seeds){
		.kind = &model_dir, .steps = 1000, .before = set_floor});
}

/* At the floor a write has no room, and the extent lives on. */
static void is_full_at_its_floor_until_there_is_room(void **unused)
{
	static struct run run;
	struct object *thin, *thick;

	(void)unused;
	model_run_begin(&run, &model_dir, 1);
	thin = model_extent_make(&run, false);
	thick = model_extent_make(&run, true);
	model_write_at(&run, thin, WRITE, 0, 64, BLOCKDEV_FUA);
	run.pool->ops->keep_free(run.pool, EVERYTHING);
	assert_int_equal(run.full, 0);
	model_write_at(&run, thin, WRITE, 32, 64, 0); /* half is there */
	assert_int_equal(run.full, 1);
	model_write_at(&run, thin, ZERO, 128, 8, BLOCKDEV_NO_HOLE);
	assert_int_equal(run.full, 2);
	/*
	 * Writes to allocated blocks succeed, and so do requests that free
	 * some.
	 */
	model_write_at(&run, thin, WRITE, 0, 64, 0);
	model_write_at(&run, thin, WRITE, 5, 1, BLOCKDEV_FUA);
	model_write_at(&run, thin, ZERO, 60, 8, 0);
	model_write_at(&run, thin, DISCARD, 0, 16, 0);
	assert_int_equal(run.full, 2);
	model_check_all(&run, thin, false);
	/* There is room again. */
	run.pool->ops->keep_free(run.pool, 0);
	model_write_at(&run, thin, WRITE, 0, 256, 0);
	model_write_at(&run, thick, WRITE, 0, 256, 0);
	assert_int_equal(run.full, 2);
	model_check_all(&run, thin, false);
	model_run_end(&run);
}

/* What a snapshot has, too, must not be overwritten at the floor. */
static void shares_nothing_away_at_its_floor(void **unused)
{
	static struct run run;
	struct object *object;

	(void)unused;
	model_run_begin(&run, &model_dir, 1);
	if (run.pool->ops->copy_method(run.pool) != POOL_COPY_REFLINK) {
		model_run_end(&run);
		skip();
	}
	object = model_extent_make(&run, false);
	model_write_at(&run, object, WRITE, 0, 64, 0);
	while (!run.groups)
		model_snapshot(&run);
	run.pool->ops->keep_free(run.pool, EVERYTHING);
	model_write_at(&run, object, WRITE, 3, 2, 0);
	assert_int_equal(run.full, 1);
	run.pool->ops->keep_free(run.pool, 0);
	model_write_at(&run, object, WRITE, 3, 2, 0);
	assert_int_equal(run.full, 1);
	model_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(does_as_a_model_says),
		cmocka_unit_test(is_full_at_its_floor_until_there_is_room),
		cmocka_unit_test(shares_nothing_away_at_its_floor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
