/* SPDX-License-Identifier: Apache-2.0 */
/* What a killed server leaves of its entries, and what the next one finds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/once.h"
#include "union/uring_kept.h"
#include "union/uring_ring.h"

#include <cmocka.h>

static struct uring_record record;
static struct uring_headers headers;
static char payload[URING_PAYLOAD], data[URING_REQUEST_MAX];
static struct uring_entries entries;
static struct uring_entry *entry;
static int me;

static int setup(void **state)
{
	const struct uring_place place = {
		.headers = &headers, .payload = payload, .record = &record};

	(void)state;
	memset(&record, 0, sizeof(record));
	memset(&entries, 0, sizeof(entries));
	entry = uring_entry_new(&entries, &place, 0, &me);
	return entry ? 0 : -1;
}

static int done(void **state)
{
	(void)state;
	uring_entries_done(&entries);
	return 0;
}

static enum uring_found found(uint32_t published, uint32_t completed,
			      int32_t result, uint32_t taken)
{
	const struct uring_counts counts = {published, completed, result};

	atomic_store(&record.taken, taken);
	return uring_found(&counts, &record);
}

/* In the order in which a server does it. */
static void each_instruction_has_its_successor(void **state)
{
	(void)state;
	assert_int_equal(found(0, 0, 0, 0), URING_NEW);
	assert_int_equal(found(1, 0, 0, 0), URING_KERNELS); /* registers */
	assert_int_equal(found(1, 1, 0, 0), URING_HAS_REQUEST);
	assert_int_equal(found(1, 1, 0, 1), URING_HAS_TAKEN); /* copied */
	assert_int_equal(found(2, 1, 0, 1), URING_KERNELS);   /* answered */
	assert_int_equal(found(2, 2, 0, 1), URING_HAS_REQUEST);
	assert_int_equal(found(2, 2, 0, 2), URING_HAS_TAKEN);
	assert_int_equal(found(1, 1, -EINVAL, 0), URING_REFUSED);
	assert_int_equal(found(3, 3, -ENOTCONN, 2), URING_REFUSED);
	/* They wrap. */
	assert_int_equal(found(0, UINT32_MAX, 0, UINT32_MAX), URING_KERNELS);
	assert_int_equal(found(UINT32_MAX, UINT32_MAX, 0, UINT32_MAX),
			 URING_HAS_TAKEN);
	assert_int_equal(found(1, 1, 0, UINT32_MAX), URING_HAS_REQUEST);
}

/* As the kernel puts it there. */
static int put(uint32_t opcode, size_t op, size_t length)
{
	const struct fuse_in_header in = {
		.len = (uint32_t)(sizeof(in) + op + length),
		.opcode = opcode,
		.unique = 8,
	};
	size_t i;

	memcpy(headers.in_out, &in, sizeof(in));
	memset(headers.op_in, 'o', op);
	for (i = 0; i < length; i++)
		payload[i] = (char)('a' + i % 23);
	headers.ring = (struct uring_ent_in_out){
		.commit_id = 8, .payload_size = (uint32_t)length};
	return uring_entry_begin(entry, data, 1);
}

static int reply(uint64_t unique, void *text, size_t length)
{
	struct fuse_out_header out = {.len = (uint32_t)(sizeof(out) + length),
				      .unique = unique};
	const struct iovec iov[2] = {{&out, sizeof(out)}, {text, length}};

	return uring_entries_reply(&entries, entry, iov, 2);
}

