/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a cluster whose API server fails, or is slow, or is not there.
 */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* As the record says, and what was left behind hides no later status. */
static void stays_whole(struct store *store, struct volume_record *record)
{
	struct volume_record *read = scene_read(store, record->name);

	scene_same(record, read);
	volume_record_free(read);
	test_server_faults(&scene.server, "");
	record->epoch++;
	assert_int_equal(scene_swap(store, record, NULL), 0);
	read = scene_read(store, record->name);
	scene_same(record, read);
	volume_record_free(read);
}

/* The crash is a server that does not take the later requests. */
static void a_crash_between_its_writes_leaves_a_record_whole(void **state)
{
	static const char *const creates[] = {
		"PUT /status 2 cut\n",
		"PUT /status 2 cut-after\n",
		"PUT /v$ 2 cut\n",
	};
	struct store *store = scene_open();

	(void)state;
	for (size_t i = 0; i < array_size(creates); i++) {
		struct volume_record *record = scene_volume("v", "n1");

		test_server_faults(&scene.server, creates[i]);
		assert_int_equal(scene_create(store, record, NULL), 0);
		stays_whole(store, record);
		/* Now with a change of both parts; the last leaves nothing. */
		test_server_faults(&scene.server, i < 2 ? creates[i] : "");
		record->spec.capacity += 4096;
		record->splits[0].size += 4096;
		assert_int_equal(scene_swap(store, record, NULL), 0);
		stays_whole(store, record);
		assert_int_equal(scene_delete(store, "v"), 0);
		assert_int_equal(scene_delete(store, "v"), -ENOENT);
		volume_record_free(record);
	}
	store_close(store);
}

static void a_crash_in_a_remove_is_finished_by_the_next(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	/* Twice: curl sends again what a kept connection did not take. */
	test_server_faults(&scene.server, "PUT /v$ 2 cut\n");
	assert_int_equal(scene_delete(store, "v"), -EHOSTUNREACH);
	volume_record_free(scene_read(store, "v")); /* it is still there */
	assert_int_equal(scene_delete(store, "v"), 0);
	assert_int_equal(scene_delete(store, "v"), -ENOENT);
	assert_int_equal(scene_create(store, record, NULL), 0);
	volume_record_free(record);
	store_close(store);
}

static void a_create_whose_answer_was_lost_succeeds_when_repeated(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");
	struct volume_record *other = scene_volume("v", "n1");

	(void)state;
	test_server_faults(&scene.server, "POST . 1 cut-after\n");
	assert_int_equal(scene_create(store, record, NULL), 0);
	/* But not another's of that name. */
	assert_int_equal(scene_create(store, other, NULL), -EEXIST);
	volume_record_free(record);
	volume_record_free(other);
	store_close(store);
}

static void a_write_that_may_have_been_done_says_so(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");
	struct error err = {0};

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	test_server_faults(&scene.server, "PUT . 1 half\n");
	record->epoch = 9;
	assert_int_equal(scene_swap(store, record, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "may have been done"));
	volume_record_free(record);
	record = scene_read(store, "v");
	assert_int_equal(record->epoch, 9);
	volume_record_free(record);
	store_close(store);
}

static void a_conflict_is_stale(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	test_server_faults(&scene.server, "PUT . 1 status 409\n");
	record->epoch = 9;
	assert_int_equal(scene_swap(store, record, NULL), -ESTALE);
	assert_int_equal(scene_swap(store, record, NULL), 0);
	volume_record_free(record);
	store_close(store);
}

static void a_server_that_says_slow_down_is_obeyed(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");
	int64_t start_ms;

	(void)state;
	test_server_faults(&scene.server, "POST . 1 status 429 1\n");
	start_ms = clock_ms();
	assert_int_equal(scene_create(store, record, NULL), 0);
	assert_true(clock_ms() - start_ms >= 1000);
	/* Longer than we can wait. */
	test_server_faults(&scene.server, "GET . 9 status 429 100\n");
	start_ms = clock_ms();
	{
		struct store_object object;
		struct error err = {0};

		assert_int_equal(store->ops->get(store, RECORD_KIND_VOLUME, "v",
						 &object, &err),
				 -EHOSTUNREACH);
		assert_non_null(strstr(err.msg, "overloaded"));
		/* What a server says is shown, but not as it is. */
		assert_non_null(strstr(err.msg, "made to fail"));
		assert_null(strchr(err.msg, '\x1b'));
	}
	assert_true(clock_ms() - start_ms < 60000);
	volume_record_free(record);
	store_close(store);
}

