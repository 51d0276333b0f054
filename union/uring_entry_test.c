/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/uring_cpus.h"
#include "union/uring_entry.h"

#include <cmocka.h>

static struct uring_entries entries;
static struct uring_entry *one, *two;
static char data[URING_REQUEST_MAX];
static int me, other; /* whoever they are */

static int setup(void **state)
{
	(void)state;
	memset(&entries, 0, sizeof(entries));
	one = uring_entry_new(&entries, NULL, 0, &me);
	two = uring_entry_new(&entries, NULL, 1, &me);
	return one && two ? 0 : -1;
}

static int done(void **state)
{
	(void)state;
	uring_entries_done(&entries);
	return 0;
}

/* As the kernel puts it there. */
static int put(struct uring_entry *entry, uint64_t unique, size_t op,
	       const char *payload)
{
	const struct fuse_in_header in = {
		.len = (uint32_t)(sizeof(in) + op + strlen(payload) + 1),
		.opcode = FUSE_LOOKUP,
		.unique = unique,
	};

	memcpy(entry->place.headers->in_out, &in, sizeof(in));
	memset(entry->place.headers->op_in, 'o', op);
	memcpy(entry->place.payload, payload, strlen(payload) + 1);
	entry->place.headers->ring = (struct uring_ent_in_out){
		.commit_id = unique + 1000,
		.payload_size = (uint32_t)strlen(payload) + 1,
	};
	return uring_entry_begin(entry, data, 0);
}

static int reply(struct uring_entry *first, uint64_t unique, int error,
		 const char *text)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + strlen(text)),
		.error = error,
		.unique = unique,
	};
	char head[2] = {0};
	struct iovec iov[4] = {{&out, sizeof(out)}};
	int n = 1;

	if (*text) { /* in parts, one of them empty */
		head[0] = *text;
		iov[1] = (struct iovec){head, 1};
		iov[2] = (struct iovec){NULL, 0};
		iov[3] = (struct iovec){(void *)(uintptr_t)(text + 1),
					strlen(text) - 1};
		n = 4;
	}
	return uring_entries_reply(&entries, first, iov, n);
}

static struct fuse_out_header out_of(const struct uring_entry *entry)
{
	struct fuse_out_header out;

	memcpy(&out, entry->place.headers->in_out, sizeof(out));
	return out;
}

static void a_request_is_as_it_was_read(void **state)
{
	struct fuse_in_header in;
	int length;

	(void)state;
	length = put(one, 7, 16, "name");
	assert_int_equal(length, sizeof(in) + 16 + 5);
	memcpy(&in, data, sizeof(in));
	assert_int_equal(in.unique, 7);
	assert_int_equal(in.len, length);
	assert_int_equal(data[sizeof(in) + 15], 'o');
	assert_string_equal(data + sizeof(in) + 16, "name");
	/* One without a header of its own. */
	length = put(one, 8, 0, "other");
	assert_string_equal(data + sizeof(in), "other");
}

static void sizes_that_cannot_be_are_refused(void **state)
{
	struct fuse_in_header in = {.unique = 7};
	struct uring_ent_in_out *ring = &one->place.headers->ring;

	(void)state;
	in.len = sizeof(in) - 1;
	memcpy(one->place.headers->in_out, &in, sizeof(in));
	assert_int_equal(uring_entry_begin(one, data, 0), -EPROTO);
	in.len = sizeof(in) + 8;
	memcpy(one->place.headers->in_out, &in, sizeof(in));
	ring->payload_size = 9; /* more than all */
	assert_int_equal(uring_entry_begin(one, data, 0), -EPROTO);
	in.len = sizeof(in) + URING_OP_IN_SIZE + 1;
	memcpy(one->place.headers->in_out, &in, sizeof(in));
	ring->payload_size = 0;
	assert_int_equal(uring_entry_begin(one, data, 0), -EPROTO);
	in.len = UINT32_MAX;
	memcpy(one->place.headers->in_out, &in, sizeof(in));
	ring->payload_size = URING_PAYLOAD + 1;
	assert_int_equal(uring_entry_begin(one, data, 0), -EPROTO);
	/* The largest there is; and it can be answered, as those can. */
	in.len = sizeof(in) + URING_OP_IN_SIZE + URING_PAYLOAD;
	memcpy(one->place.headers->in_out, &in, sizeof(in));
	ring->payload_size = URING_PAYLOAD;
	assert_int_equal(uring_entry_begin(one, data, 0), in.len);
	assert_true(reply(one, 7, -EIO, "") > 0);
}

