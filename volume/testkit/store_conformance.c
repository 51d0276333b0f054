/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/store_conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/uuid_name.h"
#include "volume/op/store_open.h"
#include "volume/record/node.h"

#define KIND       RECORD_KIND_VOLUME
#define OTHER      RECORD_KIND_NODE
#define PROCESSES  4
#define INCREMENTS 25

static struct store *opened(const char *location)
{
	struct store *store = NULL;
	struct error err = {0};

	if (store_open(location, &store, &err) < 0)
		fail_msg("%s", err.msg);
	return store;
}

/* ---- documents: records that hold a number ---- */

/* In its spec and in its status, and a text that is not plain ASCII. */
static char *document(const char *name, uint64_t n)
{
	struct volume_record *record = volume_record_new();
	char *json = NULL;

	assert_non_null(record);
	(void)snprintf(record->name, sizeof(record->name), "%s", name);
	(void)uuid_make(record->uid);
	record->created_s = 1768000000;
	record->spec.capacity = VOLUME_CAPACITY_MIN + n * 4096;
	assert_int_equal(volume_spec_check(&record->spec, NULL), 0);
	assert_int_equal(labels_set(&record->labels, "a b", "c d", NULL), 0);
	record->epoch = n;
	record->splits = calloc(1, sizeof(*record->splits));
	assert_non_null(record->splits);
	record->n_splits = 1;
	record->splits[0].size = record->spec.capacity;
	strcpy(record->splits[0].node, "n");
	strcpy(record->splits[0].pool, "p");
	strcpy(record->splits[0].extent, "e");
	(void)uuid_make(record->splits[0].fs_uuid);
	assert_int_equal(volume_record_condition(record, "Ready", true, "Test",
						 "\xc3\xa9 '\\\""),
			 0);
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	volume_record_free(record);
	return json;
}

static char *other_document(const char *name)
{
	struct node_record node = {.control_address = "unix:/c",
				   .data_address = "h:1"};
	char *json = NULL;

	(void)snprintf(node.name, sizeof(node.name), "%s", name);
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	return json;
}

/* The number in it; -1 when it is not whole. */
static int64_t number_of(const struct store_object *object)
{
	struct volume_record *record;
	int64_t n = -1;

	if (strlen(object->json) != object->length ||
	    volume_record_decode(object->json, object->length, &record, NULL) <
		    0)
		return -1;
	if (strcmp(record->name, object->name) == 0 &&
	    record->spec.capacity ==
		    VOLUME_CAPACITY_MIN + record->epoch * 4096 &&
	    record->n_splits == 1 && record->n_conditions == 1 &&
	    strcmp(record->conditions[0].message, "\xc3\xa9 '\\\"") == 0 &&
	    labels_get(&record->labels, "a b") &&
	    strcmp(labels_get(&record->labels, "a b"), "c d") == 0)
		n = (int64_t)record->epoch;
	volume_record_free(record);
	return n;
}

static int create(struct store *store, const char *name, uint64_t n,
		  char *ret_version)
{
	auto_free char *json = document(name, n);

	return store->ops->create(store, KIND, name, json, ret_version, NULL);
}

static int create_other(struct store *store, const char *name)
{
	auto_free char *json = other_document(name);

	return store->ops->create(store, OTHER, name, json, NULL, NULL);
}

static int swap(struct store *store, const char *name, const char *version,
		uint64_t n, char *ret_version)
{
	auto_free char *json = document(name, n);

	return store->ops->compare_and_swap(store, KIND, name, version, json,
					    ret_version, NULL);
}

static void has_number(struct store *store, const char *name, int64_t want)
{
	struct store_object object;

	assert_int_equal(store->ops->get(store, KIND, name, &object, NULL), 0);
	assert_int_equal(number_of(&object), want);
	store_object_done(&object);
}

/* ---- one process ---- */

static void objects_are_kept_by_name(struct store *store)
{
	const struct store_ops *ops = store->ops;
	struct store_object object;
	char v1[RECORD_VERSION_SIZE];

	assert_int_equal(ops->get(store, KIND, "a", &object, NULL), -ENOENT);
	assert_int_equal(create(store, "a", 1, v1), 0);
	has_number(store, "a", 1);
	assert_int_equal(create(store, "a", 2, NULL), -EEXIST);
	has_number(store, "a", 1);
	assert_int_equal(ops->get(store, KIND, "a", &object, NULL), 0);
	assert_string_equal(object.version, v1);
	store_object_done(&object);
	/* Another kind is another object. */
	assert_int_equal(create_other(store, "a"), 0);
	assert_int_equal(ops->remove(store, OTHER, "a", NULL, NULL), 0);
	has_number(store, "a", 1);
}

