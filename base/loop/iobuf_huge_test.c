/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of huge pages; where there are none, only that they work. */
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
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop/iobuf_huge.h"
#include "base/loop/loop_internal.h"
#include "base/testkit/loop_kit.h"

#define MIB (UINT32_C(1) << 20)

static struct loop *loop_of(size_t limit, unsigned without)
{
	const struct loop_options options = {
		.name = "test", .buffer_limit = limit, .without = without};
	struct loop *loop = NULL;

	assert_int_equal(loop_new(&options, &loop, NULL), 0);
	return loop;
}

/* The line @name of the mapping that has @data, without the name. */
static void smaps_read(const void *data, const char *name, char text[512])
{
	auto_fclose FILE *f = fopen("/proc/self/smaps", "re");
	const size_t length = strlen(name);
	char line[512];
	bool here = false;

	assert_non_null(f);
	text[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		uintptr_t start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = (uintptr_t)data >= start &&
			       (uintptr_t)data < end;
		else if (here && strncmp(line, name, length) == 0)
			memcpy(text, line + length, sizeof(line) - length);
	}
}

/* Bytes of huge pages in the mapping that has @data. */
static size_t huge_at(const void *data)
{
	char text[512];

	smaps_read(data, "AnonHugePages:", text);
	return strtoul(text, NULL, 10) << 10;
}

/* Tell whether @data gets huge pages, as far as there are any. */
static bool wants_huge(const void *data)
{
	char text[512];

	smaps_read(data, "VmFlags:", text);
	return strstr(text, " hg") != NULL;
}

/* Return the resident memory of this process, bytes. */
static size_t resident(void)
{
	auto_fclose FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, pages;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void read_whole(struct loop *loop, int fd, struct iobuf *to)
{
	int left = 1;
	struct count count = {
		.op.done = count_done, .loop = loop, .left = &left};

	loop_read_cached(loop, &count.op, fd, to->data, MIB, 0);
	atomic_store(&loop->stopping, false);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(count.res, MIB);
}

/* Its page counts whole, but the other half of it is nobody's data. */
static void who_reads_1_mib_alone_does_so_itself(void **state)
{
	auto_close int fd = memfd_create("file", MFD_CLOEXEC);
	struct loop *loop = loop_of(16 * MIB, 0);
	struct iobuf *bufs[3];

	(void)state;
	assert_int_equal(ftruncate(fd, MIB), 0);
	bufs[0] = loop_iobuf_get(loop, MIB);
	read_whole(loop, fd, bufs[0]);
	assert_int_equal(loop->forced_async_ops, 0);
	bufs[1] = loop_iobuf_get(loop, MIB);
	bufs[2] = loop_iobuf_get(loop, MIB);
	read_whole(loop, fd, bufs[2]);
	assert_int_equal(loop->forced_async_ops, 1);
	for (int i = 0; i < 3; i++)
		loop_iobuf_put(loop, bufs[i]);
	loop_free(loop);
}

static void two_of_1_mib_are_one_huge_page(void **state)
{
	(void)state;
	if (!iobuf_huge_offered())
		skip();
	for (size_t s = 0; s < LOOP_WITHOUT_SETS; s++) {
		struct loop *loop = loop_of(8 * MIB, loop_without_sets[s]);
		struct iobuf *a = loop_iobuf_get(loop, MIB);
		struct iobuf *b = loop_iobuf_get(loop, MIB);
		char *low = a->data < b->data ? a->data : b->data;

		memset(a->data, 1, MIB);
		memset(b->data, 2, MIB);
		assert_int_equal((uintptr_t)low % IOBUF_HUGE, 0);
		assert_int_equal(labs((char *)a->data - (char *)b->data), MIB);
		assert_true(wants_huge(low));
		assert_int_equal(huge_at(low) % IOBUF_HUGE, 0);
		assert_true(huge_at(low) > 0);
		assert_int_equal(((char *)a->data)[MIB - 1], 1);
		loop_iobuf_put(loop, a);
		loop_iobuf_put(loop, b);
		loop_free(loop);
	}
}

static void larger_ones_are_whole_huge_pages(void **state)
{
	(void)state;
	if (!iobuf_huge_offered())
		skip();
	for (uint32_t size = 2 * MIB; size <= 16 * MIB; size *= 2) {
		struct loop *loop = loop_of(32 * MIB, 0);
		struct iobuf *buf = loop_iobuf_get(loop, size);

		memset(buf->data, 1, size);
		assert_int_equal((uintptr_t)buf->data % IOBUF_HUGE, 0);
		assert_true(wants_huge(buf->data));
		assert_true(huge_at(buf->data) > 0);
		loop_iobuf_put(loop, buf);
		loop_free(loop);
	}
}

/* One small buffer must not have a huge page locked for it. */
static void small_ones_are_not_huge(void **state)
{
	struct loop *loop = loop_of(8 * MIB, 0);
	struct iobuf *buf = loop_iobuf_get(loop, MIB / 2);

	(void)state;
	memset(buf->data, 1, buf->size);
	assert_int_equal(huge_at(buf->data), 0);
	loop_iobuf_put(loop, buf);
	loop_free(loop);
}

static void a_page_counts_whole_while_half_of_it_is_used(void **state)
{
	struct loop *loop = loop_of(4 * MIB, 0);
	struct iobuf *a, *b, *rest[2];

	(void)state;
	if (!iobuf_huge_offered())
		skip();
	a = loop_iobuf_get(loop, MIB);
	assert_int_equal(loop_iobufs_in_use(loop), 2 * MIB);
	b = loop_iobuf_get(loop, MIB);
	assert_int_equal(loop_iobufs_in_use(loop), 2 * MIB);
	rest[0] = loop_iobuf_get(loop, 2 * MIB);
	assert_non_null(rest[0]);
	loop_iobuf_put(loop, a);
	assert_int_equal(loop_iobufs_in_use(loop), 4 * MIB);
	assert_null(loop_iobuf_get(loop, 4096));
	rest[1] = loop_iobuf_get(loop, MIB); /* the other half */
	assert_ptr_equal(rest[1], a);
	assert_null(loop_iobuf_get(loop, MIB));
	loop_iobuf_put(loop, rest[1]);
	loop_iobuf_put(loop, b);
	assert_int_equal(loop_iobufs_in_use(loop), 2 * MIB);
	assert_int_equal(loop->buffers.allocated, 4 * MIB);
	loop_iobuf_put(loop, rest[0]);
	assert_int_equal(loop_iobufs_in_use(loop), 0);
	loop_free(loop);
}

/* Where a page has no room any more, half of one may have. */
static void what_is_left_of_the_limit_is_had(void **state)
{
	struct loop *loop = loop_of(3 * MIB, 0);
	struct iobuf *bufs[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		bufs[i] = loop_iobuf_get(loop, MIB);
		assert_non_null(bufs[i]);
		memset(bufs[i]->data, i, MIB);
	}
	assert_null(loop_iobuf_get(loop, 1));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(*(char *)bufs[i]->data, i);
		loop_iobuf_put(loop, bufs[i]);
	}
	assert_int_equal(loop_iobufs_in_use(loop), 0);
	loop_free(loop);
}