static void a_reply_goes_to_its_request(void **state)
{
	(void)state;
	put(one, 7, 0, "a");
	put(two, 8, 0, "b");
	assert_int_equal(uring_entry_end(one, &me), 0); /* not yet */
	assert_int_equal(reply(one, 8, 0, "text"),
			 sizeof(struct fuse_out_header) + 4);
	assert_int_equal(out_of(two).unique, 8);
	assert_int_equal(out_of(two).error, 0);
	assert_int_equal(out_of(two).len, sizeof(struct fuse_out_header) + 4);
	assert_int_equal(two->place.headers->ring.payload_size, 4);
	assert_memory_equal(two->place.payload, "text", 4);
	assert_int_equal(reply(NULL, 7, -ENOENT, ""),
			 sizeof(struct fuse_out_header));
	assert_int_equal(out_of(one).error, -ENOENT);
	assert_int_equal(one->place.headers->ring.payload_size, 0);
	assert_int_equal(uring_entry_end(one, &me), 1007);
	assert_int_equal(uring_entry_end(two, &me), 1008);
	assert_int_equal(uring_entry_end(two, &me), 0);
}

static void what_is_in_no_entry_belongs_elsewhere(void **state)
{
	(void)state;
	put(one, 7, 0, "a");
	assert_int_equal(reply(one, 9, 0, "x"), -ENOENT);
	assert_true(reply(one, 7, 0, "x") > 0);
	assert_int_equal(reply(one, 7, 0, "again"), -ENOENT);
	assert_int_equal(uring_entry_end(one, &me), 1007);
	assert_int_equal(reply(one, 7, 0, "late"), -ENOENT);
	assert_memory_equal(one->place.payload, "x", 1);
	assert_null(uring_entries_find(&entries, 7));
}

/* As one that is kept: once.h. */
static void a_reply_may_be_in_one_piece(void **state)
{
	struct {
		struct fuse_out_header out;
		char text[8];
	} whole = {.out = {.len = sizeof(whole), .unique = 7},
		   .text = "1234567"};
	const struct iovec iov = {&whole, sizeof(whole)};

	(void)state;
	put(one, 7, 0, "a");
	assert_int_equal(uring_entries_reply(&entries, one, &iov, 1),
			 sizeof(whole));
	assert_int_equal(one->place.headers->ring.payload_size, 8);
	assert_memory_equal(one->place.payload, "1234567", 8);
	assert_int_equal(out_of(one).len, sizeof(whole));
	assert_int_equal(uring_entry_end(one, &me), 1007);
}

static void a_reply_that_is_too_long_is_eio(void **state)
{
	auto_free char *large = malloc(URING_PAYLOAD + 1);
	struct fuse_out_header out = {.unique = 7};
	struct iovec iov[2] = {{&out, sizeof(out)}, {large, URING_PAYLOAD + 1}};

	(void)state;
	assert_non_null(large);
	memset(large, 'x', URING_PAYLOAD + 1);
	put(one, 7, 0, "a");
	assert_int_equal(uring_entries_reply(&entries, one, iov, 2), -EINVAL);
	assert_int_equal(out_of(one).error, -EIO);
	assert_int_equal(one->place.headers->ring.payload_size, 0);
	assert_int_equal(uring_entry_end(one, &me), 1007);
	put(one, 7, 0, "a");
	iov[1].iov_len = URING_PAYLOAD;
	assert_int_equal(uring_entries_reply(&entries, one, iov, 2),
			 sizeof(out) + URING_PAYLOAD);
}

