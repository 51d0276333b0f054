/* SPDX-License-Identifier: Apache-2.0 */
/* Races for the space of a pool: no more is promised than may be. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockd/copy/extent_cut.h"
#include "blockd/testkit/model_kit.h"
#include "blockd/testkit/node_kit.h"

/* ---- makes, grows and deletes ---- */

#define RACERS 32

struct racer {
	pthread_t thread;
	struct kit *kit;
	unsigned number;
	unsigned made;
};

/* 4 of 4 MiB each: 512 MiB asked for, 64 MiB there. */
static void *race(void *context)
{
	struct racer *racer = context;

	for (unsigned i = 0; i < 4; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "x-%u-%u", racer->number, i);
		racer->made += node_kit_create(racer->kit, name, 4 * MIB,
					       NULL) == 0;
	}
	return NULL;
}

static unsigned run_race(struct kit *k, void *(*run)(void *))
{
	struct racer racers[RACERS] = {0};
	unsigned made = 0;

	for (unsigned i = 0; i < RACERS; i++) {
		racers[i].kit = k;
		racers[i].number = i;
		assert_int_equal(pthread_create(&racers[i].thread, NULL, run,
						&racers[i]),
				 0);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		(void)pthread_join(racers[i].thread, NULL);
		made += racers[i].made;
	}
	return made;
}

static void never_promises_too_much_to_racing_creates(void **state)
{
	struct kit *k = *state;

	assert_int_equal(run_race(k, race), CAPACITY / (4 * MIB));
	assert_true(node_kit_info(k, "a").reserved == CAPACITY);
	node_kit_restart(k);
	assert_true(node_kit_info(k, "a").reserved == CAPACITY);
	assert_int_equal(node_kit_info(k, "a").extents, CAPACITY / (4 * MIB));
}

/* The same in pool "b", and each grows by as much: 1 GiB for 96 MiB. */
static void *race_and_grow(void *context)
{
	struct racer *racer = context;

	for (unsigned i = 0; i < 4; i++) {
		struct extent_request request = {.pool = "b", .size = 4 * MIB};
		struct extent *extent = NULL;
		char name[32];

		(void)snprintf(name, sizeof(name), "x-%u-%u", racer->number, i);
		request.name = name;
		if (extent_create(racer->kit->node, &request, &extent, NULL,
				  NULL) < 0)
			continue;
		racer->made++;
		racer->made += extent_resize(extent, 8 * MIB, NULL) == 0;
		extent_unref(extent);
	}
	return NULL;
}

static void never_promises_too_much_of_what_is_overcommitted(void **state)
{
	struct kit *k = *state;
	const struct node_pool_request request = {
		.name = "b",
		.path = node_kit_at(k, "b"),
		.capacity = CAPACITY,
		.overcommit_percent = 150,
		.may_format = true,
	};
	const uint64_t limit = CAPACITY / 2 * 3;

	assert_int_equal(mkdir(node_kit_at(k, "b"), 0755), 0);
	assert_int_equal(node_add_pool(k->node, &request, NULL, NULL), 0);
	assert_int_equal(run_race(k, race_and_grow), limit / (4 * MIB));
	assert_true(node_kit_info(k, "b").reserved == limit);
	node_kit_restart(k);
	assert_true(node_kit_info(k, "b").reserved == limit);
}

/* Everybody makes and deletes the same one. */
static void *fight(void *context)
{
	struct racer *racer = context;

	for (unsigned i = 0; i < 4; i++) {
		racer->made += node_kit_create(racer->kit, "x", MIB, NULL) == 0;
		(void)extent_delete(racer->kit->node, "x", NULL, NULL);
	}
	return NULL;
}

static void counts_right_when_one_name_is_fought_over(void **state)
{
	struct kit *k = *state;

	assert_int_equal(run_race(k, fight), RACERS * 4);
	assert_null(node_kit_find(k, "x"));
	assert_true(node_kit_info(k, "a").reserved == 0);
	node_kit_restart(k);
	assert_int_equal(node_kit_info(k, "a").extents, 0);
}

/* ---- thin extents that grow, are cut and cloned, all at once ---- */

#define MEDIUM     (24 * MIB)
#define PROMISABLE (16 * MIB) /* of it; twice that may be promised */
#define THIN       (2 * MIB)
#define WRITERS    4
#define ROUNDS     6
#define BLOCKS     (THIN / BLOCK)

/* One works with its own extent, snapshot and clone, and cuts others'. */
struct writer {
	pthread_t thread;
	struct kit *kit;
	struct loop *loop;
	unsigned number, random, full, done;
	uint32_t blocks[BLOCKS]; /* what its extent holds; 0: zeroes */
};

/* A name of writer @number; alive until the next call of the same thread. */
static const char *named(const char *what, unsigned number)
{
	static _Thread_local char name[32];

	(void)snprintf(name, sizeof(name), "%s-%u", what, number);
	return name;
}