static void a_swap_needs_the_version_read(struct store *store)
{
	struct store_object object;
	char v2[RECORD_VERSION_SIZE];

	assert_int_equal(store->ops->get(store, KIND, "a", &object, NULL), 0);
	assert_int_equal(swap(store, "a", object.version, 2, v2), 0);
	assert_string_not_equal(v2, object.version);
	assert_int_equal(swap(store, "a", object.version, 3, NULL), -ESTALE);
	has_number(store, "a", 2);
	assert_int_equal(swap(store, "a", v2, 4, NULL), 0);
	has_number(store, "a", 4);
	assert_int_equal(swap(store, "none", v2, 0, NULL), -ENOENT);
	store_object_done(&object);
}

static void a_removed_object_does_not_come_back(struct store *store)
{
	const struct store_ops *ops = store->ops;
	struct store_object old;

	assert_int_equal(ops->get(store, KIND, "a", &old, NULL), 0);
	assert_int_equal(ops->remove(store, KIND, "a", "no version", NULL),
			 -ESTALE);
	assert_int_equal(ops->remove(store, KIND, "a", old.version, NULL), 0);
	assert_int_equal(ops->remove(store, KIND, "a", NULL, NULL), -ENOENT);
	assert_int_equal(swap(store, "a", old.version, 0, NULL), -ENOENT);
	/* A new one of that name never has an old version. */
	assert_int_equal(create(store, "a", 0, NULL), 0);
	assert_int_equal(swap(store, "a", old.version, 9, NULL), -ESTALE);
	assert_int_equal(ops->remove(store, KIND, "a", NULL, NULL), 0);
	store_object_done(&old);
}

#define LISTED 50 /* objects, "n00" to "n49" */

static char *listed_name(char *ret, int i)
{
	(void)snprintf(ret, RECORD_NAME_SIZE, "n%02d", i);
	return ret;
}

static void listed_make(struct store *store)
{
	char name[RECORD_NAME_SIZE];

	for (int i = LISTED - 1; i >= 0; i--)
		assert_int_equal(
			create(store, listed_name(name, i), (uint64_t)i, NULL),
			0);
}

static int remove_walked(void *store_, const struct store_object *object,
			 struct error *err)
{
	struct store *store = store_;

	return store->ops->remove(store, KIND, object->name, object->version,
				  err);
}

static int is_third(void *count, const struct store_object *object,
		    struct error *err)
{
	(void)object;
	(void)err;
	return ++*(int *)count == 3 ? 7 : 0;
}

static void a_list_is_in_order_and_of_one_kind(struct store *store)
{
	const struct store_ops *ops = store->ops;
	struct record_place place = {0};
	struct store_page page;
	char name[RECORD_NAME_SIZE];
	int count = 0;

	assert_int_equal(ops->list(store, KIND, &place, 100, &page, NULL), 0);
	assert_int_equal(page.count, 0);
	assert_false(page.more);
	store_page_done(&page);
	listed_make(store);
	assert_int_equal(create_other(store, "x"), 0);
	assert_int_equal(ops->list(store, KIND, &place, LISTED, &page, NULL),
			 0);
	assert_int_equal(page.count, LISTED);
	assert_false(page.more);
	for (int i = 0; i < LISTED; i++) {
		assert_string_equal(page.objects[i].name, listed_name(name, i));
		assert_int_equal(number_of(&page.objects[i]), i);
	}
	store_page_done(&page);
	/* The place is behind them; and a walk's is before the one it left. */
	assert_int_equal(ops->list(store, KIND, &place, 1, &page, NULL), 0);
	assert_int_equal(page.count, 0);
	store_page_done(&page);
	place = (struct record_place){0};
	assert_int_equal(
		store_walk(store, KIND, &place, is_third, &count, NULL), 7);
	assert_string_equal(place.after, "n01");
	assert_int_equal(ops->list(store, KIND, &place, 1, &page, NULL), 0);
	assert_int_equal(page.count, 1);
	assert_true(page.more);
	assert_string_equal(page.objects[0].name, "n02");
	store_page_done(&page);
	assert_int_equal(ops->remove(store, OTHER, "x", NULL, NULL), 0);
	assert_int_equal(
		store_walk(store, KIND, NULL, remove_walked, store, NULL), 0);
}

