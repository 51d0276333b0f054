/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop/loop_internal.h"
#include "base/testkit/loop_kit.h"

#define KIB UINT32_C(1024)

static void buffers_are_bounded_and_reused(void **state)
{
	struct loop *loop = loop_make(0); /* 1 MiB of them */
	struct iobuf *large = loop_iobuf_get(loop, (1 << 19) + 1);
	struct iobuf *small;

	(void)state;
	assert_non_null(large);
	assert_int_equal(large->size, 1 << 20);
	assert_int_equal((uintptr_t)large->data & 4095, 0);
	assert_null(loop_iobuf_get(loop, 1));
	loop_iobuf_put(loop, large);
	small = loop_iobuf_get(loop, 1); /* the kept large one makes room */
	assert_non_null(small);
	assert_int_equal(small->size, 4096);
	loop_iobuf_put(loop, small);
	loop_free(loop);
}

/* Holding all of the rest takes nothing of the reserve, and the other way. */
static void the_reserve_is_beside_the_rest(void **state)
{
	struct loop *loop = loop_make(0); /* 1 MiB, and an eighth */
	struct iobuf *all = loop_iobuf_get(loop, 1024 * KIB);
	struct iobuf *a = loop_iobuf_get_reserve(loop, 64 * KIB);
	struct iobuf *b = loop_iobuf_get_reserve(loop, 64 * KIB);

	(void)state;
	assert_non_null(all);
	assert_non_null(a);
	assert_non_null(b);
	assert_null(loop_iobuf_get_reserve(loop, 1));
	loop_iobuf_put(loop, a);
	assert_null(loop_iobuf_get(loop, 1)); /* kept, but not for these */
	loop_iobuf_put(loop, all);
	all = loop_iobuf_get(loop, 1024 * KIB);
	assert_non_null(all);
	a = loop_iobuf_get_reserve(loop, 1);
	assert_non_null(a);
	loop_iobuf_put(loop, a);
	loop_iobuf_put(loop, b);
	loop_iobuf_put(loop, all);
	loop_free(loop);
}

/* What the kernel keeps of our pages for rings, bytes. */
static size_t pinned(void)
{
	auto_fclose FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	size_t kib = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "VmPin:", 6) == 0)
			kib = strtoul(line + 6, NULL, 10);
	return kib * KIB;
}

/* A ring that has gone lets go a little later. */
static void pinned_none(void)
{
	for (int i = 0; i < 3000 && pinned() > 0; i++)
		(void)usleep(10000);
	assert_int_equal(pinned(), 0);
}

static bool has_fixed(void)
{
	struct loop *loop = loop_make(0);
	bool has = loop_features(loop) & LOOP_FIXED_BUFFERS;

	loop_free(loop);
	return has;
}

/* One operation, from start to end: a loop that was stopped stays so. */
static void transfer(struct loop *loop, int fd, void *data, uint32_t length,
		     uint64_t offset, bool writes)
{
	int left = 1;
	struct count count = {
		.op.done = count_done, .loop = loop, .left = &left};

	if (writes)
		loop_write(loop, &count.op, fd, data, length, offset, 0);
	else
		loop_read(loop, &count.op, fd, data, length, offset);
	atomic_store(&loop->stopping, false);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(count.res, length);
}

static void read_cached(struct loop *loop, int fd, struct iobuf *to,
			uint32_t length, char is)
{
	const char *data = to->data;
	int left = 1;
	struct count count = {
		.op.done = count_done, .loop = loop, .left = &left};

	memset(to->data, ~is, to->size);
	loop_read_cached(loop, &count.op, fd, to->data, length, 0);
	atomic_store(&loop->stopping, false);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(count.res, length);
	for (uint32_t i = 0; i < length; i++)
		if (data[i] != is)
			fail_msg("byte %u of %u", i, length);
}

