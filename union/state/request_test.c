/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/fuse.h>

#include "union/state/request.h"
#include "union/sys/statx.h"

#include <cmocka.h>

static struct request decode(uint32_t opcode, const void *body, size_t length)
{
	struct {
		struct fuse_in_header header;
		uint8_t body[256];
	} request = {.header = {.opcode = opcode, .unique = 5}};
	struct request note;

	memcpy(request.body, body, length);
	request_decode(&request, sizeof(request.header) + length, &note);
	return note;
}

static bool setattr_kills(uint32_t valid)
{
	struct fuse_setattr_in in = {.valid = valid};

	return decode(FUSE_SETATTR, &in, sizeof(in)).kills_privileges;
}

static void a_setattr_that_wants_nothing_kills_privileges(void **state)
{
	(void)state;
	assert_true(setattr_kills(0));
	assert_true(setattr_kills(FATTR_FH | FATTR_LOCKOWNER));
	assert_false(setattr_kills(FATTR_MODE));
	assert_false(setattr_kills(FATTR_SIZE));
	assert_false(setattr_kills(FATTR_ATIME_NOW));
	assert_true(setattr_kills(FATTR_SIZE | FATTR_KILL_SUIDGID));
}

static void a_write_and_an_open_kill_by_flag(void **state)
{
	struct fuse_write_in write = {.write_flags = FUSE_WRITE_CACHE};
	struct fuse_open_in open = {.flags = 1};

	(void)state;
	assert_false(
		decode(FUSE_WRITE, &write, sizeof(write)).kills_privileges);
	write.write_flags |= FUSE_WRITE_KILL_SUIDGID;
	assert_true(decode(FUSE_WRITE, &write, sizeof(write)).kills_privileges);
	assert_false(decode(FUSE_OPEN, &open, sizeof(open)).kills_privileges);
	open.open_flags = FUSE_OPEN_KILL_SUIDGID;
	assert_true(decode(FUSE_OPEN, &open, sizeof(open)).kills_privileges);
}

static void offered_flags_are_put_together(void **state)
{
	struct fuse_init_in in = {.flags = FUSE_INIT_EXT | FUSE_ASYNC_READ,
				  .flags2 = 1u << 5};
	struct request note = decode(FUSE_INIT, &in, sizeof(in));

	(void)state;
	assert_true(note.init_flags & REQUEST_PASSTHROUGH);
	assert_int_equal(note.opcode, FUSE_INIT);
	assert_int_equal(note.unique, 5);
	in.flags = FUSE_ASYNC_READ; /* then flags2 is not meant */
	note = decode(FUSE_INIT, &in, sizeof(in));
	assert_int_equal(note.init_flags, FUSE_ASYNC_READ);
	/* Kernels before 5.17 send this length. */
	note = decode(FUSE_INIT, &in, 16);
	assert_int_equal(note.init_flags, FUSE_ASYNC_READ);
}

static void a_cut_request_says_nothing(void **state)
{
	struct fuse_setattr_in in = {0};
	struct request note;
	char few[10] = {0};

	(void)state;
	assert_false(decode(FUSE_SETATTR, &in, 10).kills_privileges);
	assert_int_equal(decode(FUSE_INIT, &in, 4).init_flags, 0);
	request_decode(few, sizeof(few), &note);
	assert_int_equal(note.opcode, 0);
}

struct wire_request {
	struct fuse_in_header header;
	uint8_t body[64];
};

static struct request names(uint32_t opcode, size_t other_at)
{
	struct wire_request wire = {.header = {.opcode = opcode, .nodeid = 7}};
	uint64_t other = 9;
	struct request note;

	memcpy(wire.body + other_at, &other, sizeof(other));
	request_decode(&wire, sizeof(wire), &note);
	assert_true(!note.node_count || note.nodes[0] == 7);
	assert_true(note.node_count < 2 || note.nodes[1] == 9);
	return note;
}

static void a_request_names_its_nodes(void **state)
{
	(void)state;
	assert_int_equal(names(FUSE_WRITE, 0).node_count, 1);
	assert_int_equal(names(FUSE_RENAME, 0).node_count, 2);
	assert_int_equal(names(FUSE_RENAME2, 0).node_count, 2);
	assert_int_equal(names(FUSE_LINK, 0).node_count, 2);
	assert_int_equal(names(FUSE_COPY_FILE_RANGE, 16).node_count, 2);
	assert_int_equal(names(FUSE_BATCH_FORGET, 0).node_count, 0);
}

static void one_that_is_cut_short_names_what_is_there(void **state)
{
	struct wire_request wire = {
		.header = {.opcode = FUSE_RENAME, .nodeid = 7}};
	struct request note;

	(void)state;
	request_decode(&wire, 39, &note);
	assert_int_equal(note.node_count, 0);
	request_decode(&wire, 44, &note);
	assert_int_equal(note.node_count, 2);
	assert_int_equal(note.nodes[1], 0);
}

static void a_create_without_a_name_becomes_one_with_a_note(void **state)
{
	struct {
		struct fuse_in_header header;
		struct fuse_create_in create;
		char name[2];
	} in = {.header = {.opcode = FUSE_TMPFILE}, .name = "/"};
	struct request note;

	(void)state;
	request_decode(&in, sizeof(in), &note);
	assert_true(note.unnamed);
	assert_int_equal(in.header.opcode, FUSE_CREATE);
	assert_int_equal(note.opcode, FUSE_CREATE);
	request_decode(&in, sizeof(in), &note);
	assert_false(note.unnamed);
	/* A request cut short is not changed: libfuse refuses it. */
	in.header.opcode = FUSE_TMPFILE;
	request_decode(&in, sizeof(in.header), &note);
	assert_int_equal(in.header.opcode, FUSE_TMPFILE);
}

static void a_statx_becomes_a_getattr_with_a_note(void **state)
{
	struct {
		struct fuse_in_header header;
		struct statx_in statx;
	} in = {.header = {.opcode = STATX_OPCODE},
		.statx = {.getattr_flags = FUSE_GETATTR_FH, .fh = 7}};
	struct fuse_getattr_in getattr;
	struct request note;

	(void)state;
	/* A request cut short is not changed: libfuse refuses it. */
	request_decode(&in, sizeof(in) - 1, &note);
	assert_int_equal(in.header.opcode, STATX_OPCODE);
	assert_int_equal(note.opcode, STATX_OPCODE);
	assert_false(note.wants_birth);
	request_decode(&in, sizeof(in), &note);
	assert_true(note.wants_birth);
	assert_int_equal(note.opcode, FUSE_GETATTR);
	assert_int_equal(in.header.opcode, FUSE_GETATTR);
	memcpy(&getattr, &in.statx, sizeof(getattr));
	assert_int_equal(getattr.getattr_flags, FUSE_GETATTR_FH);
	assert_int_equal(getattr.fh, 7);
	request_decode(&in, sizeof(in), &note);
	assert_false(note.wants_birth);
	request_decode(&in, 10, &note);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_setattr_that_wants_nothing_kills_privileges),
		cmocka_unit_test(a_write_and_an_open_kill_by_flag),
		cmocka_unit_test(offered_flags_are_put_together),
		cmocka_unit_test(a_cut_request_says_nothing),
		cmocka_unit_test(a_request_names_its_nodes),
		cmocka_unit_test(one_that_is_cut_short_names_what_is_there),
		cmocka_unit_test(
			a_create_without_a_name_becomes_one_with_a_note),
		cmocka_unit_test(a_statx_becomes_a_getattr_with_a_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
