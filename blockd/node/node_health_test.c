/* SPDX-License-Identifier: Apache-2.0 */
/* A pool whose tries return the results that the test wants. */
#include "blockd/node/node_health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/node_watch.h"
#include "blockd/testkit/node_kit.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t go;
	int result;
	bool hangs;
	unsigned tries;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER};

static const struct pool_ops *real;
static struct pool_ops ops;

static int fake_try(struct pool *pool, struct error *err)
{
	int r;

	pthread_mutex_lock(&fake.lock);
	fake.tries++;
	while (fake.hangs)
		pthread_cond_wait(&fake.go, &fake.lock);
	r = fake.result;
	pthread_mutex_unlock(&fake.lock);
	if (r == 0)
		r = real->try(pool, err);
	else
		(void)error_set(err, -r, "so it is: %s", strerror(-r));
	return r;
}

static void medium(int result, bool hangs)
{
	pthread_mutex_lock(&fake.lock);
	fake.result = result;
	fake.hangs = hangs;
	pthread_cond_broadcast(&fake.go);
	pthread_mutex_unlock(&fake.lock);
}

static unsigned tries(void)
{
	unsigned n;

	pthread_mutex_lock(&fake.lock);
	n = fake.tries;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

static struct node_pool *pool_of(struct kit *k, const char *name)
{
	struct node_pool *pool;

	pthread_mutex_lock(&k->node->tables);
	pool = node_find_pool(k->node, name);
	pthread_mutex_unlock(&k->node->tables);
	assert_non_null(pool);
	return pool;
}

static int setup(void **state)
{
	struct kit *k;

	(void)node_kit_setup(state);
	k = *state;
	medium(0, false);
	fake.tries = 0;
	real = pool_of(k, "a")->pool->ops;
	ops = *real;
	ops.try = fake_try;
	pool_of(k, "a")->pool->ops = &ops;
	return 0;
}

static int teardown(void **state)
{
	struct kit *k = *state;

	medium(0, false);
	node_watch_stop(k->node);
	return node_kit_teardown(state);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A try that is under way has ended, or hangs. */
static bool settled(struct kit *k, struct node_pool *pool)
{
	bool is;

	pthread_mutex_lock(&k->node->pools);
	pthread_mutex_lock(&fake.lock);
	is = !pool->health.trial || fake.hangs;
	pthread_mutex_unlock(&fake.lock);
	pthread_mutex_unlock(&k->node->pools);
	return is;
}

/* Time goes by, for what was found, and what is under way. */
static void pass(struct kit *k, int64_t ms)
{
	struct node_health *h = &pool_of(k, "a")->health;

	pthread_mutex_lock(&k->node->pools);
	h->tried_ms -= ms;
	h->begun_ms -= ms;
	pthread_mutex_unlock(&k->node->pools);
}

/* As somebody who asks. On a busy machine a try takes longer than that. */
static struct node_pool_info ask(struct kit *k)
{
	struct node_pool *pool = pool_of(k, "a");
	struct node_pool_info info;

	pass(k, 2000);
	info = node_kit_info(k, "a");
	while (!settled(k, pool)) {
		(void)usleep(1000);
		info = node_kit_info(k, "a");
	}
	return info;
}

static void check_refused(struct kit *k, const char *state)
{
	struct node_pool_info info = ask(k);
	struct extent *extent = node_kit_find(k, "x");
	struct error err = {0};
	char chosen[POOL_NAME_SIZE];

	assert_string_equal(node_pool_state_name(info.state), state);
	assert_true(info.served);
	assert_true(info.space.available == 0 && info.space.room == 0);
	assert_int_equal(info.extents, 1);
	assert_int_equal(node_kit_create(k, "y", MIB, &err), -ENODEV);
	assert_non_null(strstr(err.msg, state));
	assert_non_null(strstr(err.msg, info.message));
	assert_int_equal(extent_resize(extent, 2 * MIB, &err), -ENODEV);
	assert_non_null(strstr(err.msg, state));
	assert_int_equal(node_choose_pool(k->node, chosen, &err), -ENOENT);
	extent_unref(extent);
}

static void check_well(struct kit *k)
{
	assert_int_equal(ask(k).state, NODE_POOL_ONLINE);
	assert_string_equal(ask(k).message, "");
	assert_true(ask(k).space.available > 0);
	assert_int_equal(node_kit_create(k, "y", MIB, NULL), 0);
	assert_int_equal(extent_delete(k->node, "y", NULL, NULL), 0);
}

static void takes_nothing_while_its_medium_fails(void **state)
{
	static const struct {
		int error;
		const char *state;
	} cases[] = {
		{EIO, "failing"},     {EROFS, "read-only"},
		{ENXIO, "failing"},   {ENOMEDIUM, "failing"},
		{ESTALE, "failing"},  {EREMOTEIO, "failing"},
		{EUCLEAN, "failing"}, {ETIMEDOUT, "failing"},
		{EPERM, "failing"},   {ENOTCONN, "failing"},
	};
	struct kit *k = *state;

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	for (size_t i = 0; i < array_size(cases); i++) {
		medium(-cases[i].error, false);
		check_refused(k, cases[i].state);
		medium(0, false);
		check_well(k);
	}
}

static void is_there_for_who_asks_while_a_disk_hangs(void **state)
{
	struct kit *k = *state;
	struct node_pool *pool = pool_of(k, "a");

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(ask(k).state, NODE_POOL_ONLINE);
	medium(0, true);
	assert_int_equal(ask(k).state, NODE_POOL_ONLINE); /* not so fast */
	assert_true(atomic_load(&pool->health.silent));
	pass(k, NODE_HEALTH_HANG_MS);
	check_refused(k, "failing");
	assert_non_null(strstr(node_kit_info(k, "a").message, "answer"));
	medium(0, false);
	check_well(k);
}

static void is_closed_when_its_medium_is_gone_and_opened_when_it_is_back(
	void **state)
{
	struct kit *k = *state;
	char incarnation[UUID_TEXT_SIZE], away[160];

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	memcpy(incarnation, ask(k).record.incarnation, sizeof(incarnation));
	(void)snprintf(away, sizeof(away), "%s", node_kit_at(k, "away"));
	assert_int_equal(rename(node_kit_at(k, "a"), away), 0);
	assert_int_equal(mkdir(node_kit_at(k, "a"), 0755), 0);
	assert_int_equal(ask(k).state, NODE_POOL_MISSING);
	assert_false(node_kit_info(k, "a").served);
	assert_null(node_kit_find(k, "x"));
	assert_int_equal(rmdir(node_kit_at(k, "a")), 0);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_MISSING);
	assert_int_equal(rename(away, node_kit_at(k, "a")), 0);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_ONLINE);
	assert_int_equal(node_kit_info(k, "a").extents, 1);
	/*
	 * Writes that were not flushed may be gone: a new incarnation tells the
	 * clients.
	 */
	assert_string_not_equal(node_kit_info(k, "a").record.incarnation,
				incarnation);
}