static int file_make(void)
{
	int fd = memfd_create("iobuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2048 * KIB), 0);
	return fd;
}

static void registered_memory_is_that_of_the_buffers(void **state)
{
	struct loop *loop;
	struct iobuf *a, *b;

	(void)state;
	if (!has_fixed())
		skip();
	pinned_none();
	loop = loop_make(0);
	a = loop_iobuf_get(loop, 64 * KIB);
	b = loop_iobuf_get(loop, 5000);
	assert_int_equal(pinned(), 72 * KIB);
	loop_iobuf_put(loop, a);
	loop_iobuf_put(loop, b);
	assert_int_equal(pinned(), 72 * KIB); /* for the next */
	a = loop_iobuf_get(loop, 1024 * KIB); /* takes the place of both */
	assert_int_equal(pinned(), 1024 * KIB);
	loop_iobuf_put(loop, a);
	loop_free(loop);
	pinned_none();
	loop = loop_make(LOOP_FIXED_BUFFERS);
	a = loop_iobuf_get(loop, 64 * KIB);
	assert_int_equal(pinned(), 0);
	loop_iobuf_put(loop, a);
	loop_free(loop);
}

/* From and to any place in a buffer of each size; to each, from each. */
static void all_of_a_buffer_takes_part_in_operations(void **state)
{
	(void)state;
	for (size_t s = 0; s < LOOP_WITHOUT_SETS; s++) {
		struct loop *loop = loop_make(loop_without_sets[s]);
		const bool fixed = loop_features(loop) & LOOP_FIXED_BUFFERS;
		auto_close int fd = file_make();

		for (uint32_t size = 4 * KIB; size <= 512 * KIB; size *= 2) {
			struct iobuf *from = loop_iobuf_get(loop, size);
			struct iobuf *to = loop_iobuf_get(loop, size);
			const uint64_t ops = loop->fixed_ops;
			char *a = from->data, *b = to->data;

			for (uint32_t i = 0; i < size; i++)
				a[i] = (char)(i * 31 + i / 4096 + size / 4096);
			memset(b, 0, size);
			transfer(loop, fd, a, size, 0, true);
			transfer(loop, fd, b, 1, 0, false);
			transfer(loop, fd, b + 1, size - 3, 1, false);
			transfer(loop, fd, b + size - 2, 2, size - 2, false);
			assert_memory_equal(a, b, size);
			assert_int_equal(loop->fixed_ops - ops, fixed ? 4 : 0);
			loop_iobuf_put(loop, from);
			loop_iobuf_put(loop, to);
		}
		loop_free(loop);
	}
}

/* Starts are counted; what is read is the same. */
static void a_long_copy_is_forced_async_when_others_have_data(void **state)
{
	(void)state;
	for (size_t s = 0; s < LOOP_WITHOUT_SETS; s++) {
		struct loop *loop = loop_make(loop_without_sets[s]);
		auto_close int fd = file_make();
		struct iobuf *from = loop_iobuf_get(loop, 512 * KIB);
		struct iobuf *to;

		memset(from->data, 'a', from->size);
		transfer(loop, fd, from->data, from->size, 0, true);
		loop_iobuf_put(loop, from);
		to = loop_iobuf_get(loop, 512 * KIB);
		read_cached(loop, fd, to, 512 * KIB, 'a');
		assert_int_equal(loop->forced_async_ops, 0); /* nobody else */
		from = loop_iobuf_get(loop, 512 * KIB);
		read_cached(loop, fd, to, 256 * KIB, 'a');
		assert_int_equal(loop->forced_async_ops, 0); /* short */
		read_cached(loop, fd, to, 512 * KIB, 'a');
		assert_int_equal(loop->forced_async_ops, 1);
		loop_iobuf_put(loop, from);
		loop_iobuf_put(loop, to);
		loop_free(loop);
	}
}

/* The ring must forget the memory of those that made room. */
static void a_place_that_is_used_again_has_its_new_memory(void **state)
{
	struct loop *loop = loop_make(0);
	auto_close int fd = file_make();

	(void)state;
	for (int round = 0; round < 20; round++) {
		uint32_t size = round % 2 ? 1024 * KIB : 256 * KIB;
		struct iobuf *buf = loop_iobuf_get(loop, size);
		char *data = buf->data;

		memset(data, round + 1, size);
		transfer(loop, fd, data, size, 0, true);
		memset(data, 0, size);
		transfer(loop, fd, data, size, 0, false);
		assert_int_equal(data[0], round + 1);
		assert_int_equal(data[size - 1], round + 1);
		loop_iobuf_put(loop, buf);
	}
	loop_free(loop);
}

#define MANY 512

static void more_buffers_than_the_ring_knows_work_as_well(void **state)
{
	struct loop_options options = {.name = "test"};
	struct loop *loop = NULL;
	auto_close int fd = file_make();
	struct iobuf *bufs[MANY];
	bool fixed;

	(void)state;
	pinned_none();
	assert_int_equal(loop_new(&options, &loop, NULL), 0);
	fixed = loop_features(loop) & LOOP_FIXED_BUFFERS;
	for (unsigned i = 0; i < MANY; i++) {
		bufs[i] = loop_iobuf_get(loop, 4 * KIB);
		assert_non_null(bufs[i]);
		memset(bufs[i]->data, (int)i % 251, 4 * KIB);
	}
	if (fixed)
		assert_int_equal(pinned(), IOBUF_FIXED_SLOTS * 4 * KIB);
	for (unsigned i = 0; i < MANY; i++)
		transfer(loop, fd, bufs[i]->data, 4 * KIB, i * UINT64_C(4096),
			 true);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned char byte = 255;

		assert_int_equal(pread(fd, &byte, 1, i * 4096 + 4095), 1);
		assert_int_equal(byte, i % 251);
		loop_iobuf_put(loop, bufs[i]);
	}
	if (fixed)
		assert_int_equal(loop->fixed_ops, IOBUF_FIXED_SLOTS);
	loop_free(loop);
}