struct pages {
	int seen[LISTED];
	bool removed[LISTED];
	char last[RECORD_NAME_SIZE];
};

static int listed_number(const char *name)
{
	return name[0] == 'n' && strlen(name) == 3 ? atoi(name + 1) : -1;
}

static void listed_remove(struct store *store, struct pages *pages, int i)
{
	char name[RECORD_NAME_SIZE];

	if (i < 0 || i >= LISTED || pages->removed[i])
		return;
	assert_int_equal(store->ops->remove(store, KIND, listed_name(name, i),
					    NULL, NULL),
			 0);
	pages->removed[i] = true;
}

static void page_see(struct pages *pages, const struct store_page *page)
{
	for (size_t i = 0; i < page->count; i++) {
		int number = listed_number(page->objects[i].name);

		assert_true(strcmp(page->objects[i].name, pages->last) > 0);
		(void)strcpy(pages->last, page->objects[i].name);
		if (number >= 0)
			pages->seen[number]++;
	}
}

/*
 * Between two pages, the object that the place names goes, and one that would
 * come; new ones come before and after the place. @mark: what becomes of the
 * store's own note; NULL: it stays.
 */
static void pages_add_up(struct store *store, const char *mark)
{
	struct pages pages = {0};
	struct record_place place = {0};
	bool more = true;

	listed_make(store);
	for (int turn = 0; more; turn++) {
		struct store_page page;
		char name[RECORD_NAME_SIZE];
		int at;

		assert_int_equal(
			store->ops->list(store, KIND, &place, 7, &page, NULL),
			0);
		assert_true(page.count <= 7 && turn < LISTED);
		page_see(&pages, &page);
		more = page.more;
		store_page_done(&page);
		at = listed_number(place.after);
		listed_remove(store, &pages, at);
		listed_remove(store, &pages, at < 0 ? -1 : at + 10);
		(void)snprintf(name, sizeof(name), "a%d", turn);
		assert_int_equal(create(store, name, 0, NULL), 0);
		(void)snprintf(name, sizeof(name), "n%02dnew", 5 * turn);
		assert_int_equal(create(store, name, 0, NULL), 0);
		if (mark)
			(void)strcpy(place.mark, mark);
	}
	for (int i = 0; i < LISTED; i++)
		assert_true(pages.seen[i] == 1 ||
			    (pages.removed[i] && pages.seen[i] == 0));
	assert_int_equal(
		store_walk(store, KIND, NULL, remove_walked, store, NULL), 0);
}

/* -1: it does not beat. */
static int64_t beat_age(struct store *store, const char *name)
{
	struct store_beat *beats = NULL;
	int64_t age_s = -1;
	size_t n = 0;

	assert_int_equal(store->ops->beats(store, &beats, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(beats[i].name, name) == 0)
			age_s = beats[i].age_s;
	}
	free(beats);
	return age_s;
}

static void nodes_beat_until_they_end_it(struct store *store)
{
	const struct store_ops *ops = store->ops;

	assert_int_equal(beat_age(store, "n1"), -1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ops->beat(store, "n1", NULL), 0);
	assert_int_equal(ops->beat(store, "n2", NULL), 0);
	assert_int_equal(ops->beat(store, "n1", NULL), 0);
	assert_in_range(beat_age(store, "n1"), 0, STORE_BEAT_LOST_S / 2);
	assert_in_range(beat_age(store, "n2"), 0, STORE_BEAT_LOST_S / 2);
	assert_int_equal(ops->beat_end(store, "n1", NULL), 0);
	assert_int_equal(ops->beat_end(store, "n1", NULL), 0);
	assert_int_equal(beat_age(store, "n1"), -1);
	assert_in_range(beat_age(store, "n2"), 0, STORE_BEAT_LOST_S / 2);
	assert_int_equal(ops->beat(store, "n1", NULL), 0);
	assert_int_equal(ops->beat_end(store, "n1", NULL), 0);
	assert_int_equal(ops->beat_end(store, "n2", NULL), 0);
	/* A heartbeat is not a lease: others may work on the node. */
	assert_int_equal(ops->lease(store, OTHER, "n1", "testing", NULL), 0);
	assert_int_equal(beat_age(store, "n1"), -1);
	ops->release(store, OTHER, "n1");
}

