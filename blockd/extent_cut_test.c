/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots, clones and holds above a pool whose way of copying is the
 * test's: a dir pool with other functions.
 */
#include "blockd/extent_cut.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/size.h"
#include "blockd/copying.h"
#include "blockd/hold.h"

#define CAPACITY (64 * MIB)
#define CUT      "01234567-89ab-4cde-8f01-23456789abcd"
#define CUT_2    "11234567-89ab-4cde-8f01-23456789abcd"
#define HOLD     "21234567-89ab-4cde-8f01-23456789abcd"

struct kit {
	char dir[64];
	struct node *node;
};

/* What the pool is to do, and what it was asked. */
static enum pool_copy_method method;
static atomic_bool copy_waits;
static int copy_takes_ms;
static size_t copy_fails_at; /* 0: never; 1: at the first */
static struct pool_ops ops;
static const struct pool_ops *dir_ops;

/* ---- a pool that copies ---- */

static enum pool_copy_method fake_method(struct pool *pool)
{
	(void)pool;
	return method;
}

static void copy_file(struct pool *pool, const char *from, const char *to)
{
	auto_free char *source = pool->ops->path(pool, from);
	auto_free char *target = pool->ops->path(pool, to);
	const char *argv[] = {"cp", "--sparse=always", source, target, NULL};
	struct stat st;

	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(process_must(argv, 30000, NULL), 0);
	assert_int_equal(truncate(target, st.st_size), 0);
}

static void pause_ms(int ms)
{
	const struct timespec pause = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000L,
	};

	(void)nanosleep(&pause, NULL);
}

static int fake_copy_one(struct pool *pool, const struct pool_copy *copy,
			 bool fails, struct error *err)
{
	int r = fails ? error_set(err, ENOSPC, "as it was told")
		      : dir_ops->create(pool, copy->record, err);

	if (r == 0)
		copy_file(pool, copy->from, copy->record->name);
	return r;
}

static int fake_copy(struct pool *pool, const struct pool_copy *copies,
		     size_t n, pool_copied copied, void *context,
		     struct error *err)
{
	size_t done;
	int r = 0;

	while (r == 0 && atomic_load(&copy_waits)) {
		r = copied ? copied(context, MIB, 4 * MIB) : 0;
		pause_ms(1);
	}
	if (r < 0)
		return error_set(err, -r, "it was stopped");
	pause_ms(copy_takes_ms);
	for (done = 0; r == 0 && done < n; done += r == 0)
		r = fake_copy_one(pool, &copies[done],
				  copy_fails_at == done + 1, err);
	while (r < 0 && done > 0) {
		const char *name = copies[--done].record->name;

		(void)pool->ops->doom(pool, name, NULL);
		(void)pool->ops->erase(pool, name, NULL);
	}
	return r;
}

static int fake_revert(struct pool *pool, const struct extent_record *record,
		       const char *from, struct error *err)
{
	copy_file(pool, from, record->name);
	return dir_ops->save(pool, record, err);
}

/* 64 KiB at each MiB; with a base: at each second one. */
static int fake_ranges(struct pool *pool, const char *name, const char *base,
		       uint64_t start, pool_range visit, void *context,
		       struct error *err)
{
	int r = 0;

	(void)pool;
	(void)name;
	(void)err;
	for (uint64_t at = 0; r == 0 && at < 1024 * MIB;
	     at += base ? 2 * MIB : MIB)
		if (at + 64 * KIB > start)
			r = visit(context, at, 64 * KIB);
	return r;
}

static struct pool *pool_of(struct kit *k)
{
	return TAILQ_FIRST(&k->node->list)->pool;
}

static void take_over(struct kit *k)
{
	dir_ops = pool_of(k)->ops;
	ops = *dir_ops;
	ops.copy_method = fake_method;
	ops.copy = fake_copy;
	ops.revert = fake_revert;
	ops.ranges = fake_ranges;
	pool_of(k)->ops = &ops;
}