#define LOCKED (64 * KIB)

/* As a user of its own, who may lock little. */
static int little_locked_memory(void)
{
	const struct rlimit limit = {LOCKED, LOCKED};
	const struct loop_options options = {.name = "test"};
	struct iobuf *bufs[32];
	struct loop *loop;
	int fd = file_make();

	if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
	    (geteuid() == 0 && setuid(1000000 + (uid_t)getpid()) < 0) ||
	    loop_new(&options, &loop, NULL) < 0)
		return LOOP_KIT_CANNOT;
	for (int i = 0; i < 32; i++) {
		bufs[i] = loop_iobuf_get(loop, 4 * KIB);
		if (!bufs[i])
			return 1;
		memset(bufs[i]->data, i + 1, 4 * KIB);
	}
	for (int i = 0; i < 32; i++)
		transfer(loop, fd, bufs[i]->data, 4 * KIB, i * UINT64_C(4096),
			 true);
	for (int i = 0; i < 32; i++) {
		transfer(loop, fd, bufs[31 - i]->data, 4 * KIB,
			 i * UINT64_C(4096), false);
		if (*(char *)bufs[31 - i]->data != i + 1)
			return 2;
	}
	if (loop->features & LOOP_FIXED_BUFFERS && !loop->fixed_ops)
		return 3;
	return loop->fixed_ops > LOCKED / (4 * KIB) * 2 ? 4 : 0;
}

static void what_may_not_be_locked_is_not_registered(void **state)
{
	(void)state;
	loop_kit_pass_in_child(little_locked_memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_are_bounded_and_reused),
		cmocka_unit_test(the_reserve_is_beside_the_rest),
		cmocka_unit_test(registered_memory_is_that_of_the_buffers),
		cmocka_unit_test(all_of_a_buffer_takes_part_in_operations),
		cmocka_unit_test(
			a_long_copy_is_forced_async_when_others_have_data),
		cmocka_unit_test(a_place_that_is_used_again_has_its_new_memory),
		cmocka_unit_test(more_buffers_than_the_ring_knows_work_as_well),
		cmocka_unit_test(what_may_not_be_locked_is_not_registered),
	};

	return cmocka_run_group_tests_name("iobuf", tests, NULL, NULL);
}