static void what_is_kept_is_there_after_reopening(const char *location)
{
	struct store *store = opened(location);

	assert_int_equal(create(store, "kept", 7, NULL), 0);
	store_close(store);
	store = opened(location);
	has_number(store, "kept", 7);
	assert_int_equal(store->ops->remove(store, KIND, "kept", NULL, NULL),
			 0);
	store_close(store);
}

/* ---- watching ---- */

static int ends_at_once(void *context, enum store_change change,
			const char *name, const struct store_object *object,
			const char *text)
{
	(void)context;
	(void)change;
	(void)name;
	(void)object;
	(void)text;
	return 7;
}

static void who_watches_is_told_of_each_change(const char *location)
{
	struct store *store = opened(location);
	const struct store_ops *ops = store->ops;
	char v1[RECORD_VERSION_SIZE], v2[RECORD_VERSION_SIZE];
	char v3[RECORD_VERSION_SIZE], words[256];
	struct watching *w;

	assert_int_equal(create(store, "a", 1, v1), 0);
	assert_int_equal(create_other(store, "x"), 0);
	w = watching_start(location);
	(void)snprintf(words, sizeof(words), "a=%s", v1);
	watching_wait(w, words);
	watching_wait_synced(w);
	assert_int_equal(create(store, "b", 2, v2), 0);
	assert_int_equal(swap(store, "a", v1, 3, v3), 0);
	(void)snprintf(words, sizeof(words), "a=%s b=%s", v3, v2);
	watching_wait(w, words);
	assert_int_equal(ops->remove(store, KIND, "a", NULL, NULL), 0);
	(void)snprintf(words, sizeof(words), "b=%s", v2);
	watching_wait(w, words);
	/* Gone and there again is another one. */
	assert_int_equal(ops->remove(store, KIND, "b", NULL, NULL), 0);
	assert_int_equal(create(store, "b", 4, v2), 0);
	(void)snprintf(words, sizeof(words), "b=%s", v2);
	watching_wait(w, words);
	assert_int_equal(ops->remove(store, KIND, "b", NULL, NULL), 0);
	watching_wait(w, "");
	assert_int_equal(watching_cuts(w), 0);
	watching_stop(w);
	assert_int_equal(ops->watch(store, OTHER, -1, ends_at_once, NULL, NULL),
			 7);
	assert_int_equal(ops->remove(store, OTHER, "x", NULL, NULL), 0);
	store_close(store);
}

/* ---- several processes ---- */

/* Add one to the number in "counter", many times, while others do the same. */
static int child_increment(struct store *store)
{
	for (int i = 0; i < INCREMENTS;) {
		struct store_object object;
		int64_t n;
		int r = store->ops->get(store, KIND, "counter", &object, NULL);

		if (r < 0)
			return 1;
		n = number_of(&object);
		if (n < 0)
			return 1;
		r = swap(store, "counter", object.version, (uint64_t)n + 1,
			 NULL);
		store_object_done(&object);
		if (r == 0)
			i++;
		else if (r != -ESTALE)
			return 1;
	}
	return 0;
}

/* Take the lease, say so, keep it until killed. */
static int child_lease(struct store *store)
{
	if (store->ops->lease(store, KIND, "leased", "holding", NULL) < 0)
		return 1;
	if (create(store, "holder", 0, NULL) < 0)
		return 1;
	for (;;)
		(void)pause();
}

int store_conformance_child(int argc, char **argv)
{
	struct store *store;
	int r;

	if (argc != 4 || strcmp(argv[1], "--store-child") != 0)
		return -1;
	if (store_open(argv[3], &store, NULL) < 0)
		return 2;
	r = strcmp(argv[2], "lease") == 0 ? child_lease(store)
					  : child_increment(store);
	store_close(store);
	return r;
}

static pid_t start_child(const char *what, const char *location)
{
	const char *argv[] = {"/proc/self/exe", "--store-child", what, location,
			      NULL};
	char self[PATH_MAX] = "";
	struct error err = {0};
	pid_t pid;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	argv[0] = self;
	if (process_start(argv, STDERR_FILENO, -1, &pid, &err) < 0)
		fail_msg("%s", err.msg);
	return pid;
}

static void writers_in_several_processes_lose_nothing(const char *location)
{
	struct store *store = opened(location);
	pid_t pids[PROCESSES];
	int status;

	assert_int_equal(create(store, "counter", 0, NULL), 0);
	for (int i = 0; i < PROCESSES; i++)
		pids[i] = start_child("increment", location);
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	has_number(store, "counter", PROCESSES * INCREMENTS);
	assert_int_equal(store->ops->remove(store, KIND, "counter", NULL, NULL),
			 0);
	store_close(store);
}