/* There was room (true), or there was none; nothing else may go wrong. */
static bool fits(struct writer *w, int r, const char *what,
		 const struct error *err)
{
	if (r < 0 && r != -ENOSPC)
		fail_msg("writer %u: %s: %s", w->number, what, error_text(err));
	w->full += r < 0;
	w->done += r == 0;
	return r == 0;
}

struct opening {
	struct writer *w;
	struct extent *extent;
	struct object object;
};

static int open_call(void *context)
{
	struct opening *o = context;

	return extent_open(o->extent, 0, o->w->loop, &o->object.dev, NULL);
}

static int close_call(void *context)
{
	blockdev_close(context);
	return 0;
}

/* A request to an extent, as from a client of its own. */
static int one(struct writer *w, const char *name, enum what what, void *data,
	       size_t at, size_t n)
{
	struct opening o = {.w = w, .extent = node_kit_find(w->kit, name)};
	int r;

	assert_non_null(o.extent);
	assert_int_equal(loop_call(w->loop, open_call, &o), 0);
	r = model_one(&o.object, what, data, at, n, BLOCKDEV_FUA);
	assert_int_equal(loop_call(w->loop, close_call, o.object.dev), 0);
	extent_unref(o.extent);
	return r;
}

static uint32_t stamp_at(const void *data, size_t block)
{
	return ((const uint32_t *)data)[block * BLOCK / sizeof(uint32_t)];
}

/* @name holds what the writer's extent does. */
static void check_content(struct writer *w, const char *name)
{
	void *data = model_buffer(BLOCKS);

	assert_int_equal(one(w, name, READ, data, 0, BLOCKS), 0);
	for (size_t i = 0; i < BLOCKS; i++)
		assert_int_equal(stamp_at(data, i), w->blocks[i]);
	free(data);
}

/* Some blocks; where there is no room each is as it was or as it is to be. */
static void write_some(struct writer *w, const char *name, bool own)
{
	const struct error err = {.msg = "a write"};
	size_t n = 64, at = (w->random = w->random * 1103515245 + 12345) / 256 %
			    (BLOCKS - n);
	uint32_t *data = model_buffer(n);
	int r;

	for (size_t i = 0; i < n * BLOCK / sizeof(*data); i++)
		data[i] = w->random | 1;
	r = one(w, name, WRITE, data, at, n);
	if (!fits(w, r, "write", &err))
		assert_int_equal(one(w, name, READ, data, at, n), 0);
	for (size_t i = 0; own && i < n; i++) {
		uint32_t is = stamp_at(data, i);

		assert_true(is == (w->random | 1) || is == w->blocks[at + i]);
		w->blocks[at + i] = is;
	}
	free(data);
}

static void make_thin(struct writer *w)
{
	struct extent_request request = {
		.pool = "r", .name = named("x", w->number), .size = THIN};
	struct extent *extent;

	assert_int_equal(
		extent_create(w->kit->node, &request, &extent, NULL, NULL), 0);
	extent_unref(extent);
}

static void grow_thin(struct writer *w)
{
	struct extent *extent = node_kit_find(w->kit, named("x", w->number));
	struct error err = {0};

	(void)fits(w,
		   extent_resize(extent, extent->record.size + 2 * MIB, &err),
		   "grow", &err);
	extent_unref(extent);
}

/* Its own and its neighbour's, at one instant. */
static bool cut_two(struct writer *w)
{
	char names[4][32];
	struct snapshot_request snapshots[2] = {
		{.extent = names[0], .name = names[1]},
		{.extent = names[2], .name = names[3]},
	};
	char cut[UUID_TEXT_SIZE];
	const struct cut_request request = {
		.cut = cut, .snapshots = snapshots, .n = 2};
	struct extent *made[2];
	struct error err = {0};
	int r;

	(void)uuid_make(cut);
	(void)snprintf(names[0], 32, "x-%u", w->number);
	(void)snprintf(names[1], 32, "s-%u", w->number);
	(void)snprintf(names[2], 32, "x-%u", (w->number + 1) % WRITERS);
	(void)snprintf(names[3], 32, "n-%u", w->number);
	r = extents_cut(w->kit->node, &request, made, &err);
	if (!fits(w, r, "cut", &err))
		return false;
	extent_unref(made[0]);
	extent_unref(made[1]);
	return true;
}

static bool clone_it(struct writer *w)
{
	char source[32];
	struct extent_request request = {.pool = "r",
					 .name = named("c", w->number),
					 .size = THIN,
					 .source = source};
	struct extent *extent = node_kit_find(w->kit, named("x", w->number));
	struct error err = {0};
	int r;

	(void)snprintf(source, sizeof(source), "s-%u", w->number);
	request.name = named("c", w->number);
	if (extent->record.size > request.size)
		request.size = extent->record.size;
	extent_unref(extent);
	r = extent_create(w->kit->node, &request, &extent, NULL, &err);
	if (!fits(w, r, "clone", &err))
		return false;
	extent_unref(extent);
	return true;
}