#define MANY 64

/* In any order, in use and kept: no more than the limit, and none twice. */
static void pairs_stay_within_the_limit(void **state)
{
	const size_t limit = 24 * MIB;
	struct loop *loop = loop_of(limit, 0);
	struct iobuf *bufs[MANY] = {NULL};
	unsigned random = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		unsigned i = (random = random * 1103515245 + 12345) >> 16;
		struct iobuf **buf = &bufs[i % MANY];
		uint32_t size = i & 0x4000 ? MIB : MIB << (i >> 12) % 3;

		if (*buf) {
			assert_int_equal(*(unsigned *)(*buf)->data, i % MANY);
			loop_iobuf_put(loop, *buf);
			*buf = NULL;
			continue;
		}
		*buf = loop_iobuf_get(loop, size);
		if (*buf)
			*(unsigned *)(*buf)->data = i % MANY;
		assert_true(loop_iobufs_in_use(loop) <= limit);
		assert_true(loop->buffers.allocated <= limit);
	}
	for (int i = 0; i < MANY; i++)
		if (bufs[i])
			loop_iobuf_put(loop, bufs[i]);
	assert_int_equal(loop_iobufs_in_use(loop), 0);
	loop_free(loop);
}

static void a_page_is_given_back_for_others_and_at_the_end(void **state)
{
	struct loop *loop = loop_of(16 * MIB, 0);
	struct iobuf *bufs[16], *large;
	size_t before;

	(void)state;
#if defined(__SANITIZE_THREAD__)
	print_message("ThreadSanitizer keeps a shadow of what was used\n");
	skip();
#endif
	if (!iobuf_huge_offered())
		skip();
	before = resident();
	for (int i = 0; i < 16; i++) {
		bufs[i] = loop_iobuf_get(loop, MIB);
		memset(bufs[i]->data, 1, MIB);
	}
	assert_true(resident() >= before + 16 * MIB);
	for (int i = 0; i < 16; i++)
		loop_iobuf_put(loop, bufs[i]);
	large = loop_iobuf_get(loop, 16 * MIB); /* takes the place of all */
	assert_non_null(large);
	assert_int_equal(loop->buffers.allocated, 16 * MIB);
	assert_true(resident() < before + 4 * MIB);
	memset(large->data, 1, large->size);
	loop_iobuf_put(loop, large);
	bufs[0] = loop_iobuf_get(loop, MIB); /* and gives it back */
	assert_int_equal(loop->buffers.allocated, 2 * MIB);
	assert_true(resident() < before + 4 * MIB);
	loop_iobuf_put(loop, bufs[0]);
	loop_free(loop);
}