static void reading_survives_a_server_that_stumbles(void **state)
{
	static const char *const faults[] = {
		"GET . 2 status 500\n", "GET . 2 status 503\n", "GET . 2 cut\n",
		"GET . 2 half\n",       "GET . 1 slow 0.5\n",
	};
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1"), *read;

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	for (size_t i = 0; i < array_size(faults); i++) {
		test_server_faults(&scene.server, faults[i]);
		read = scene_read(store, "v");
		scene_same(record, read);
		volume_record_free(read);
	}
	volume_record_free(record);
	store_close(store);
}

static void nonsense_is_no_answer(void **state)
{
	struct store *store = scene_open();
	struct store_object object;
	struct error err = {0};

	(void)state;
	test_server_faults(&scene.server, "GET . 1 garbage\n");
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EPROTO);
	test_server_faults(&scene.server, "GET . 1 big\n");
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EMSGSIZE);
	store_close(store);
}

static void volumes_make(struct store *store, unsigned n)
{
	char name[16];

	for (unsigned i = 0; i < n; i++) {
		struct volume_record *record;

		(void)snprintf(name, sizeof(name), "v%05u", i);
		record = scene_volume(name, "n1");
		assert_int_equal(scene_create(store, record, NULL), 0);
		volume_record_free(record);
	}
}

static int count_object(void *n_, const struct store_object *object,
			struct error *err)
{
	size_t *n = n_;
	char name[RECORD_NAME_SIZE];

	(void)err;
	(void)snprintf(name, sizeof(name), "v%05zu", *n);
	assert_string_equal(object->name, name);
	++*n;
	return 0;
}

/* Walk through all; return the result, and require @pages of @limit. */
static int walked(struct store *store, const char *faults, const char *limit,
		  int pages)
{
	size_t n = 0;
	int r;

	(void)test_server_count(&scene.server, "", "");
	test_server_faults(&scene.server, faults);
	r = store_walk(store, RECORD_KIND_VOLUME, NULL, count_object, &n, NULL);
	assert_true(r < 0 || n == 1020);
	assert_int_equal(test_server_count(&scene.server, "GET", limit), pages);
	return r;
}

static void a_long_list_comes_in_pages(void **state)
{
	struct store *store = scene_open();

	(void)state;
	volumes_make(store, 1020);
	assert_int_equal(walked(store, "", "limit=500", 3), 0);
	/*
	 * A list that got too old between the pages begins again: the pages
	 * read before once more, of which nothing is told twice.
	 */
	assert_int_equal(
		walked(store, "GET continue= 1 status 410\n", "limit=500", 5),
		0);
	/* Pages larger than we take become smaller. */
	assert_int_equal(walked(store, "GET limit=500 1 big\n", "limit=62", 1),
			 0);
	assert_int_equal(
		walked(store, "GET continue= 99 status 410\n", "limit=500", 10),
		-EHOSTUNREACH);
	store_close(store);
}

static void a_server_that_is_down_is_unreachable_and_comes_back(void **state)
{
	struct store *store = scene_open();
	struct store_object object;
	struct error err = {0};
	int64_t start_ms = clock_ms();

	(void)state;
	test_server_stop(&scene.server);
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EHOSTUNREACH);
	assert_int_equal(store->ops->create(store, RECORD_KIND_VOLUME, "v",
					    "{}", NULL, &err),
			 -EINVAL); /* looked at first */
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", &err),
			 -EHOSTUNREACH);
	assert_true(clock_ms() - start_ms < 39000);
	assert_null(strstr(err.msg, TEST_TOKEN));
	store_close(store);
}