static void drop(struct writer *w, const char *what)
{
	assert_int_equal(
		extent_delete(w->kit->node, named(what, w->number), NULL, NULL),
		0);
}

static void *write_grow_cut_and_clone(void *context)
{
	struct writer *w = context;

	for (unsigned i = 0; i < ROUNDS; i++) {
		write_some(w, named("x", w->number), true);
		if (cut_two(w)) {
			check_content(w, named("s", w->number));
			write_some(w, named("x", w->number), true);
			if (clone_it(w))
				write_some(w, named("c", w->number), false);
		}
		grow_thin(w);
		check_content(w, named("x", w->number));
		/* Each in its turn is the first to go. */
		drop(w, i % 3 == 0 ? "s" : i % 3 == 1 ? "c" : "n");
		drop(w, i % 3 == 0 ? "n" : i % 3 == 1 ? "s" : "c");
		drop(w, i % 3 == 0 ? "c" : i % 3 == 1 ? "n" : "s");
	}
	return NULL;
}

struct watcher {
	pthread_t thread;
	struct kit *kit;
	atomic_bool stop;
};

static void *watch_the_ratio(void *context)
{
	struct watcher *watcher = context;

	do {
		struct node_pool_info is = node_kit_info(watcher->kit, "r");

		assert_true(is.reserved <= 2 * PROMISABLE);
		(void)usleep(1000); /* others have to do, too */
	} while (!atomic_load(&watcher->stop));
	return NULL;
}

static void *run_loop(void *loop)
{
	assert_int_equal(loop_run(loop), 0);
	return NULL;
}

static void add_raw_pool(struct kit *k)
{
	struct node_pool_request request = {
		.name = "r",
		.capacity = PROMISABLE,
		.overcommit_percent = 200,
		.cluster_size = 64 * KIB,
		.may_format = true,
	};
	struct error err = {0};

	node_kit_put_file(k, "medium", "");
	request.path = node_kit_at(k, "medium");
	assert_int_equal(truncate(request.path, MEDIUM), 0);
	if (node_add_pool(k->node, &request, NULL, &err) < 0)
		fail_msg("%s", error_text(&err));
}

static void count_finding(void *context, const char *text, bool repaired)
{
	(void)repaired;
	print_message("%s\n", text);
	(*(unsigned *)context)++;
}

/*
 * Check that extents which were promised before, and are not deleted, are as
 * they were.
 */
static void check_after(struct kit *k, struct writer *writers)
{
	unsigned findings = 0;

	assert_int_equal(node_check_pool(k->node, "r", false, count_finding,
					 &findings, NULL),
			 0);
	assert_int_equal(findings, 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		struct extent *extent = node_kit_find(k, named("x", i));

		assert_non_null(extent);
		assert_null(extent->damage);
		extent_unref(extent);
		check_content(&writers[i], named("x", i));
	}
}

static void keeps_the_ratio_while_thin_ones_grow_and_are_cut(void **state)
{
	static struct writer writers[WRITERS];
	struct loop_options options = {.name = "race"};
	struct kit *k = *state;
	struct watcher watcher = {.kit = k};
	unsigned full = 0, done = 0;
	uint64_t reserved;
	struct loop *loop;
	pthread_t thread;

	add_raw_pool(k);
	assert_int_equal(loop_new(&options, &loop, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, loop), 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){
			.kit = k, .loop = loop, .number = i, .random = i};
		make_thin(&writers[i]);
	}
	assert_int_equal(pthread_create(&watcher.thread, NULL, watch_the_ratio,
					&watcher),
			 0);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i].thread, NULL,
						write_grow_cut_and_clone,
						&writers[i]),
				 0);
	for (unsigned i = 0; i < WRITERS; i++) {
		assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
		full += writers[i].full;
		done += writers[i].done;
	}
	atomic_store(&watcher.stop, true);
	assert_int_equal(pthread_join(watcher.thread, NULL), 0);
	print_message("%u done, %u times full\n", done, full);
	assert_true(full && done); /* it has met what it is for */
	check_after(k, writers);
	reserved = node_kit_info(k, "r").reserved;
	node_kit_restart(k);
	assert_true(node_kit_info(k, "r").reserved == reserved);
	check_after(k, writers);
	loop_stop(loop);
	assert_int_equal(pthread_join(thread, NULL), 0);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(never_promises_too_much_to_racing_creates),
		TEST(never_promises_too_much_of_what_is_overcommitted),
		TEST(counts_right_when_one_name_is_fought_over),
		TEST(keeps_the_ratio_while_thin_ones_grow_and_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
