/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

enum what { READ, WRITE, FLUSH, DISCARD, ZERO, STATUS, RESIZE };

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
	case RESIZE: blockdev_resize(dev, &wait.op, length); break;
	}
	wait.started = true;
	assert_int_equal(loop_run(wait.loop), 0);
	if (what == RESIZE && wait.res == 0)
		assert_int_equal(dev->size, length);
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

static void resize_grows_the_file(void **state)
{
	struct fixture f;
	struct stat st;

	(void)state;
	file_make(&f, 0);
	assert_int_equal(run(&f, RESIZE, NULL, 2 * DEVICE_SIZE, 0, 0), 0);
	assert_int_equal(stat(f.path, &st), 0);
	assert_int_equal(st.st_size, 2 * DEVICE_SIZE);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(what_is_partly_in_memory_is_read_whole),
		cmocka_unit_test(zeroed_and_discarded_ranges_read_as_zeroes),
		cmocka_unit_test(discard_frees_space_and_no_hole_keeps_it),
		cmocka_unit_test(status_tells_data_from_holes),
		cmocka_unit_test(resize_grows_the_file),
		cmocka_unit_test(follows_a_file_that_its_owner_grew),
		cmocka_unit_test(a_file_cut_short_is_an_error_not_zeroes),
		cmocka_unit_test(
			a_file_that_is_too_small_or_no_file_is_refused),
		cmocka_unit_test(ranges_that_wrap_or_end_outside_are_seen),
		cmocka_unit_test(a_ram_device_keeps_what_is_written),
	};

	return cmocka_run_group_tests_name("blockdev", tests, NULL, NULL);
}