/* The pages of what is used again were made before. */
static void a_page_is_made_once(void **state)
{
	struct loop *loop = loop_of(8 * MIB, 0);
	struct rusage before, after;

	(void)state;
	for (int round = 0; round < 100; round++) {
		struct iobuf *a = loop_iobuf_get(loop, MIB);
		struct iobuf *b = loop_iobuf_get(loop, MIB);

		if (round == 1)
			assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
		memset(a->data, round, MIB);
		memset(b->data, round, MIB);
		loop_iobuf_put(loop, a);
		loop_iobuf_put(loop, b);
	}
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_true(after.ru_minflt - before.ru_minflt < 100);
	loop_free(loop);
}

/* ---- in a process of its own ---- */

/* Buffers that work, and whether huge pages were wanted for them. */
static int use_of(struct loop *loop, bool huge)
{
	struct iobuf *buf = loop_iobuf_get(loop, MIB);
	int fd = memfd_create("iobuf", MFD_CLOEXEC), left = 1;
	struct count count = {
		.op.done = count_done, .loop = loop, .left = &left};

	memset(buf->data, 3, MIB);
	loop_write(loop, &count.op, fd, buf->data, MIB, 0, 0);
	if (loop_run(loop) < 0 || count.res != (int)MIB)
		return 1;
	return wants_huge(buf->data) == huge ? 0 : 2;
}

static int without_huge_pages(void)
{
	struct loop *loop;

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		return LOOP_KIT_CANNOT;
	if (iobuf_huge_offered())
		return 3;
	loop = loop_of(8 * MIB, 0);
	if (use_of(loop, false))
		return 4;
	return loop_iobufs_in_use(loop) == MIB ? 0 : 5;
}

/* A user who may lock less than a huge page: the disk gets them all the same.
 */
static int little_locked_memory(void)
{
	const struct rlimit limit = {MIB, MIB};
	struct loop *loop;

	if (!iobuf_huge_offered() || setrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
	    (geteuid() == 0 && setuid(1000000 + (uid_t)getpid()) < 0))
		return LOOP_KIT_CANNOT;
	/* smaps is then another's */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return LOOP_KIT_CANNOT;
	loop = loop_of(8 * MIB, 0);
	if (use_of(loop, true))
		return 6;
	return loop->fixed_ops ? 7 : 0;
}

static void who_may_have_none_has_small_pages(void **state)
{
	(void)state;
	loop_kit_pass_in_child(without_huge_pages);
}

static void what_may_not_be_locked_is_huge_all_the_same(void **state)
{
	(void)state;
	loop_kit_pass_in_child(little_locked_memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_reads_1_mib_alone_does_so_itself),
		cmocka_unit_test(two_of_1_mib_are_one_huge_page),
		cmocka_unit_test(larger_ones_are_whole_huge_pages),
		cmocka_unit_test(small_ones_are_not_huge),
		cmocka_unit_test(a_page_counts_whole_while_half_of_it_is_used),
		cmocka_unit_test(what_is_left_of_the_limit_is_had),
		cmocka_unit_test(pairs_stay_within_the_limit),
		cmocka_unit_test(
			a_page_is_given_back_for_others_and_at_the_end),
		cmocka_unit_test(a_page_is_made_once),
		cmocka_unit_test(who_may_have_none_has_small_pages),
		cmocka_unit_test(what_may_not_be_locked_is_huge_all_the_same),
	};

	return cmocka_run_group_tests_name("iobuf huge", tests, NULL, NULL);
}
