/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/blockdev/blockdev.h"
#include "base/cleanup.h"

#define DEVICE_SIZE (UINT64_C(8) << 20) /* bytes */

/* Runs the loop until one operation is done. */
struct wait {
	struct op op;
	struct loop *loop;
	bool started;
	int res;
};

static void wait_done(struct op *op, int res)
{
	struct wait *wait = container_of(op, struct wait, op);

	assert_true(wait->started); /* never from inside the call */
	wait->res = res;
	loop_stop(wait->loop);
}

/*
 * A loop runs until it is stopped, for good; so each operation here gets a
 * device and a loop of its own, over the same file.
 */
struct fixture {
	char path[64];
	unsigned flags;
};

static void file_make(struct fixture *f, unsigned flags)
{
	int fd;

	snprintf(f->path, sizeof(f->path), "%s/trib-blockdev.XXXXXX",
		 getenv("TMPDIR") ?: "/tmp");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)DEVICE_SIZE), 0);
	close(fd);
	f->flags = flags;
}

static void file_remove_(struct fixture *f)
{
	unlink(f->path);
}

enum what { READ, WRITE, FLUSH, DISCARD, ZERO, STATUS };

static int run(struct fixture *f, enum what what, void *data, uint64_t length,
	       uint64_t offset, unsigned flags)
{
	struct loop_options options = {.name = "test"};
	struct wait wait = {.op.done = wait_done};
	struct blockdev *dev = NULL;
	struct error err = {0};

	assert_int_equal(loop_new(&options, &wait.loop, &err), 0);
	assert_int_equal(
		blockdev_file_open(wait.loop, f->path, 0, f->flags, &dev, &err),
		0);
	switch (what) {
	case READ:
		blockdev_read(dev, &wait.op, data, (uint32_t)length, offset);
		break;
	case WRITE:
		blockdev_write(dev, &wait.op, data, (uint32_t)length, offset,
			       flags);
		break;
	case FLUSH: blockdev_flush(dev, &wait.op); break;
	case DISCARD:
		blockdev_discard(dev, &wait.op, offset, length, flags);
		break;
	case ZERO:
		blockdev_write_zeroes(dev, &wait.op, offset, length, flags);
		break;
	case STATUS:
		blockdev_get_status(dev, &wait.op, offset, length, data, flags);
		break;
	}
	wait.started = true;
	assert_int_equal(loop_run(wait.loop), 0);
	blockdev_close(dev);
	loop_free(wait.loop);
	return wait.res;
}

static void *aligned(size_t size, int fill)
{
	void *data = NULL;

	assert_int_equal(posix_memalign(&data, 4096, size), 0);
	memset(data, fill, size);
	return data;
}

static void what_was_written_is_read(void **state)
{
	static const unsigned kinds[] = {0, BLOCKDEV_FILE_DIRECT};

	(void)state;
	for (size_t i = 0; i < array_size(kinds); i++) {
		struct fixture f;
		auto_free char *out = aligned(1 << 20, 0x5a);
		auto_free char *in = aligned(1 << 20, 0);

		file_make(&f, kinds[i]);
		assert_int_equal(run(&f, WRITE, out, 1 << 20, 4096, 0), 0);
		assert_int_equal(run(&f, WRITE, out, 4096, 0, BLOCKDEV_FUA), 0);
		assert_int_equal(run(&f, FLUSH, NULL, 0, 0, 0), 0);
		assert_int_equal(run(&f, READ, in, 1 << 20, 4096, 0), 0);
		assert_memory_equal(in, out, 1 << 20);
		file_remove_(&f);
	}
}