static void *reply_late(void *context)
{
	(void)context;
	return reply(NULL, 7, 0, "late") > 0 ? &me : NULL;
}

static void another_thread_may_reply(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	put(one, 7, 0, "a");
	assert_int_equal(pthread_create(&thread, NULL, reply_late, NULL), 0);
	assert_true(uring_entry_wait(one, &me));
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &me);
	assert_int_equal(uring_entry_end(one, &me), 1007);
	assert_memory_equal(one->place.payload, "late", 4);
}

static void who_hangs_loses_the_entry(void **state)
{
	(void)state;
	put(two, 8, 0, "a");
	assert_ptr_equal(uring_entries_find(&entries, 8), two);
	assert_ptr_equal(uring_entries_take(&entries, 8, -EIO, &other), two);
	assert_int_equal(out_of(two).error, -EIO);
	/* It comes back. */
	assert_int_equal(reply(two, 8, 0, "late"), -ENOENT);
	assert_int_equal(uring_entry_end(two, &me), 0);
	assert_false(uring_entry_wait(two, &me));
	assert_int_equal(uring_entry_end(two, &other), 1008);
	assert_null(uring_entries_take(&entries, 8, -EIO, &other));
}

static void who_hangs_after_its_reply_is_not_answered_twice(void **state)
{
	(void)state;
	put(one, 7, 0, "a");
	assert_true(reply(one, 7, 0, "right") > 0);
	assert_ptr_equal(uring_entries_take(&entries, 7, -EIO, &other), one);
	assert_int_equal(out_of(one).error, 0);
	assert_memory_equal(one->place.payload, "right", 5);
	assert_int_equal(uring_entry_end(one, &other), 1007);
}

static void there_are_only_so_many(void **state)
{
	unsigned n = 2;

	(void)state;
	while (uring_entry_new(&entries, NULL, 0, &me))
		n++;
	assert_int_equal(n, URING_ENTRIES_MAX);
	assert_null(uring_entry_new(&entries, NULL, 0, &me));
}

static void cpus_are_counted(void **state)
{
	(void)state;
	assert_int_equal(uring_cpus_parse("0\n"), 1);
	assert_int_equal(uring_cpus_parse("0-3\n"), 4);
	assert_int_equal(uring_cpus_parse("0-1,4,6-7"), 5);
	assert_int_equal(uring_cpus_parse(""), -EINVAL);
	assert_int_equal(uring_cpus_parse("3-1\n"), -EINVAL);
	assert_int_equal(uring_cpus_parse("0-"), -EINVAL);
	assert_int_equal(uring_cpus_parse("0,\n"), -EINVAL);
	assert_int_equal(uring_cpus_parse("-1\n"), -EINVAL);
	assert_int_equal(uring_cpus_parse("0 1\n"), -EINVAL);
	assert_int_equal(uring_cpus_parse("0-99999999999999999999"), -EINVAL);
	assert_true(uring_cpus_possible() > 0);
}

static void each_queue_has_threads_but_not_too_many(void **state)
{
	(void)state;
	assert_int_equal(uring_cpus_threads(2, 8), 8);
	assert_int_equal(uring_cpus_threads(64, 8), 4);
	assert_int_equal(uring_cpus_threads(512, 8), 2);
	assert_int_equal(uring_cpus_threads(512, 1), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, done)
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_as_it_was_read),
		TEST(sizes_that_cannot_be_are_refused),
		TEST(a_reply_goes_to_its_request),
		TEST(what_is_in_no_entry_belongs_elsewhere),
		TEST(a_reply_may_be_in_one_piece),
		TEST(a_reply_that_is_too_long_is_eio),
		TEST(another_thread_may_reply),
		TEST(who_hangs_loses_the_entry),
		TEST(who_hangs_after_its_reply_is_not_answered_twice),
		TEST(there_are_only_so_many),
		cmocka_unit_test(cpus_are_counted),
		cmocka_unit_test(each_queue_has_threads_but_not_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