static void a_lease_ends_with_its_owner(const char *location)
{
	struct store *store = opened(location);
	const struct store_ops *ops = store->ops;
	pid_t pid = start_child("lease", location);
	struct store_object object;
	struct error err = {0};
	char pid_text[32];
	int tries = 0;

	while (ops->get(store, KIND, "holder", &object, NULL) < 0) {
		assert_true(tries++ < 4000);
		(void)poll(NULL, 0, 5);
	}
	store_object_done(&object);
	assert_int_equal(ops->lease(store, KIND, "leased", "testing", &err),
			 -EAGAIN);
	assert_int_equal(ops->holds(store, KIND, "leased", NULL), -ESTALE);
	(void)snprintf(pid_text, sizeof(pid_text), "process %d", pid);
	assert_non_null(strstr(err.msg, pid_text));
	assert_non_null(strstr(err.msg, "holding"));
	/* Not ours to give back. */
	ops->release(store, KIND, "leased");
	assert_int_equal(ops->lease(store, KIND, "leased", "testing", NULL),
			 -EAGAIN);

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(ops->lease(store, KIND, "leased", "testing", NULL), 0);
	assert_int_equal(ops->holds(store, KIND, "leased", NULL), 0);
	/* Once in a process, too. */
	assert_int_equal(ops->lease(store, KIND, "leased", "again", NULL),
			 -EAGAIN);
	assert_int_equal(ops->lease(store, KIND, "other", "testing", NULL), 0);
	ops->release(store, KIND, "leased");
	assert_int_equal(ops->lease(store, KIND, "leased", "again", NULL), 0);
	ops->release(store, KIND, "leased");
	assert_int_equal(ops->holds(store, KIND, "leased", NULL), -ESTALE);
	ops->release(store, KIND, "other");
	assert_int_equal(ops->remove(store, KIND, "holder", NULL, NULL), 0);
	store_close(store);
}

/* ---- several threads ---- */

static void *thread_increment(void *store)
{
	return (void *)(intptr_t)child_increment(store);
}

static void a_node_keeps_its_cordons(struct store *store)
{
	struct node_record node = {.name = "cordoned", .cordoned = true};
	struct node_record seen = {0};
	struct store_object object;
	char *json = NULL;

	assert_int_equal(name_list_add(&node.cordoned_pools, "p", NULL), 0);
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(
		store->ops->create(store, OTHER, node.name, json, NULL, NULL),
		0);
	free(json);
	node_record_done(&node);
	assert_int_equal(
		store->ops->get(store, OTHER, "cordoned", &object, NULL), 0);
	assert_int_equal(
		node_record_decode(object.json, object.length, &seen, NULL), 0);
	assert_true(seen.cordoned);
	assert_true(name_list_has(&seen.cordoned_pools, "p"));
	node_record_done(&seen);
	store_object_done(&object);
	assert_int_equal(
		store->ops->remove(store, OTHER, "cordoned", NULL, NULL), 0);
}

static void writers_in_several_threads_lose_nothing(struct store *store)
{
	pthread_t threads[PROCESSES];
	void *result;

	assert_int_equal(create(store, "counter", 0, NULL), 0);
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						thread_increment, store),
				 0);
	for (int i = 0; i < PROCESSES; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	has_number(store, "counter", PROCESSES * INCREMENTS);
	assert_int_equal(store->ops->remove(store, KIND, "counter", NULL, NULL),
			 0);
}

void store_conformance(const char *location)
{
	struct store *store = opened(location);

	objects_are_kept_by_name(store);
	a_swap_needs_the_version_read(store);
	a_removed_object_does_not_come_back(store);
	a_list_is_in_order_and_of_one_kind(store);
	pages_add_up(store, NULL);
	pages_add_up(store, "");
	pages_add_up(store, "none-of-the-store");
	nodes_beat_until_they_end_it(store);
	a_node_keeps_its_cordons(store);
	writers_in_several_threads_lose_nothing(store);
	store_close(store);
	what_is_kept_is_there_after_reopening(location);
	who_watches_is_told_of_each_change(location);
	writers_in_several_processes_lose_nothing(location);
	a_lease_ends_with_its_owner(location);
}
