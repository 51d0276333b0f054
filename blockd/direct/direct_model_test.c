/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of blockd/raw/pool_raw_model_test.c, of extents that have devices
 * with direct runs: requests go straight to the medium where a table says so.
 * Devices come and go, tables are loaded, calls of the loader fail, and a kill
 * comes at any of its steps. Another thread freezes, resumes and loads at any
 * moment. There, and after each step, the invariant of blockd/direct/direct.h
 * is checked.
 *
 * SEED=N is the first seed, SEEDS=N how many follow each other, STEPS=N how
 * long each run is.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "blockd/testkit/direct_kit.h"

static struct direct_kit kit;
static uint64_t adopted;
static uint64_t refused, slow_zeroes; /* before the step */

/* ---- the other thread ---- */

static struct {
	pthread_t thread;
	pthread_mutex_t lock; /* guards the list of devices, and that a pool is
			       * open */
	bool runs;            /* of the test's thread */
	_Atomic bool stop;
	unsigned random;
	_Atomic unsigned holds;
} other = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned other_below(unsigned n)
{
	other.random = other.random * 1103515245 + 12345;
	return (other.random >> 8) % n;
}

/* Lock held. 0: there is none. */
static uint32_t any_device(void)
{
	struct direct_kit_device *device;
	uint32_t id = 0;

	LIST_FOREACH (device, &kit.devices, in_kit)
		if (!id || other_below(3) == 0)
			id = device->object_id;
	return id;
}

static void disturb(struct run *run)
{
	struct direct *direct = pool_raw_of(run->pool)->direct;
	const uint32_t id = any_device();
	struct error err = {.code = 0};

	if (!id)
		return;
	/* An error is of the device, which the test has fail. */
	if (other_below(2) &&
	    (other_below(2) ? direct_kit_freeze : direct_hold)(direct, id,
							       &err) == 0) {
		other.holds++;
		(void)usleep(other_below(300));
		(void)direct_release(direct, id);
	}
	(void)direct_refresh(direct, id, &err);
}

static void check_invariant(struct run *run)
{
	const char *wrong = direct_kit_wrong(&kit, run);

	if (wrong)
		fail_msg("seed %u, step %u: %s", run->seed, run->step, wrong);
}

static void *disturb_all_the_time(void *context)
{
	struct run *run = context;

	while (!other.stop) {
		(void)pthread_mutex_lock(&other.lock);
		if (!other.stop) {
			disturb(run);
			if (other_below(4) == 0)
				check_invariant(run);
		}
		(void)pthread_mutex_unlock(&other.lock);
		(void)usleep(other_below(500));
	}
	return NULL;
}

/* ---- the model ---- */

static void kind_make(struct run *run)
{
	model_raw.make(run);
	direct_kit_init(&kit, run->path);
	adopted = 0;
}

static int kind_open(struct run *run)
{
	struct direct_kit_device *device;

	kit.dead = false;
	kit.fails_in = 0;
	LIST_FOREACH (device, &kit.devices, in_kit)
		adopted += device->live.n && !device->suspended;
	return model_raw.open(run);
}

static void kind_verify(struct run *run)
{
	model_raw.verify(run);
	check_invariant(run);
	/* The first time, there was no other thread to be kept away. */
	if (other.runs) {
		(void)pthread_mutex_unlock(&other.lock);
		return;
	}
	other.runs = true;
	other.random = run->seed;
	other.stop = false;
	other.holds = 0;
	assert_int_equal(
		pthread_create(&other.thread, NULL, disturb_all_the_time, run),
		0);
}

static void kind_closing(struct run *run)
{
	(void)run;
	(void)pthread_mutex_lock(&other.lock);
}

/* No call of the loader has an effect any more, so that it ends here. */
static void kind_kill(struct run *run)
{
	kit.dead = true;
	model_raw.kill(run);
}

static void kind_remove(struct run *run)
{
	other.stop = true;
	(void)pthread_mutex_unlock(&other.lock);
	assert_int_equal(pthread_join(other.thread, NULL), 0);
	other.runs = false;
	direct_kit_done(&kit);
	model_raw.remove(run);
}

static const struct model_kind model_direct = {
	.exact = true,
	.make = kind_make,
	.open = kind_open,
	.verify = kind_verify,
	.closing = kind_closing,
	.kill = kind_kill,
	.remove = kind_remove,
};

static void refresh(struct run *run, struct object *object)
{
	struct direct *direct = pool_raw_of(run->pool)->direct;
	uint32_t id = pool_raw_find(pool_raw_of(run->pool), object->record.name,
				    NULL);
	bool may_fail = model_below(run, 4) == 0;
	int r;

	if (may_fail)
		kit.fails_in = 1 + model_below(run, 4);
	r = direct_refresh(direct, id, &run->err);
	CHECK(run, r == 0 || may_fail);
	kit.fails_in = 0;
	/* A device that was left suspended would have the next request wait. */
	if (r < 0)
		MUST(run, direct_refresh(direct, id, &run->err));
}

/* Devices of extents that are gone, and that the pool has given up. */
static void remove_devices(struct run *run)
{
	struct direct *direct = pool_raw_of(run->pool)->direct;
	struct direct_kit_device *device = LIST_FIRST(&kit.devices), *next;

	for (; device; device = next) {
		bool there = false;

		next = LIST_NEXT(device, in_kit);
		for (size_t i = 0; i < OBJECTS; i++)
			there = there || strcmp(run->objects[i].record.id,
						device->extent_id) == 0;
		/* Some were deleted in part only: the next load does the rest.
		 */
		if (!there && !direct_has(direct, device->object_id) &&
		    !device->live.n && !device->waits)
			direct_kit_remove(device);
	}
}

/* Lock held. */
static void change_devices(struct run *run)
{
	struct object *object = model_any(run, true);
	struct direct_kit_device *device;

	remove_devices(run);
	if (!object)
		return;
	device = direct_kit_find(&kit, object);
	if (!device && model_below(run, 2))
		(void)direct_kit_attach(&kit, run, object);
	else if (device && model_below(run, 20) == 0)
		direct_kit_detach(device, run, object);
	else if (device && model_below(run, 2))
		refresh(run, object);
}

static uint64_t refused_now(struct run *run)
{
	return direct_count(pool_raw_of(run->pool)->direct, 0).refused;
}

static void before(struct run *run)
{
	(void)pthread_mutex_lock(&other.lock);
	change_devices(run);
	(void)pthread_mutex_unlock(&other.lock);
	refused = refused_now(run);
	slow_zeroes = kit.slow_zeroes;
}

/*
 * A request that gives clusters up may come while a table with them is being
 * loaded: it is refused, once. No other change is. A pool that was opened in
 * this step counts from 0.
 */
static void check_refused(struct run *run)
{
	uint64_t now = refused_now(run);

	CHECK(run,
	      now <= refused || now - refused <= kit.slow_zeroes - slow_zeroes);
}

static void after(struct run *run)
{
	check_refused(run);
	check_invariant(run);
	model_check_sharing(run);
}

static bool met(const struct run *run)
{
	print_message("%lu direct writes, %lu tables taken over\n",
		      (unsigned long)kit.direct_writes, (unsigned long)adopted);
	return run->shared && kit.direct_writes && kit.direct_reads &&
	       adopted && other.holds;
}

static void does_as_a_model_says(void **unused)
{
	(void)unused;
	model_seeds_run(&(struct model_seeds){.kind = &model_direct,
					      .steps = 2000,
					      .before = before,
					      .after = after,
					      .met = met});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(does_as_a_model_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
