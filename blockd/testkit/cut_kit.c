/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/cut_kit.h"

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
#include "base/log.h"
#include "base/process.h"
#include "base/size.h"

enum pool_copy_method kit_method;
atomic_bool kit_copy_waits;
int kit_copy_takes_ms;
size_t kit_copy_fails_at;
bool kit_has_device;
atomic_int kit_holds, kit_held, kit_suspended;
int kit_hold_result, kit_release_result;
static struct pool_ops ops;
static const struct pool_ops *dir_ops;

/* ---- a pool that copies ---- */

static enum pool_copy_method fake_method(struct pool *pool)
{
	(void)pool;
	return kit_method;
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

void kit_pause_ms(int ms)
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

	while (r == 0 && atomic_load(&kit_copy_waits)) {
		r = copied ? copied(context, MIB, 4 * MIB) : 0;
		kit_pause_ms(1);
	}
	if (r < 0)
		return error_set(err, -r, "it was stopped");
	kit_pause_ms(kit_copy_takes_ms);
	for (done = 0; r == 0 && done < n; done += r == 0)
		r = fake_copy_one(pool, &copies[done],
				  kit_copy_fails_at == done + 1, err);
	while (r < 0 && done > 0) {
		const char *name = copies[--done].record->name;

		(void)pool->ops->begin_delete(pool, name, NULL);
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

static struct kit *kit_now;

/* Prepare all extents, before the first of them is held. */
static int fake_prepare(struct pool *pool, const char *name, struct error *err)
{
	(void)pool;
	(void)name;
	(void)err;
	assert_int_equal(kit_suspended, 0);
	if (!kit_has_device)
		return 0;
	atomic_fetch_add(&kit_holds, 1);
	atomic_fetch_add(&kit_held, 1);
	return 1;
}

static int fake_hold(struct pool *pool, const char *name, struct error *err)
{
	struct extent *extent;

	(void)pool;
	if (kit_hold_result < 0)
		return error_set(err, -kit_hold_result, "as it was told");
	/* What the device waits for may be a write that passes the gate. */
	extent = kit_find(kit_now, name);
	assert_false(gate_is_closed(&extent->gate));
	extent_unref(extent);
	atomic_fetch_add(&kit_suspended, 1);
	return 0;
}

static int fake_release(struct pool *pool, const char *name)
{
	(void)pool;
	(void)name;
	assert_true(atomic_fetch_sub(&kit_holds, 1) > 0);
	if (kit_suspended > 0)
		atomic_fetch_sub(&kit_suspended, 1);
	return kit_release_result;
}

static struct pool *pool_of(struct kit *k)
{
	return TAILQ_FIRST(&k->node->list)->pool;
}

static void take_over(struct kit *k)
{
	kit_now = k;
	dir_ops = pool_of(k)->ops;
	ops = *dir_ops;
	ops.copy_method = fake_method;
	ops.copy = fake_copy;
	ops.revert = fake_revert;
	ops.ranges = fake_ranges;
	ops.prepare = fake_prepare;
	ops.hold = fake_hold;
	ops.release = fake_release;
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

void kit_restart(struct kit *k)
{
	node_free(k->node);
	start(k);
	take_over(k);
}

int kit_setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));
	char path[128];
	struct node_pool_request request = {
		.name = "a",
		.path = path,
		.capacity = KIT_CAPACITY,
		.may_format = true,
	};

	log_setup("cut_kit", LOG_LEVEL_ERROR);
	(void)snprintf(k->dir, sizeof(k->dir), "/tmp/trib-cut-test.XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	(void)snprintf(path, sizeof(path), "%s/a", k->dir);
	assert_int_equal(mkdir(path, 0755), 0);
	start(k);
	assert_int_equal(node_add_pool(k->node, &request, NULL, NULL), 0);
	take_over(k);
	kit_method = POOL_COPY_SHARED;
	atomic_store(&kit_copy_waits, false);
	kit_copy_takes_ms = 0;
	kit_copy_fails_at = 0;
	kit_has_device = false;
	kit_hold_result = kit_release_result = 0;
	atomic_store(&kit_holds, 0);
	atomic_store(&kit_held, 0);
	*state = k;
	return 0;
}

int kit_teardown(void **state)
{
	struct kit *k = *state;
	const char *argv[] = {"rm", "-rf", "--one-file-system", k->dir, NULL};

	node_free(k->node);
	assert_int_equal(process_must(argv, 30000, NULL), 0);
	free(k);
	return 0;
}

struct extent *kit_find(struct kit *k, const char *name)
{
	struct extent *extent = NULL;

	(void)extent_find(k->node, name, &extent, NULL);
	return extent;
}

bool kit_is_there(struct kit *k, const char *name)
{
	struct extent *extent = kit_find(k, name);

	extent_unref(extent);
	return extent != NULL;
}

uint64_t kit_reserved(struct kit *k)
{
	return TAILQ_FIRST(&k->node->list)->reserved;
}

int kit_create_from(struct kit *k, const char *name, uint64_t size,
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

void kit_create(struct kit *k, const char *name)
{
	assert_int_equal(kit_create_from(k, name, 4 * MIB, NULL, NULL), 0);
}

/* Put @length bytes of @byte at the start of its data. */
void kit_fill(struct kit *k, const char *name, char byte, size_t length)
{
	auto_free char *path = pool_of(k)->ops->path(pool_of(k), name);
	auto_free char *data = malloc(length);
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	memset(data, byte, length);
	assert_int_equal(pwrite(fd, data, length, 0), length);
	assert_int_equal(fsync(fd), 0);
}

char kit_first_byte(struct kit *k, const char *name)
{
	auto_free char *path = pool_of(k)->ops->path(pool_of(k), name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte = 0;

	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	return byte;
}

int kit_remove(struct kit *k, const char *name)
{
	return extent_delete(k->node, name, NULL, NULL);
}

/* Snapshots "s-NAME" of extents. */
int kit_cut(struct kit *k, const char *id, const char *hold,
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

int kit_cut_x(struct kit *k, struct error *err)
{
	return kit_cut(k, CUT, NULL, (const char *[]){"x"}, 1, err);
}
