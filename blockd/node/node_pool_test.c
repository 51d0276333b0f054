/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pools of a node: those that come back after a restart, and those that do
 * not.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "blockd/dir/pool_dir.h"
#include "blockd/testkit/node_kit.h"

/* ---- recovery ---- */

static void comes_back_as_it_was(void **state)
{
	struct kit *k = *state;
	char key[] = "k", value[] = "v = w";
	struct extent_label label = {key, value};
	struct extent_request request = {.pool = "a",
					 .name = "x",
					 .size = MIB,
					 .labels = &label,
					 .n_labels = 1};
	struct extent *extent;
	char id[UUID_TEXT_SIZE];

	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	memcpy(id, extent->record.id, sizeof(id));
	extent_unref(extent);
	node_kit_restart(k);
	extent = node_kit_find(k, "x");
	assert_non_null(extent);
	assert_string_equal(extent->record.id, id);
	assert_string_equal(extent->record.labels[0].value, "v = w");
	assert_true(extent->record.blank);
	extent_unref(extent);
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	extent_unref(extent);
}

static void names_damage_and_touches_nothing(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct stat before, after;

	assert_int_equal(node_kit_create(k, "good", MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "torn", 2 * MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "short", 3 * MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "bare", 4 * MIB, NULL), 0);
	assert_int_equal(node_kit_create(k, "lost", 5 * MIB, NULL), 0);
	node_kit_put_file(k, "a/extents/torn.extent",
			  "tributary-extent 1\nname=to");
	assert_int_equal(truncate(node_kit_at(k, "a/extents/short.data"), MIB),
			 0);
	assert_int_equal(unlink(node_kit_at(k, "a/extents/bare.extent")), 0);
	assert_int_equal(unlink(node_kit_at(k, "a/extents/lost.data")), 0);
	assert_int_equal(stat(node_kit_at(k, "a/extents/torn.extent"), &before),
			 0);
	node_kit_restart(k);

	assert_true(node_kit_damaged(k, "torn", "torn.extent is damaged"));
	assert_true(node_kit_damaged(k, "short", "1048576 bytes"));
	assert_true(node_kit_damaged(k, "bare", "no record"));
	assert_true(node_kit_damaged(k, "lost", "lost.data"));
	assert_int_equal(node_kit_info(k, "a").extents, 5);
	assert_true(node_kit_info(k, "a").reserved ==
		    (1 + 2 + 3 + 4 + 5) * MIB);
	assert_int_equal(extent_delete(k->node, "torn", NULL, &err), -EIO);
	assert_int_equal(node_kit_create(k, "torn", 2 * MIB, &err), -EEXIST);
	assert_int_equal(node_kit_create(k, "bare", 4 * MIB, &err), -EEXIST);
	assert_int_equal(stat(node_kit_at(k, "a/extents/torn.extent"), &after),
			 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(access(node_kit_at(k, "a/extents/bare.data"), F_OK),
			 0);
	assert_int_equal(extent_delete(k->node, "good", NULL, &err), 0);
}

static void finds_a_record_under_another_name_damaged(void **state)
{
	struct kit *k = *state;
	char other[160];

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	(void)snprintf(other, sizeof(other), "%s",
		       node_kit_at(k, "a/extents/y.extent"));
	assert_int_equal(rename(node_kit_at(k, "a/extents/x.extent"), other),
			 0);
	node_kit_restart(k);
	assert_true(node_kit_damaged(k, "y", "record of 'x'"));
	assert_true(node_kit_damaged(k, "x", "no record"));
}

static void cuts_back_a_grow_that_was_not_finished(void **state)
{
	struct kit *k = *state;
	struct stat st;

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(truncate(node_kit_at(k, "a/extents/x.data"), 3 * MIB),
			 0);
	node_kit_put_file(k, "a/extents/" FILE_TEMPORARY_PREFIX "1", "torn");
	node_kit_restart(k);
	assert_int_equal(stat(node_kit_at(k, "a/extents/x.data"), &st), 0);
	assert_int_equal(st.st_size, MIB);
	assert_int_equal(
		access(node_kit_at(k, "a/extents/" FILE_TEMPORARY_PREFIX "1"),
		       F_OK),
		-1);
}

/* ---- pools ---- */

static void takes_a_pool_again_and_no_other_in_its_place(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct node_pool_request request = {.name = "a", .may_format = true};

	assert_int_equal(node_kit_add_pool(k, "a", "a", NULL), 0);
	assert_int_equal(node_kit_add_pool(k, "b", "a", &err), -EEXIST);
	assert_int_equal(mkdir(node_kit_at(k, "b"), 0755), 0);
	assert_int_equal(node_kit_add_pool(k, "a", "b", &err), -EEXIST);
	assert_int_equal(mkdir(node_kit_at(k, "a/sub"), 0755), 0);
	assert_int_equal(node_kit_add_pool(k, "b", "a/sub", &err), -EEXIST);
	assert_non_null(strstr(err.msg, "inside pool 'a'"));
	assert_int_equal(node_kit_add_pool(k, "b", ".", &err), -EEXIST);
	assert_int_equal(node_kit_add_pool(k, "b", "none", &err), -ENOENT);
	assert_int_equal(node_kit_add_pool(k, "B!", "b", &err), -EINVAL);
	request.path = node_kit_at(k, "a");
	request.cluster_size = MIB;
	assert_int_equal(node_add_pool(k->node, &request, NULL, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "clusters"));
}

/*
 * The figures are in the pool: a request that takes it up needs not say them.
 */
static void keeps_its_figures_wherever_it_is(void **state)
{
	struct kit *k = *state;
	struct node_pool_request request = {.name = "a", .may_format = true};
	char note[ERROR_TEXT_MAX], away[160];

	request.path = node_kit_at(k, "a");
	for (int round = 0; round < 3; round++) {
		int r;

		/*
		 * On a busy machine it is not seen at once that the pool is
		 * gone.
		 */
		do
			r = node_add_pool(k->node, &request, note, NULL);
		while (r == -EEXIST);
		assert_int_equal(r, 0);
		assert_string_equal(note, "");
		assert_true(node_kit_info(k, "a").record.capacity == CAPACITY);
		if (round == 0) { /* another place */
			(void)snprintf(away, sizeof(away), "%s",
				       node_kit_at(k, "away"));
			assert_int_equal(rename(node_kit_at(k, "a"), away), 0);
			request.path = away;
		} else if (round == 1) { /* another node */
			node_free(k->node);
			k->node = NULL;
			assert_int_equal(
				unlink(node_kit_at(k, "state/pools/a.pool")),
				0);
			node_kit_start(k);
		}
	}
	request.capacity = CAPACITY / 2;
	request.overcommit_percent = 200;
	assert_int_equal(node_add_pool(k->node, &request, note, NULL), 0);
	assert_string_equal(note,
			    "its capacity is 32.00 MiB now, and was 64.00 MiB; "
			    "its overcommit is 200 % now, and was 100 %");
	assert_int_equal(node_add_pool(k->node, &request, note, NULL), 0);
	assert_string_equal(note, "");
	assert_true(node_kit_info(k, "a").space.limit == CAPACITY);
	node_kit_restart(k);
	assert_true(node_kit_info(k, "a").record.capacity == CAPACITY / 2);
	assert_int_equal(node_kit_info(k, "a").record.overcommit_percent, 200);
}

static void leaves_a_directory_with_files_alone(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(mkdir(node_kit_at(k, "b"), 0755), 0);
	node_kit_put_file(k, "b/precious", "data");
	assert_int_equal(node_kit_add_pool(k, "b", "b", &err), -ENOTEMPTY);
	assert_non_null(strstr(err.msg, "choose an empty directory"));
	assert_int_equal(access(node_kit_at(k, "b/lock"), F_OK), -1);
	assert_int_equal(access(node_kit_at(k, "b/extents"), F_OK), -1);
}

static void locks_out_a_second_one(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct pool *pool;

	assert_int_equal(
		pool_dir_open(node_kit_at(k, "a"), "a", NULL, &pool, &err),
		-EBUSY);
	assert_non_null(strstr(err.msg, "is in use by "));
}

static void reports_a_missing_pool_and_makes_none_in_its_place(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	char away[160];

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	(void)snprintf(away, sizeof(away), "%s", node_kit_at(k, "away"));
	assert_int_equal(rename(node_kit_at(k, "a"), away), 0);
	assert_int_equal(mkdir(node_kit_at(k, "a"), 0755), 0);
	node_kit_restart(k);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_MISSING);
	assert_int_equal(node_kit_add_pool(k, "a", "a", &err), -ENOENT);
	assert_int_equal(access(node_kit_at(k, "a/" POOL_DIR_IDENTITY), F_OK),
			 -1);
	assert_int_equal(node_kit_create(k, "y", MIB, &err), -ENODEV);
	assert_int_equal(node_delete_pool(k->node, "a", &err), -ENODEV);

	/* The pool came back, at another place. */
	assert_int_equal(node_kit_add_pool(k, "a", "away", NULL), 0);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_ONLINE);
	assert_true(node_kit_info(k, "a").reserved == MIB);
	node_kit_restart(k);
	assert_int_equal(node_kit_info(k, "a").extents, 1);
}