/* Its answer is complete, and the server is killed. */
static void again_as_it_was(size_t op, size_t length)
{
	auto_free char *before = malloc(URING_REQUEST_MAX);
	char answer[128];
	struct fuse_in_header in;
	struct fuse_out_header out;
	int size = put(FUSE_WRITE, op, length);

	assert_non_null(before);
	assert_true(size > 0);
	memcpy(before, data, (size_t)size);
	memset(answer, '!', sizeof(answer));
	/* A server changes what it serves: request_adapt(). */
	((struct fuse_in_header *)(void *)data)->opcode = 0;
	assert_true(reply(8, answer, sizeof(answer)) > 0);
	memset(data, 0, sizeof(data));
	uring_entries_done(&entries);
	atomic_store(&entries.count, 0);
	entry = uring_entry_new(&entries,
				&(struct uring_place){.headers = &headers,
						      .payload = payload,
						      .record = &record},
				0, &me);
	assert_int_equal(uring_entry_again(entry, data), size);
	memcpy(&in, data, sizeof(in));
	assert_int_equal(in.unique, 8 | ONCE_RESENT);
	assert_int_equal(in.opcode, FUSE_WRITE);
	assert_memory_equal(data + sizeof(in), before + sizeof(in),
			    (size_t)size - sizeof(in));
	/* The kernel did not send it again, and knows no such number. */
	assert_int_equal(reply(8, answer, 1), -ENOENT);
	assert_true(reply(8 | ONCE_RESENT, answer, 1) > 0);
	memcpy(&out, headers.in_out, sizeof(out));
	assert_int_equal(out.unique, 8);
	assert_int_equal(uring_entry_end(entry, &me), 8);
}

static void an_answer_that_was_not_published_is_made_again(void **state)
{
	(void)state;
	again_as_it_was(0, 5);
	again_as_it_was(40, 0);
	again_as_it_was(40, URING_SAVED);
	again_as_it_was(40, URING_SAVED + 1);
	again_as_it_was(URING_OP_IN_SIZE, URING_PAYLOAD);
}

static void an_answer_overwrites_only_what_is_saved(void **state)
{
	static char large[URING_SAVED + 1];

	(void)state;
	put(FUSE_WRITE, 40, URING_SAVED + 1);
	assert_int_equal(reply(8, large, sizeof(large)), -EINVAL);
	assert_int_equal(uring_entry_end(entry, &me), 8);
	put(FUSE_READ, 40, 0);
	assert_true(reply(8, large, sizeof(large)) > 0);
}

/* By a file that knows no commands. */
static void a_ring_is_as_it_was_left(void **state)
{
	auto_close int fd = memfd_create("none", MFD_CLOEXEC);
	struct uring_kept kept;
	struct uring_ring ring;
	struct uring_counts counts;
	struct uring_place place;
	struct error err = {0};

	(void)state;
	assert_true(fd >= 0);
	if (uring_kept_make(&kept, 1, &err) < 0) {
		print_message("%s\n", error_text(&err));
		skip();
	}
	place = uring_kept_place(&kept, 0);
	uring_entries_done(&entries);
	atomic_store(&entries.count, 0);
	entry = uring_entry_new(&entries, &place, 0, &me);
	assert_int_equal(uring_ring_open(&ring, kept.rings[0],
					 &place.record->params, fd),
			 0);
	counts = uring_ring_counts(&ring);
	assert_int_equal(uring_found(&counts, place.record), URING_NEW);
	assert_false(uring_ring_is_unsent(&ring));
	assert_true(uring_ring_register(&ring, entry) < 0);
	uring_ring_done(&ring);
	assert_int_equal(uring_ring_open(&ring, kept.rings[0],
					 &place.record->params, fd),
			 0);
	counts = uring_ring_counts(&ring);
	assert_int_equal(counts.published, 1);
	assert_int_equal(uring_found(&counts, place.record), URING_REFUSED);
	uring_ring_skip(&ring);
	/* And can be used on: what is published is done by the kernel. */
	uring_ring_commit(&ring, entry, 8);
	assert_true(uring_ring_wait(&ring) < 0);
	assert_int_equal(uring_ring_counts(&ring).completed, 2);
	uring_ring_done(&ring);
	uring_kept_done(&kept);
	uring_kept_done(&kept); /* fine */
}

static void memory_of_another_kind_is_refused(void **state)
{
	struct uring_kept kept;
	int fd = memfd_create("none", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(uring_kept_open(&kept, fd, 100), -EPROTO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, done)
	const struct CMUnitTest tests[] = {
		TEST(each_instruction_has_its_successor),
		TEST(an_answer_that_was_not_published_is_made_again),
		TEST(an_answer_overwrites_only_what_is_saved),
		TEST(a_ring_is_as_it_was_left),
		TEST(memory_of_another_kind_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