static void *give_back(void *store_)
{
	struct store *store = store_;

	store->ops->release(store, RECORD_KIND_VOLUME, "v");
	return NULL;
}

static void a_lease_that_is_slow_to_be_given_back_keeps_nobody_out(void **state)
{
	struct store *store = scene_open();
	pthread_t thread;

	(void)state;
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	test_server_faults(&scene.server, "DELETE leases 1 slow 2\n");
	(void)test_server_count(&scene.server, "DELETE", "leases");
	assert_int_equal(pthread_create(&thread, NULL, give_back, store), 0);
	scene_wait(test_server_count(&scene.server, "DELETE", "leases") > 0);
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing again", NULL),
			 0);
	(void)pthread_join(thread, NULL);
	assert_int_equal(
		store->ops->holds(store, RECORD_KIND_VOLUME, "v", NULL), 0);
	give_back(store);
	store_close(store);
}

/* Leases are renewed side by side, each as its time comes. */
static void a_lease_that_cannot_be_renewed_keeps_no_other_from_it(void **state)
{
	static const char *const names[] = {"bad-1", "bad-2", "bad-3", "good",
					    "bad-4", "bad-5", "bad-6"};
	struct store *store = scene_open();
	int64_t start_ms;

	(void)state;
	for (size_t i = 0; i < array_size(names); i++)
		assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME,
						   names[i], "testing", NULL),
				 0);
	start_ms = clock_ms();
	test_server_faults(&scene.server, "PUT bad-1 99 status 500\n"
					  "PUT bad-[2345] 99 slow 9\n"
					  "PUT bad-6 99 cut\n");
	scene_wait(test_server_count(&scene.server, "PUT", "split-good") > 0);
	/*
	 * The lease is due after 5 s. Two slow renewals before it, from either
	 * end, take 18.
	 */
	assert_true(clock_ms() - start_ms < 22000);
	assert_int_equal(
		store->ops->holds(store, RECORD_KIND_VOLUME, "good", NULL), 0);
	test_server_faults(&scene.server, "");
	store_close(store);
}

/* Whatever becomes of a request, the process keeps no lease that it lost. */
static void a_lease_is_not_stuck_after_a_fault(void **state)
{
	static const char *const faults[] = {
		"POST leases 2 cut\n",         "POST leases 1 cut-after\n",
		"POST leases 1 half\n",        "POST leases 1 status 500\n",
		"POST leases 1 garbage\n",     "DELETE leases 2 cut\n",
		"DELETE leases 1 cut-after\n", "DELETE leases 1 status 409\n",
		"DELETE leases 1 garbage\n",
	};
	struct store *store = scene_open();

	(void)state;
	for (size_t i = 0; i < array_size(faults); i++) {
		test_server_faults(&scene.server, faults[i]);
		if (store->ops->lease(store, RECORD_KIND_VOLUME, "v", "testing",
				      NULL) == 0)
			give_back(store);
		test_server_faults(&scene.server, "");
		assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME,
						   "v", "testing", NULL),
				 0);
		give_back(store);
	}
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(a_crash_between_its_writes_leaves_a_record_whole),
		SCENE_TEST(a_crash_in_a_remove_is_finished_by_the_next),
		SCENE_TEST(
			a_create_whose_answer_was_lost_succeeds_when_repeated),
		SCENE_TEST(a_write_that_may_have_been_done_says_so),
		SCENE_TEST(a_conflict_is_stale),
		SCENE_TEST(a_server_that_says_slow_down_is_obeyed),
		SCENE_TEST(reading_survives_a_server_that_stumbles),
		SCENE_TEST(nonsense_is_no_answer),
		SCENE_TEST(a_long_list_comes_in_pages),
		SCENE_TEST(
			a_lease_that_is_slow_to_be_given_back_keeps_nobody_out),
		SCENE_TEST(a_lease_is_not_stuck_after_a_fault),
		SCENE_TEST(
			a_lease_that_cannot_be_renewed_keeps_no_other_from_it),
		SCENE_TEST(a_server_that_is_down_is_unreachable_and_comes_back),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