static void reports_a_foreign_and_a_damaged_pool(void **state)
{
	struct kit *k = *state;
	char a[160];

	assert_int_equal(mkdir(node_kit_at(k, "b"), 0755), 0);
	assert_int_equal(node_kit_add_pool(k, "b", "b", NULL), 0);
	node_free(k->node);
	k->node = NULL;
	(void)snprintf(a, sizeof(a), "%s",
		       node_kit_at(k, "a/" POOL_DIR_IDENTITY));
	assert_int_equal(rename(node_kit_at(k, "b/" POOL_DIR_IDENTITY), a), 0);
	node_kit_put_file(k, "b/" POOL_DIR_IDENTITY, "tributary-pool 1\n");
	node_kit_start(k);
	assert_int_equal(node_kit_info(k, "a").state, NODE_POOL_FOREIGN);
	assert_non_null(
		strstr(node_kit_info(k, "a").message, "holds pool 'b'"));
	assert_int_equal(node_kit_info(k, "b").state, NODE_POOL_DAMAGED);
}

static void deletes_an_empty_pool_only(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(node_kit_create(k, "x", MIB, NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", &err), -EBUSY);
	assert_non_null(strstr(err.msg, "1 extents"));
	assert_int_equal(extent_delete(k->node, "x", NULL, NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", NULL), 0);
	assert_int_equal(rmdir(node_kit_at(k, "a")), 0);
	node_kit_restart(k);
	assert_false(node_knows_pool(k->node, "a"));
}

static void does_not_promise_one_medium_twice(void **state)
{
	struct kit *k = *state;
	struct node_pool_request request = {.name = "b", .may_format = true};
	struct node_pool_info before, after;

	assert_int_equal(mkdir(node_kit_at(k, "b"), 0755), 0);
	request.path = node_kit_at(k, "b");
	assert_int_equal(node_add_pool(k->node, &request, NULL, NULL), 0);
	before = node_kit_info(k, "b");
	assert_int_equal(node_kit_create(k, "x", 32 * MIB, NULL), 0);
	after = node_kit_info(k, "b");
	/* Others write to this disk too: less than 16 MiB meanwhile. */
	assert_true(after.space.capacity + 16 * MIB < before.space.capacity);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(comes_back_as_it_was),
		TEST(names_damage_and_touches_nothing),
		TEST(finds_a_record_under_another_name_damaged),
		TEST(cuts_back_a_grow_that_was_not_finished),
		TEST(takes_a_pool_again_and_no_other_in_its_place),
		TEST(keeps_its_figures_wherever_it_is),
		TEST(leaves_a_directory_with_files_alone),
		TEST(locks_out_a_second_one),
		TEST(reports_a_missing_pool_and_makes_none_in_its_place),
		TEST(reports_a_foreign_and_a_damaged_pool),
		TEST(deletes_an_empty_pool_only),
		TEST(does_not_promise_one_medium_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