/* Cached data is read at once; here only half is cached. */
static void what_is_partly_in_memory_is_read_whole(void **state)
{
	auto_free char *out = aligned(65536, 0x5a);
	auto_free char *in = aligned(65536, 0);
	struct fixture f;
	int fd;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(run(&f, WRITE, out, 65536, 0, BLOCKDEV_FUA), 0);
	fd = open(f.path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(posix_fadvise(fd, 32768, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(run(&f, READ, in, 65536, 0, 0), 0);
		assert_memory_equal(in, out, 65536);
		memset(in, 0, 65536);
	}
	file_remove_(&f);
}

static void zeroed_and_discarded_ranges_read_as_zeroes(void **state)
{
	static const unsigned flags[] = {0, BLOCKDEV_NO_HOLE,
					 BLOCKDEV_FUA | BLOCKDEV_NO_HOLE};
	struct fixture f;
	auto_free char *ones = aligned(1 << 20, 1);
	auto_free char *in = aligned(1 << 20, 1);
	auto_free char *zeroes = aligned(1 << 20, 0);

	(void)state;
	file_make(&f, 0);
	for (size_t i = 0; i < array_size(flags); i++) {
		assert_int_equal(run(&f, WRITE, ones, 1 << 20, 0, 0), 0);
		assert_int_equal(run(&f, ZERO, NULL, 8192, 4096, flags[i]), 0);
		assert_int_equal(run(&f, READ, in, 1 << 20, 0, 0), 0);
		assert_memory_equal(in, ones, 4096);
		assert_memory_equal(in + 4096, zeroes, 8192);
		assert_memory_equal(in + 12288, ones, 4096);
	}
	assert_int_equal(run(&f, DISCARD, NULL, 1 << 20, 0, 0), 0);
	assert_int_equal(run(&f, READ, in, 1 << 20, 0, 0), 0);
	assert_memory_equal(in, zeroes, 1 << 20);
	file_remove_(&f);
}

static uint64_t allocated(const struct fixture *f)
{
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void discard_frees_space_and_no_hole_keeps_it(void **state)
{
	struct fixture f;
	auto_free char *ones = aligned(1 << 20, 1);

	(void)state;
	file_make(&f, 0);
	assert_int_equal(run(&f, WRITE, ones, 1 << 20, 0, BLOCKDEV_FUA), 0);
	assert_true(allocated(&f) >= 1 << 20);
	assert_int_equal(run(&f, ZERO, NULL, 1 << 20, 0, BLOCKDEV_NO_HOLE), 0);
	assert_true(allocated(&f) >= 1 << 20);
	assert_int_equal(run(&f, DISCARD, NULL, 1 << 20, 0, 0), 0);
	assert_true(allocated(&f) < 1 << 19);
	file_remove_(&f);
}

static void status_tells_data_from_holes(void **state)
{
	struct blockdev_status runs[8];
	struct fixture f;
	auto_free char *ones = aligned(1 << 20, 1);

	(void)state;
	file_make(&f, 0);
	assert_int_equal(run(&f, WRITE, ones, 1 << 20, 1 << 20, BLOCKDEV_FUA),
			 0);
	assert_int_equal(run(&f, STATUS, runs, DEVICE_SIZE, 0, 8), 3);
	assert_int_equal(runs[0].length, 1 << 20);
	assert_int_equal(runs[0].flags, BLOCKDEV_HOLE | BLOCKDEV_ZERO);
	assert_int_equal(runs[1].length, 1 << 20);
	assert_int_equal(runs[1].flags, 0);
	assert_int_equal(runs[2].length, DEVICE_SIZE - (2 << 20));
	assert_int_equal(runs[2].flags, BLOCKDEV_HOLE | BLOCKDEV_ZERO);
	/* Fewer runs than there are, and a range that starts inside one. */
	assert_int_equal(run(&f, STATUS, runs, 1 << 20, 3 << 19, 1), 1);
	assert_int_equal(runs[0].length, 1 << 19);
	assert_int_equal(runs[0].flags, 0);
	file_remove_(&f);
}

/* Its owner lengthened the file: what is told is reached, less is ignored. */
static void follows_a_file_that_its_owner_grew(void **state)
{
	struct loop_options options = {.name = "test"};
	struct wait wait = {.op.done = wait_done};
	struct blockdev *dev = NULL;
	struct fixture f;
	char byte = 1;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(loop_new(&options, &wait.loop, NULL), 0);
	assert_int_equal(
		blockdev_file_open(wait.loop, f.path, 0, 0, &dev, NULL), 0);
	assert_false(blockdev_range_ok(dev, DEVICE_SIZE, 1));
	assert_int_equal(truncate(f.path, 2 * DEVICE_SIZE), 0);
	blockdev_grown(dev, 2 * DEVICE_SIZE);
	blockdev_grown(dev, DEVICE_SIZE);
	assert_true(blockdev_range_ok(dev, 2 * DEVICE_SIZE - 1, 1));
	assert_false(blockdev_range_ok(dev, 2 * DEVICE_SIZE, 1));
	blockdev_read(dev, &wait.op, &byte, 1, 2 * DEVICE_SIZE - 1);
	wait.started = true;
	assert_int_equal(loop_run(wait.loop), 0);
	assert_int_equal(wait.res, 0);
	assert_int_equal(byte, 0);
	blockdev_close(dev);
	loop_free(wait.loop);
	file_remove_(&f);
}

static void a_file_cut_short_is_an_error_not_zeroes(void **state)
{
	struct loop_options options = {.name = "test"};
	struct wait wait = {.op.done = wait_done};
	struct blockdev *dev = NULL;
	struct fixture f;
	char byte;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(loop_new(&options, &wait.loop, NULL), 0);
	assert_int_equal(
		blockdev_file_open(wait.loop, f.path, 0, 0, &dev, NULL), 0);
	assert_int_equal(truncate(f.path, 0), 0);
	blockdev_read(dev, &wait.op, &byte, 1, 4096);
	wait.started = true;
	assert_int_equal(loop_run(wait.loop), 0);
	assert_int_equal(wait.res, -EIO);
	blockdev_close(dev);
	loop_free(wait.loop);
	file_remove_(&f);
}

static void a_file_that_is_too_small_or_no_file_is_refused(void **state)
{
	struct loop_options options = {.name = "test"};
	struct loop *loop = NULL;
	struct blockdev *dev = NULL;
	struct error err = {0};
	struct fixture f;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(loop_new(&options, &loop, NULL), 0);
	assert_int_equal(blockdev_file_open(loop, f.path, DEVICE_SIZE + 1, 0,
					    &dev, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "are needed"));
	assert_int_equal(
		blockdev_file_open(loop, "/dev/null", 0, 0, &dev, &err),
		-EINVAL);
	assert_int_equal(
		blockdev_file_open(loop, "/nowhere/x", 0, 0, &dev, &err),
		-ENOENT);
	assert_null(dev);
	loop_free(loop);
	file_remove_(&f);
}

static void ranges_that_wrap_or_end_outside_are_seen(void **state)
{
	struct blockdev dev = {.size = 4096};

	(void)state;
	assert_true(blockdev_range_ok(&dev, 0, 4096));
	assert_true(blockdev_range_ok(&dev, 4095, 1));
	assert_false(blockdev_range_ok(&dev, 4096, 1));
	assert_false(blockdev_range_ok(&dev, 0, 0));
	assert_false(blockdev_range_ok(&dev, UINT64_MAX, 2));
	assert_false(blockdev_range_ok(&dev, 1, UINT64_MAX));
}

static void a_ram_device_keeps_what_is_written(void **state)
{
	struct loop_options options = {.name = "test"};
	struct wait wait = {.op.done = wait_done};
	struct blockdev *dev = NULL;
	char in[16] = {0};

	(void)state;
	assert_int_equal(loop_new(&options, &wait.loop, NULL), 0);
	assert_int_equal(blockdev_ram_open(wait.loop, DEVICE_SIZE, &dev, NULL),
			 0);
	blockdev_write(dev, &wait.op, "0123456789abcdef", 16, 5, 0);
	blockdev_read(dev, &wait.op, in, 16, 5);
	wait.started = true;
	assert_int_equal(loop_run(wait.loop), 0);
	assert_memory_equal(in, "0123456789abcdef", 16);
	blockdev_close(dev);
	loop_free(wait.loop);
	assert_int_equal(blockdev_ram_open(NULL, 0, &dev, NULL), -EINVAL);
}

/* ---- writes on the loop's own thread ---- */

/* Where the thread may block, if at all; each time may take long. */
struct place {
	struct loop_blocking blocking;
	bool may;
	unsigned delay_us;
	unsigned begun, ended;
};

static bool place_begin(struct loop_blocking *blocking, int64_t now_ns)
{
	struct place *place = container_of(blocking, struct place, blocking);

	assert_true(now_ns > 0);
	if (!place->may)
		return false;
	place->begun++;
	if (place->delay_us)
		usleep(place->delay_us);
	return true;
}

static void place_end(struct loop_blocking *blocking)
{
	container_of(blocking, struct place, blocking)->ended++;
}

/* The same write, again and again. */
struct series {
	struct op op;
	struct place *place;
	struct loop *loop;
	struct blockdev *dev;
	const void *data;
	uint32_t length;
	uint64_t offset;
	unsigned flags;
	unsigned left;
	int res;
};

static void series_next(struct series *s)
{
	blockdev_write(s->dev, &s->op, s->data, s->length, s->offset, s->flags);
}

static void series_done(struct op *op, int res)
{
	struct series *s = container_of(op, struct series, op);

	s->res = res;
	s->place->delay_us = 0; /* only the first time */
	if (--s->left > 0)
		series_next(s);
	else
		loop_stop(s->loop);
}

/* @s: what to write, and how often. Returns how often the thread blocked. */
static unsigned series_run(struct fixture *f, struct place *place,
			   struct series *s)
{
	const struct loop_options options = {.blocking = &place->blocking};

	place->blocking.begin = place_begin;
	place->blocking.end = place_end;
	place->begun = place->ended = 0;
	s->op.done = series_done;
	s->place = place;
	assert_int_equal(loop_new(&options, &s->loop, NULL), 0);
	assert_int_equal(blockdev_file_open(s->loop, f->path, 0, f->flags,
					    &s->dev, NULL),
			 0);
	series_next(s);
	assert_int_equal(loop_run(s->loop), 0);
	blockdev_close(s->dev);
	loop_free(s->loop);
	assert_int_equal(place->begun, place->ended);
	return place->begun;
}

static void a_lone_write_is_made_where_the_thread_may_block(void **state)
{
	auto_free char *out = aligned(1 << 20, 0x5a);
	auto_free char *in = aligned(4096, 0);
	struct place place = {.may = true};
	struct fixture f;

	(void)state;
	file_make(&f, 0);
	for (int may = 0; may < 2; may++) {
		struct series s = {
			.data = out,
			.length = 4096,
			.offset = 8192 + 4096 * (uint64_t)may,
			.left = 1, /* more might wait for a processor */
		};

		place.may = may;
		assert_int_equal(series_run(&f, &place, &s), may);
		assert_int_equal(s.res, 0);
		assert_int_equal(run(&f, READ, in, 4096, s.offset, 0), 0);
		assert_memory_equal(in, out, 4096);
	}
	file_remove_(&f);
}

static void only_whole_pages_for_memory_may_block(void **state)
{
	static const struct {
		unsigned open, flags;
		uint32_t length;
		uint64_t offset;
	} others[] = {
		{0, BLOCKDEV_FUA, 4096, 0},
		{0, 0, 512, 0},
		{0, 0, 4096, 512},
		{0, 0, 1 << 20, 0},
		{BLOCKDEV_FILE_DIRECT, 0, 4096, 0},
	};
	auto_free char *out = aligned(1 << 20, 0x5a);
	struct place place = {.may = true};

	(void)state;
	for (size_t i = 0; i < array_size(others); i++) {
		struct series s = {
			.data = out,
			.length = others[i].length,
			.offset = others[i].offset,
			.flags = others[i].flags,
			.left = 1,
		};
		struct fixture f;

		file_make(&f, others[i].open);
		assert_int_equal(series_run(&f, &place, &s), 0);
		assert_int_equal(s.res, 0);
		file_remove_(&f);
	}
}

/* After one that took long the next 32 are the ring's. */
static void a_write_that_waited_leaves_the_next_to_the_ring(void **state)
{
	auto_free char *out = aligned(4096, 0x5a);
	struct place place = {.may = true, .delay_us = 10000};
	struct series s = {.data = out, .length = 4096, .left = 33};
	struct fixture f;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(series_run(&f, &place, &s), 1);
	place.delay_us = 10000;
	s.left = 34;
	assert_int_equal(series_run(&f, &place, &s), 2);
	file_remove_(&f);
}

/* The kernel takes a part of it, and then fails. */
static void a_write_that_fails_where_the_thread_may_block_is_told(void **state)
{
	auto_free char *out = aligned(8192, 0x5a);
	struct place place = {.may = true};
	struct series s = {.data = out, .length = 8192, .left = 1};
	struct fixture f;
	struct rlimit old, limit;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	(void)signal(SIGXFSZ, SIG_IGN);
	limit = old;
	limit.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(series_run(&f, &place, &s), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(s.res, -EFBIG);
	file_remove_(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(what_is_partly_in_memory_is_read_whole),
		cmocka_unit_test(zeroed_and_discarded_ranges_read_as_zeroes),
		cmocka_unit_test(discard_frees_space_and_no_hole_keeps_it),
		cmocka_unit_test(status_tells_data_from_holes),
		cmocka_unit_test(follows_a_file_that_its_owner_grew),
		cmocka_unit_test(a_file_cut_short_is_an_error_not_zeroes),
		cmocka_unit_test(
			a_file_that_is_too_small_or_no_file_is_refused),
		cmocka_unit_test(ranges_that_wrap_or_end_outside_are_seen),
		cmocka_unit_test(a_ram_device_keeps_what_is_written),
		cmocka_unit_test(
			a_lone_write_is_made_where_the_thread_may_block),
		cmocka_unit_test(only_whole_pages_for_memory_may_block),
		cmocka_unit_test(
			a_write_that_waited_leaves_the_next_to_the_ring),
		cmocka_unit_test(
			a_write_that_fails_where_the_thread_may_block_is_told),
	};

	return cmocka_run_group_tests_name("blockdev", tests, NULL, NULL);
}