/* ---- the kit ---- */

static void start(struct kit *k)
{
	char state[128];
	struct node_options options = {.state_dir = state, .floor = 1};

	(void)snprintf(state, sizeof(state), "%s/state", k->dir);
	assert_int_equal(node_new(&options, &k->node, NULL), 0);
	assert_int_equal(node_open_known(k->node, NULL), 0);
}

static void restart(struct kit *k)
{
	node_free(k->node);
	start(k);
	take_over(k);
}

static int setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));
	char path[128];
	struct node_pool_request request = {
		.name = "a",
		.path = path,
		.capacity = CAPACITY,
		.may_format = true,
	};

	log_setup("extent_cut_test", LOG_LEVEL_ERROR);
	(void)snprintf(k->dir, sizeof(k->dir), "/tmp/trib-cut-test.XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	(void)snprintf(path, sizeof(path), "%s/a", k->dir);
	assert_int_equal(mkdir(path, 0755), 0);
	start(k);
	assert_int_equal(node_add_pool(k->node, &request, NULL), 0);
	take_over(k);
	method = POOL_COPY_SHARED;
	atomic_store(&copy_waits, false);
	copy_takes_ms = 0;
	copy_fails_at = 0;
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	struct kit *k = *state;
	const char *argv[] = {"rm", "-rf", "--one-file-system", k->dir, NULL};

	node_free(k->node);
	assert_int_equal(process_must(argv, 30000, NULL), 0);
	free(k);
	return 0;
}

static struct extent *find(struct kit *k, const char *name)
{
	struct extent *extent = NULL;

	(void)extent_find(k->node, name, &extent, NULL);
	return extent;
}

static bool is_there(struct kit *k, const char *name)
{
	struct extent *extent = find(k, name);

	extent_unref(extent);
	return extent != NULL;
}

static uint64_t reserved(struct kit *k)
{
	return TAILQ_FIRST(&k->node->list)->reserved;
}

static int create_from(struct kit *k, const char *name, uint64_t size,
		       const char *source, struct error *err)
{
	struct extent_request request = {
		.name = name, .size = size, .source = source};
	struct extent *extent;
	int r = extent_create(k->node, &request, &extent, NULL, err);

	if (r == 0)
		extent_unref(extent);
	return r;
}

static void create(struct kit *k, const char *name)
{
	assert_int_equal(create_from(k, name, 4 * MIB, NULL, NULL), 0);
}

/* Put @length bytes of @byte at the start of its data. */
static void fill(struct kit *k, const char *name, char byte, size_t length)
{
	auto_free char *path = pool_of(k)->ops->path(pool_of(k), name);
	auto_free char *data = malloc(length);
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	memset(data, byte, length);
	assert_int_equal(pwrite(fd, data, length, 0), length);
	assert_int_equal(fsync(fd), 0);
}

static char first_byte(struct kit *k, const char *name)
{
	auto_free char *path = pool_of(k)->ops->path(pool_of(k), name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte = 0;

	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	return byte;
}

static int remove_extent(struct kit *k, const char *name)
{
	return extent_delete(k->node, name, NULL, NULL);
}

/* Snapshots "s-NAME" of extents. */
static int cut(struct kit *k, const char *id, const char *hold,
	       const char *const *extents, size_t n, struct error *err)
{
	struct snapshot_request snapshots[8] = {0};
	struct extent *made[8];
	char names[8][16];
	struct cut_request request = {
		.cut = id,
		.hold = hold,
		.snapshots = snapshots,
		.n = n,
	};
	int r;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "s-%s", extents[i]);
		snapshots[i].extent = extents[i];
		snapshots[i].name = names[i];
	}
	r = extents_cut(k->node, &request, made, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		assert_string_equal(made[i]->record.name, names[i]);
		extent_unref(made[i]);
	}
	return r;
}

static int cut_x(struct kit *k, struct error *err)
{
	return cut(k, CUT, NULL, (const char *[]){"x"}, 1, err);
}

