/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve/pending_names.h"

#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"

#include <cmocka.h>

static char request[256];

/*
 * Make a request of @head bytes of zeros, or @directory first, and then @names.
 */
static size_t make(uint32_t opcode, uint64_t node, uint64_t directory,
		   size_t head, const char *names, size_t length)
{
	const struct fuse_in_header header = {.opcode = opcode, .nodeid = node};

	memset(request, 0, sizeof(request));
	memcpy(request, &header, sizeof(header));
	if (head >= sizeof(directory))
		memcpy(request + sizeof(header), &directory, sizeof(directory));
	memcpy(request + sizeof(header) + head, names, length);
	return sizeof(header) + head + length;
}

static bool has_mkdir(uint64_t node, const char *name)
{
	return pending_names_has(request, make(FUSE_MKDIR, node, 0,
					       sizeof(struct fuse_mkdir_in),
					       name, strlen(name) + 1));
}

static int setup(void **state)
{
	(void)state;
	atomic_store(&branch_doubted, 1);
	return 0;
}

/* Let nothing be pending. */
static int done(void **state)
{
	(void)state;
	atomic_store(&branch_doubted, 0);
	return has_mkdir(1, "none") ? -1 : 0;
}

static void a_name_that_may_come_yet_is_not_made(void **state)
{
	static const struct {
		uint32_t opcode;
		size_t head;
	} kinds[] = {
		{FUSE_SYMLINK, 0},
		{FUSE_MKDIR, sizeof(struct fuse_mkdir_in)},
		{FUSE_MKNOD, sizeof(struct fuse_mknod_in)},
		{FUSE_LINK, sizeof(struct fuse_link_in)},
		{FUSE_CREATE, sizeof(struct fuse_create_in)},
	};
	size_t i;

	(void)state;
	for (i = 0; i < array_size(kinds); i++) {
		assert_false(has_mkdir(i + 2, "x"));
		assert_true(pending_names_add(request,
					      make(kinds[i].opcode, i + 2, 0,
						   kinds[i].head, "x", 2)));
		assert_true(has_mkdir(i + 2, "x"));
		assert_false(has_mkdir(i + 2, "y"));
		assert_false(has_mkdir(i + 20, "x"));
	}
	atomic_store(&branch_doubted, 0);
	assert_false(has_mkdir(2, "x"));
	atomic_store(&branch_doubted, 1);
	assert_false(has_mkdir(2, "x")); /* for good */
}

static void of_a_rename_it_is_the_new_name(void **state)
{
	static const uint32_t kinds[] = {FUSE_RENAME, FUSE_RENAME2};
	static const size_t heads[] = {sizeof(struct fuse_rename_in),
				       sizeof(struct fuse_rename2_in)};
	size_t i;

	(void)state;
	for (i = 0; i < array_size(kinds); i++) {
		assert_true(pending_names_add(
			request,
			make(kinds[i], 3, 7 + i, heads[i], "old\0new", 8)));
		assert_true(has_mkdir(7 + i, "new"));
		assert_false(has_mkdir(3, "old"));
		assert_false(has_mkdir(7 + i, "old"));
	}
}

static void a_removal_makes_none_and_a_lookup_changes_none(void **state)
{
	(void)state;
	assert_true(
		pending_names_add(request, make(FUSE_UNLINK, 3, 0, 0, "x", 2)));
	assert_true(
		pending_names_add(request, make(FUSE_RMDIR, 3, 0, 0, "x", 2)));
	assert_false(has_mkdir(3, "x"));
	assert_false(
		pending_names_add(request, make(FUSE_LOOKUP, 3, 0, 0, "x", 2)));
	/* A removal asks for an old name, and makes none. */
	assert_true(pending_names_add(request,
				      make(FUSE_SYMLINK, 3, 0, 0, "z", 2)));
	assert_false(
		pending_names_has(request, make(FUSE_UNLINK, 3, 0, 0, "z", 2)));
}

static void one_that_is_cut_has_no_name(void **state)
{
	size_t whole = make(FUSE_RENAME2, 3, 7, sizeof(struct fuse_rename2_in),
			    "old\0new", 8);
	size_t length;

	(void)state;
	for (length = 0; length < whole; length++)
		(void)pending_names_add(request, length);
	assert_false(has_mkdir(7, "new"));
	assert_false(pending_names_add(request, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_name_that_may_come_yet_is_not_made, setup, done),
		cmocka_unit_test_setup_teardown(of_a_rename_it_is_the_new_name,
						setup, done),
		cmocka_unit_test_setup_teardown(
			a_removal_makes_none_and_a_lookup_changes_none, setup,
			done),
		cmocka_unit_test_setup_teardown(one_that_is_cut_has_no_name,
						setup, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
