/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop_internal.h"
#include "base/loop_kit.h"

#define KIB UINT32_C(1024)

static void pipes_count_as_other_buffers_do(void **state)
{
	struct loop *loop = loop_make(0); /* 1 MiB of them */
	struct iobuf *kept = loop_iobuf_get(loop, 1024 * KIB);
	struct iobuf *a, *b, *small;

	(void)state;
	assert_true(loop_features(loop) & LOOP_PIPES);
	assert_null(loop_iobuf_get_pipe(loop, 1));
	loop_iobuf_put(loop, kept);
	a = loop_iobuf_get_pipe(loop, 1000 * KIB + 1);
	assert_non_null(a);
	assert_null(a->data);
	assert_int_equal(a->size, 1004 * KIB);
	assert_int_equal(loop_iobufs_in_use(loop), 1004 * KIB);
	assert_true(loop->buffers.allocated <= 1024 * KIB);
	assert_null(loop_iobuf_get_pipe(loop, 24 * KIB));
	b = loop_iobuf_get_pipe(loop, 20 * KIB);
	assert_non_null(b);
	assert_null(loop_iobuf_get(loop, 1));
	loop_iobuf_put(loop, b);
	small = loop_iobuf_get(loop, 16 * KIB);
	assert_non_null(small);
	loop_iobuf_put(loop, small);
	loop_iobuf_put(loop, a);
	assert_int_equal(loop_iobufs_in_use(loop), 0);
	loop_free(loop);
}

static void what_is_left_in_a_pipe_is_not_for_the_next(void **state)
{
	struct loop *loop = loop_make(0);
	struct iobuf *buf = loop_iobuf_get_pipe(loop, 4096);
	int bytes = -1;

	(void)state;
	assert_non_null(buf);
	assert_int_equal(write(buf->pipe_in, "left", 4), 4);
	buf->piped = 4;
	loop_iobuf_put(loop, buf);
	buf = loop_iobuf_get_pipe(loop, 4096);
	assert_non_null(buf);
	assert_int_equal(buf->piped, 0);
	assert_int_equal(ioctl(buf->pipe_out, FIONREAD, &bytes), 0);
	assert_int_equal(bytes, 0);
	loop_iobuf_put(loop, buf);
	loop_free(loop);
}

static void there_are_only_so_many(void **state)
{
	struct loop *loop = loop_make(0);
	struct iobuf *bufs[IOBUF_PIPES];

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < IOBUF_PIPES; i++) {
			bufs[i] = loop_iobuf_get_pipe(loop, 4096);
			assert_non_null(bufs[i]);
		}
		assert_null(loop_iobuf_get_pipe(loop, 4096));
		for (unsigned i = 0; i < IOBUF_PIPES; i++)
			loop_iobuf_put(loop, bufs[i]);
	}
	loop_free(loop);
}

static void a_loop_may_do_without(void **state)
{
	struct loop *loop = loop_make(LOOP_PIPES);

	(void)state;
	assert_int_equal(loop_features(loop) & LOOP_PIPES, 0);
	assert_null(loop_iobuf_get_pipe(loop, 4096));
	loop_free(loop);
}

static int run_out_of_descriptors(void)
{
	struct loop *loop = loop_make(0);
	struct iobuf *first = loop_iobuf_get_pipe(loop, 4096); /* made before */
	struct rlimit none = {0, 0};
	int r = 0;

	if (setrlimit(RLIMIT_NOFILE, &none) < 0)
		return LOOP_KIT_CANNOT;
	if (!first || loop_iobuf_get_pipe(loop, 4096))
		r = 1;
	loop_iobuf_put(loop, first);
	first = loop_iobuf_get_pipe(loop, 4096);
	if (!first)
		return 2;
	loop_iobuf_put(loop, first);
	loop_free(loop);
	return r;
}

static void where_no_descriptor_is_left_there_is_none(void **state)
{
	(void)state;
	loop_kit_pass_in_child(run_out_of_descriptors);
}

static void a_pipe_holds_pages(void **state)
{
	uint64_t page = (uint64_t)getpagesize();

	(void)state;
	assert_true(loop_pipe_holds(0, LOOP_PIPE_MAX));
	assert_true(loop_pipe_holds(5 * page, LOOP_PIPE_MAX));
	assert_false(loop_pipe_holds(0, LOOP_PIPE_MAX + 1));
	assert_false(loop_pipe_holds(page - 1, LOOP_PIPE_MAX));
	assert_true(loop_pipe_holds(page - 1, LOOP_PIPE_MAX - page + 1));
	assert_false(loop_pipe_holds(1, UINT64_MAX));
}

/* As much as it is said to hold, and from the middle of a page, in one go. */
static void what_it_holds_it_takes_at_once(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} ranges[] = {{0, LOOP_PIPE_MAX}, {4095, LOOP_PIPE_MAX - 4095}};
	auto_close int fd = memfd_create("pages", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 4 << 20), 0);
	for (size_t i = 0; i < array_size(ranges); i++) {
		struct loop *loop = loop_make(0);
		int left = 1;
		struct count count = {
			.op.done = count_done, .loop = loop, .left = &left};
		struct iobuf *buf = loop_iobuf_get_pipe(loop, ranges[i].length);

		assert_non_null(buf);
		loop_read_pipe(loop, &count.op, fd, buf, ranges[i].length,
			       ranges[i].offset);
		assert_int_equal(loop_run(loop), 0);
		assert_int_equal(count.res, ranges[i].length);
		buf->piped = ranges[i].length;
		loop_iobuf_put(loop, buf);
		loop_free(loop);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipes_count_as_other_buffers_do),
		cmocka_unit_test(what_is_left_in_a_pipe_is_not_for_the_next),
		cmocka_unit_test(there_are_only_so_many),
		cmocka_unit_test(a_loop_may_do_without),
		cmocka_unit_test(where_no_descriptor_is_left_there_is_none),
		cmocka_unit_test(a_pipe_holds_pages),
		cmocka_unit_test(what_it_holds_it_takes_at_once),
	};

	return cmocka_run_group_tests_name("iobuf_pipe", tests, NULL, NULL);
}