/* ---- cuts ---- */

static const char *const both[] = {"y", "x"};

static void cuts_several_and_remembers_what_they_are(void **state)
{
	struct kit *k = *state;
	struct extent *x, *s;

	create(k, "x");
	create(k, "y");
	fill(k, "x", 'x', MIB);
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_true(reserved(k) == 9 * MIB);
	for (int i = 0; i < 2; i++) {
		x = find(k, "x");
		s = find(k, "s-x");
		assert_int_equal(s->record.kind, EXTENT_KIND_SNAPSHOT);
		assert_int_equal(s->record.state, EXTENT_OK);
		assert_true(s->record.size == 4 * MIB);
		assert_true(s->record.reserved == MIB);
		assert_true(s->bytes == MIB);
		assert_string_equal(s->record.origin.name, "x");
		assert_string_equal(s->record.origin.id, x->record.id);
		assert_string_equal(s->record.origin.cut, CUT);
		assert_int_equal(extent_resize(s, 8 * MIB, NULL), -EINVAL);
		extent_unref(x);
		extent_unref(s);
		fill(k, "x", 'y', MIB);
		assert_int_equal(first_byte(k, "s-x"), 'x');
		restart(k);
		assert_true(reserved(k) == 9 * MIB);
	}
}

static void gives_back_what_a_cut_made(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	create(k, "x");
	create(k, "y");
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(cut(k, CUT_2, NULL, both, 2, &err), -EEXIST);
	assert_int_equal(remove_extent(k, "s-x"), 0);
	assert_int_equal(cut(k, CUT, NULL, both, 2, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "only 1 of 2"));
	assert_int_equal(remove_extent(k, "s-y"), 0);
	assert_int_equal(cut(k, CUT_2, NULL, both, 2, NULL), 0);
}

static void makes_all_or_none(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	create(k, "x");
	create(k, "y");
	copy_fails_at = 2;
	assert_int_equal(cut(k, CUT, NULL, both, 2, &err), -ENOSPC);
	assert_false(is_there(k, "s-x") || is_there(k, "s-y"));
	assert_true(reserved(k) == 8 * MIB);
	copy_fails_at = 0;
	create(k, "s-y");
	assert_int_equal(cut(k, CUT, NULL, both, 2, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "no snapshot"));
	assert_false(is_there(k, "s-x"));
	assert_int_equal(remove_extent(k, "s-y"), 0);
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
}

static void refuses_cuts_that_make_no_sense(void **state)
{
	struct kit *k = *state;
	const char *twice[] = {"x", "x"}, *none[] = {"x", "z"};
	const char *snapshot[] = {"s-x"};
	struct error err = {0};

	create(k, "x");
	assert_int_equal(cut(k, "1", NULL, both, 1, &err), -EINVAL);
	assert_int_equal(cut(k, CUT, NULL, twice, 2, &err), -EINVAL);
	assert_int_equal(cut(k, CUT, NULL, both, 0, &err), -EINVAL);
	assert_int_equal(cut(k, CUT, NULL, none, 2, &err), -ENOENT);
	assert_int_equal(cut_x(k, NULL), 0);
	assert_int_equal(cut(k, CUT_2, NULL, snapshot, 1, &err), -EINVAL);
	method = POOL_COPY_NONE;
	assert_int_equal(cut(k, CUT_2, NULL, (const char *[]){"x"}, 1, &err),
			 -EEXIST);
	assert_int_equal(create_from(k, "c", 4 * MIB, "s-x", &err),
			 -EOPNOTSUPP);
	assert_non_null(strstr(err.msg, "no snapshots"));
}

