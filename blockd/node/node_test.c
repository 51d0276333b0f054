/* SPDX-License-Identifier: Apache-2.0 */
/* The extents of a node. */
#include "blockd/node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "blockd/testkit/node_kit.h"

static void makes_an_extent_once(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {.name = "x", .size = MIB};
	struct extent *one, *two;
	bool made;
	struct stat st;

	assert_int_equal(extent_create(k->node, &request, &one, &made, NULL),
			 0);
	assert_true(made);
	assert_int_equal(extent_create(k->node, &request, &two, &made, NULL),
			 0);
	assert_false(made);
	assert_ptr_equal(one, two);
	extent_unref(one);
	extent_unref(two);
	assert_int_equal(stat(node_kit_at(k, "a/extents/x.data"), &st), 0);
	assert_int_equal(st.st_size, MIB);
	assert_int_equal(st.st_blocks, 0);
	assert_true(node_kit_info(k, "a").reserved == MIB);
}

static void says_in_what_an_extent_differs(void **state)
{
	struct kit *k = *state;
	char key[] = "k", value[] = "v";
	struct extent_label label = {key, value};
	struct extent_request request = {.name = "x", .size = MIB};
	struct error err = {0};
	struct extent *extent;

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "x", 2 * MIB, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "1048576 bytes, not 2097152"));
	request.labels = &label;
	request.n_labels = 1;
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, &err),
			 -EEXIST);
	assert_non_null(strstr(err.msg, "labels"));
}

static void refuses_bad_names_sizes_and_pools(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {
		.pool = "none", .name = "x", .size = MIB};
	struct extent *extent;

	assert_int_equal(node_kit_create(k, "../x", MIB, NULL), -EINVAL);
	assert_int_equal(node_kit_create(k, "", MIB, NULL), -EINVAL);
	assert_int_equal(node_kit_create(k, "x", MIB + 512, NULL), -EINVAL);
	assert_int_equal(node_kit_create(k, "x", 4096, NULL), -EINVAL);
	assert_int_equal(node_kit_create(k, "x", UINT64_MAX, NULL), -EINVAL);
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -ENOENT);
	assert_true(node_kit_info(k, "a").reserved == 0);
}

static void says_how_much_room_there_is(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(node_kit_create(k, "x", CAPACITY - MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "y", 2 * MIB, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "pool 'a' has room for 1.00 MiB"));
	assert_null(node_kit_find(k, "y"));
	assert_true(node_kit_info(k, "a").space.available == MIB);
	assert_int_equal(node_kit_create(k, "y", MIB, NULL), 0);
	assert_true(node_kit_info(k, "a").space.available == 0);
}

static void says_how_large_all_extents_are(void **state)
{
	struct kit *k = *state;

	assert_true(node_kit_info(k, "a").nominal == 0);
	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "y", 2 * MIB, NULL), 0);
	assert_true(node_kit_info(k, "a").nominal == 3 * MIB);
	assert_int_equal(extent_delete(k->node, "x", NULL, NULL), 0);
	node_kit_restart(k);
	assert_true(node_kit_info(k, "a").nominal == 2 * MIB);
}

static void grows_within_the_room_and_never_shrinks(void **state)
{
	struct kit *k = *state;
	struct extent *extent;

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	extent = node_kit_find(k, "x");
	assert_int_equal(extent_resize(extent, 2 * MIB, NULL), 0);
	assert_int_equal(extent_resize(extent, 2 * MIB, NULL), 0);
	assert_int_equal(extent_resize(extent, MIB, NULL), -ERANGE);
	assert_int_equal(extent_resize(extent, 2 * MIB + 1, NULL), -EINVAL);
	assert_int_equal(extent_resize(extent, CAPACITY + MIB, NULL), -ENOSPC);
	extent_unref(extent);
	assert_true(node_kit_info(k, "a").reserved == 2 * MIB);
	node_kit_restart(k);
	extent = node_kit_find(k, "x");
	assert_true(extent->record.size == 2 * MIB);
	extent_unref(extent);
}

struct told {
	unsigned times;
	uint64_t size; /* bytes, at the last */
};

static void note_growth(void *context, struct extent *extent)
{
	struct told *told = context;

	told->times++;
	told->size = extent->record.size;
}

static void tells_its_users_once_it_has_grown(void **state)
{
	struct kit *k = *state;
	struct extent *extent;
	struct told told = {0};

	k->node->users.grown = note_growth;
	k->node->users.context = &told;
	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	extent = node_kit_find(k, "x");
	assert_int_equal(extent_resize(extent, CAPACITY + MIB, NULL), -ENOSPC);
	assert_int_equal(extent_resize(extent, 0, NULL), -EINVAL);
	assert_int_equal(told.times, 0);
	assert_int_equal(extent_resize(extent, 3 * MIB, NULL), 0);
	assert_true(told.times == 1 && told.size == 3 * MIB);
	/*
	 * A client that repeats the request may have missed the first answer.
	 */
	assert_int_equal(extent_resize(extent, 3 * MIB, NULL), 0);
	assert_true(told.times == 2 && told.size == 3 * MIB);
	extent_unref(extent);
	k->node->users = (struct extent_users){0};
}

static void deletes_only_the_one_meant(void **state)
{
	struct kit *k = *state;

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "other", NULL), -ESTALE);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
	assert_int_equal(access(node_kit_at(k, "a/extents/x.data"), F_OK), -1);
	assert_int_equal(access(node_kit_at(k, "a/extents/x.extent"), F_OK),
			 -1);
	assert_true(node_kit_info(k, "a").reserved == 0);
}

static int say_busy(void *context, struct extent *extent, const char *before,
		    struct error *err)
{
	(void)context;
	(void)before;
	return error_set(err, EBUSY, "'%s' is in use", extent->record.name);
}

static void keeps_an_extent_in_use(void **state)
{
	struct kit *k = *state;

	k->node->users.check_idle = say_busy;
	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), -EBUSY);
	k->node->users.check_idle = NULL;
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(makes_an_extent_once),
		TEST(says_in_what_an_extent_differs),
		TEST(refuses_bad_names_sizes_and_pools),
		TEST(says_how_much_room_there_is),
		TEST(says_how_large_all_extents_are),
		TEST(grows_within_the_room_and_never_shrinks),
		TEST(tells_its_users_once_it_has_grown),
		TEST(deletes_only_the_one_meant),
		TEST(keeps_an_extent_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