/* What failed at one place: tried once, then less and less often. */
static void tries_a_pool_that_is_well_after_all_less_and_less(void **state)
{
	struct kit *k = *state;
	struct node_pool *pool = pool_of(k, "a");
	const int64_t begun_ms = clock_ms();
	unsigned most;

	assert_int_equal(node_watch_start(k->node, NULL), 0);
	while (clock_ms() - begun_ms < 2500) {
		node_medium_failed(pool);
		(void)usleep(1000);
	}
	/* At 0, 1 and 3 s; on a busy machine the 2.5 s may have been more. */
	most = 1;
	for (int64_t at = 1000, step = 1000; at <= clock_ms() - begun_ms;
	     at += step)
		most++, step *= 2;
	assert_in_range(tries(), 1, most + 1);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_ONLINE);
}

/* Nobody asks. */
static void finds_out_by_itself_that_a_pool_is_well_again(void **state)
{
	struct kit *k = *state;
	struct node_pool *pool = pool_of(k, "a");
	enum node_pool_state now = NODE_POOL_ONLINE;
	char why[ERROR_TEXT_MAX];

	assert_int_equal(node_watch_start(k->node, NULL), 0);
	medium(-EIO, false);
	node_medium_failed(pool);
	while (now != NODE_POOL_FAILING)
		now = node_pool_of(k->node, pool, why);
	assert_non_null(strstr(why, "so it is"));
	medium(0, false);
	while (now != NODE_POOL_ONLINE)
		now = node_pool_of(k->node, pool, why);
	assert_string_equal(why, "");
}

/* Results of calls and devices are looked at. */
static void is_told_of_what_fails(void **state)
{
	struct kit *k = *state;
	struct node_pool *pool = pool_of(k, "a");
	struct error err = {0};

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(ask(k).state, NODE_POOL_ONLINE);
	assert_false(atomic_load(&pool->health.suspect));
	/* A request that can't be is not the medium's fault. */
	assert_int_equal(node_kit_create(k, "x", 2 * MIB, &err), -EEXIST);
	assert_false(atomic_load(&pool->health.suspect));
	assert_int_equal(unlink(node_kit_at(k, "a/extents/x.extent")), 0);
	assert_int_equal(extent_delete(k->node, "x", NULL, &err), -ENOENT);
	assert_true(atomic_load(&pool->health.suspect));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(takes_nothing_while_its_medium_fails),
		TEST(is_there_for_who_asks_while_a_disk_hangs),
		TEST(is_closed_when_its_medium_is_gone_and_opened_when_it_is_back),
		TEST(tries_a_pool_that_is_well_after_all_less_and_less),
		TEST(finds_out_by_itself_that_a_pool_is_well_again),
		TEST(is_told_of_what_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