static void has_room_for_what_a_snapshot_may_take(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	create(k, "x");
	fill(k, "x", 'x', 2 * MIB);
	assert_int_equal(create_from(k, "z", CAPACITY - 5 * MIB, NULL, NULL),
			 0);
	assert_int_equal(cut_x(k, &err), -ENOSPC);
	assert_false(is_there(k, "s-x"));
	assert_int_equal(remove_extent(k, "z"), 0);
	assert_int_equal(cut_x(k, NULL), 0);
	assert_true(reserved(k) == 6 * MIB);
	assert_int_equal(remove_extent(k, "x"), 0); /* in any order */
	assert_int_equal(first_byte(k, "s-x"), 'x');
	assert_int_equal(remove_extent(k, "s-x"), 0);
	assert_true(reserved(k) == 0);
}

/* ---- holds ---- */

static int hold(struct kit *k, const char *name, unsigned ms)
{
	return extents_hold(k->node, HOLD, &name, 1, ms, NULL);
}

static void cuts_under_a_hold_that_lasts(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	create(k, "x");
	create(k, "y");
	assert_int_equal(hold(k, "x", 10001), -EINVAL);
	assert_int_equal(hold(k, "z", 1000), -ENOENT);
	assert_int_equal(cut(k, CUT, HOLD, both, 2, &err), -ESTALE);
	assert_int_equal(hold(k, "x", 10000), 0);
	assert_int_equal(hold(k, "x", 10000), 0); /* again */
	assert_int_equal(hold(k, "y", 10000), -EEXIST);
	assert_int_equal(cut(k, CUT, HOLD, both, 2, &err), -ESTALE);
	assert_int_equal(cut(k, CUT, HOLD, &both[1], 1, &err), 0);
	assert_true(holds_end(k->node->holds, HOLD));
	assert_false(holds_end(k->node->holds, HOLD));
	assert_int_equal(hold(k, "x", 10000), -ESTALE);
}

static void leaves_nothing_of_a_cut_whose_hold_lapsed(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	create(k, "x");
	x = find(k, "x");
	copy_takes_ms = 200;
	assert_int_equal(hold(k, "x", 100), 0);
	assert_int_equal(cut(k, CUT, HOLD, &both[1], 1, &err), -ESTALE);
	while (gate_is_held(&x->gate))
		pause_ms(1);
	extent_unref(x);
	assert_false(is_there(k, "s-x"));
	assert_true(reserved(k) == 4 * MIB);
	assert_false(holds_end(k->node->holds, HOLD));
	restart(k);
	assert_false(is_there(k, "s-x"));
}

/* ---- clones ---- */

static void makes_an_extent_from_a_snapshot_and_from_an_extent(void **state)
{
	struct kit *k = *state;
	struct extent *c;
	struct error err = {0};

	create(k, "x");
	fill(k, "x", '1', MIB);
	assert_int_equal(cut_x(k, NULL), 0);
	fill(k, "x", '2', MIB);
	assert_int_equal(create_from(k, "c", 8 * MIB, "s-x", NULL), 0);
	assert_int_equal(create_from(k, "c", 8 * MIB, "s-x", NULL), 0);
	assert_int_equal(create_from(k, "d", 4 * MIB, "x", NULL), 0);
	assert_int_equal(first_byte(k, "c"), '1');
	assert_int_equal(first_byte(k, "d"), '2');
	assert_true(reserved(k) == 17 * MIB);
	assert_int_equal(create_from(k, "c", 8 * MIB, "x", &err), -EEXIST);
	assert_non_null(strstr(err.msg, "made from 's-x'"));
	assert_int_equal(create_from(k, "c", 8 * MIB, NULL, &err), -EEXIST);
	assert_int_equal(create_from(k, "s-x", 4 * MIB, NULL, &err), -EEXIST);
	assert_int_equal(create_from(k, "e", 2 * MIB, "s-x", &err), -ERANGE);
	assert_int_equal(create_from(k, "e", 4 * MIB, "z", &err), -ENOENT);
	c = find(k, "c");
	assert_int_equal(c->record.kind, EXTENT_KIND_EXTENT);
	assert_string_equal(c->record.origin.name, "s-x");
	assert_string_equal(c->record.origin.cut, "");
	assert_int_equal(c->record.origin.method, POOL_COPY_SHARED);
	extent_unref(c);
}

static void refuses_a_source_of_another_id_or_pool(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {
		.name = "c",
		.size = 4 * MIB,
		.source = "x",
		.source_id = CUT,
	};
	struct extent *extent;

	create(k, "x");
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -ESTALE);
	request.source_id = NULL;
	request.pool = "b";
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -EINVAL);
	request.pool = NULL;
	request.thick = true;
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -EINVAL);
	assert_false(is_there(k, "c"));
}

/* ---- byte by byte ---- */

static void wait_copied(struct kit *k, const char *name)
{
	struct extent *extent = find(k, name);
	int64_t until_ms = clock_ms() + 20000;

	assert_non_null(extent);
	while (extent_begin(extent, NULL) == -EBUSY) {
		assert_true(clock_ms() < until_ms);
		pause_ms(1);
	}
	extent_end(extent);
	extent_unref(extent);
}

static void copies_byte_by_byte_behind_the_answer(void **state)
{
	struct kit *k = *state;
	struct extent *x, *c;
	struct error err = {0};

	create(k, "x");
	fill(k, "x", 'x', MIB);
	method = POOL_COPY_BYTES;
	atomic_store(&copy_waits, true);
	assert_int_equal(create_from(k, "c", 4 * MIB, "x", NULL), 0);
	assert_int_equal(create_from(k, "c", 4 * MIB, "x", NULL), 0);
	c = find(k, "c");
	x = find(k, "x");
	assert_int_equal(c->record.state, EXTENT_COPYING);
	while (copying_done(c) == 0)
		pause_ms(1);
	assert_true(copying_done(c) == MIB); /* of 4 */
	assert_int_equal(extent_resize(c, 8 * MIB, NULL), -EBUSY);
	assert_int_equal(extent_resize(x, 8 * MIB, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "is being copied"));
	assert_int_equal(remove_extent(k, "x"), -EBUSY);
	atomic_store(&copy_waits, false);
	wait_copied(k, "c");
	assert_int_equal(first_byte(k, "c"), 'x');
	while (atomic_load(&x->copied_from))
		pause_ms(1);
	extent_unref(c);
	extent_unref(x);
	assert_int_equal(remove_extent(k, "x"), 0);
	restart(k);
	assert_int_equal(first_byte(k, "c"), 'x');
}

static void a_delete_stops_a_copy(void **state)
{
	struct kit *k = *state;
	struct extent *x;

	create(k, "x");
	create(k, "y");
	method = POOL_COPY_BYTES;
	atomic_store(&copy_waits, true);
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(remove_extent(k, "s-y"), 0);
	assert_false(is_there(k, "s-x") || is_there(k, "s-y"));
	assert_true(reserved(k) == 8 * MIB);
	x = find(k, "x");
	assert_int_equal(atomic_load(&x->copied_from), 0);
	extent_unref(x);
	assert_int_equal(create_from(k, "c", 4 * MIB, "x", NULL), 0);
	restart(k); /* stops it too */
	assert_false(is_there(k, "c"));
}

static void copies_nothing_that_is_exported_to_be_written(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	create(k, "x");
	method = POOL_COPY_BYTES;
	x = find(k, "x");
	x->record.export.exists = x->record.export.active = true;
	assert_int_equal(cut_x(k, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "byte by byte"));
	x->record.export.read_only = true;
	assert_int_equal(cut_x(k, &err), 0);
	wait_copied(k, "s-x");
	extent_unref(x);
}

/* ---- revert, limits, ranges ---- */

static void reverts_to_a_snapshot_of_its_own(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	create(k, "x");
	create(k, "y");
	fill(k, "x", '1', MIB);
	assert_int_equal(cut(k, CUT, NULL, both, 2, NULL), 0);
	fill(k, "x", '2', MIB);
	x = find(k, "x");
	assert_int_equal(extent_resize(x, 8 * MIB, NULL), 0);
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-y", &err),
			 -EINVAL);
	assert_int_equal(extent_revert(k->node, "x", NULL, "y", &err), -EINVAL);
	assert_int_equal(extent_revert(k->node, "x", CUT, "s-x", &err),
			 -ESTALE);
	x->record.export.exists = x->record.export.active = true;
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-x", &err),
			 -EBUSY);
	x->record.export.active = false;
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-x", &err), 0);
	assert_int_equal(first_byte(k, "x"), '1');
	assert_true(x->record.size == 8 * MIB);
	extent_unref(x);
}

static void keeps_limits(void **state)
{
	struct kit *k = *state;
	const struct extent_limits bad = {.bytes_per_second = 1};
	const struct extent_limits good = {.iops = 7};
	struct extent *x;

	create(k, "x");
	x = find(k, "x");
	assert_int_equal(extent_set_limits(x, &bad, NULL), -EINVAL);
	assert_int_equal(extent_set_limits(x, &good, NULL), 0);
	extent_unref(x);
	restart(k);
	x = find(k, "x");
	assert_true(x->record.limits.iops == 7);
	assert_true(x->gate.limit.rates.iops == 7);
	extent_unref(x);
}

static void lists_ranges_from_where_it_is_asked(void **state)
{
	struct kit *k = *state;
	struct extent_range ranges[3];
	struct extent *x, *one;
	struct error err = {0};
	uint64_t end;
	size_t n;

	create(k, "x");
	assert_int_equal(cut_x(k, NULL), 0);
	x = find(k, "x");
	one = find(k, "s-x");
	assert_int_equal(extent_ranges(one, NULL, 1, ranges, 3, &n, &end, NULL),
			 0);
	assert_int_equal(n, 3);
	assert_true(ranges[0].offset == 1); /* cut off */
	assert_true(ranges[0].length == 64 * KIB - 1);
	assert_true(ranges[2].offset == 2 * MIB);
	assert_true(end == 2 * MIB + 64 * KIB);
	assert_int_equal(
		extent_ranges(one, NULL, end, ranges, 3, &n, &end, NULL), 0);
	assert_int_equal(n, 1); /* the snapshot ends there */
	assert_true(end == 4 * MIB);
	assert_int_equal(extent_ranges(one, one, 0, ranges, 3, &n, &end, NULL),
			 0);
	assert_int_equal(n, 2);
	assert_int_equal(
		extent_ranges(one, NULL, 4 * MIB, ranges, 3, &n, &end, NULL),
		0);
	assert_int_equal(n, 0);
	assert_int_equal(extent_ranges(one, NULL, 4 * MIB + 1, ranges, 3, &n,
				       &end, &err),
			 -ERANGE);
	assert_int_equal(extent_ranges(x, NULL, 0, ranges, 3, &n, &end, &err),
			 -EINVAL);
	assert_int_equal(extent_ranges(one, x, 0, ranges, 3, &n, &end, &err),
			 -EINVAL);
	extent_unref(x);
	extent_unref(one);
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_KIT(cuts_several_and_remembers_what_they_are),
		WITH_KIT(gives_back_what_a_cut_made),
		WITH_KIT(makes_all_or_none),
		WITH_KIT(refuses_cuts_that_make_no_sense),
		WITH_KIT(has_room_for_what_a_snapshot_may_take),
		WITH_KIT(cuts_under_a_hold_that_lasts),
		WITH_KIT(leaves_nothing_of_a_cut_whose_hold_lapsed),
		WITH_KIT(makes_an_extent_from_a_snapshot_and_from_an_extent),
		WITH_KIT(refuses_a_source_of_another_id_or_pool),
		WITH_KIT(copies_byte_by_byte_behind_the_answer),
		WITH_KIT(a_delete_stops_a_copy),
		WITH_KIT(copies_nothing_that_is_exported_to_be_written),
		WITH_KIT(reverts_to_a_snapshot_of_its_own),
		WITH_KIT(keeps_limits),
		WITH_KIT(lists_ranges_from_where_it_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
