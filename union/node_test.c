/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/node.h"

#include <cmocka.h>

static struct node_table table;

static struct handle handle_of(uint32_t number)
{
	struct handle handle = {.length = 8, .type = 1};

	memcpy(handle.data, &number, sizeof(number));
	return handle;
}

static struct node *intern(unsigned branch, uint32_t number)
{
	struct node_found found = {branch, handle_of(number)};
	struct node *node;

	assert_int_equal(node_intern(&table, S_IFREG, number, &found, 1, &node),
			 0);
	return node;
}

static struct node *intern_dir(unsigned a, uint32_t a_number, unsigned b,
			       uint32_t b_number)
{
	struct node_found found[] = {{a, handle_of(a_number)},
				     {b, handle_of(b_number)}};
	struct node *node;

	assert_int_equal(node_intern(&table, S_IFDIR, 1, found, 2, &node), 0);
	return node;
}

static int setup(void **state)
{
	(void)state;
	return node_table_init(&table, 100);
}

static int done(void **state)
{
	(void)state;
	node_table_done(&table);
	return 0;
}

static void the_first_node_is_the_root(void **state)
{
	(void)state;
	assert_int_equal(intern_dir(0, 2, 1, 2)->id, NODE_ROOT_ID);
}

static void one_inode_is_one_node(void **state)
{
	struct node *node = intern(0, 7);

	(void)state;
	assert_ptr_equal(intern(0, 7), node);
	assert_ptr_not_equal(intern(1, 7), node);
	assert_ptr_not_equal(intern(0, 8), node);
	assert_ptr_equal(node_get(&table, node->id), node);
	assert_int_equal(node_count(&table), 3);
}

static void is_kept_until_every_lookup_is_given_back(void **state)
{
	uint64_t id;

	(void)state;
	(void)intern(0, 1); /* the root */
	id = intern(0, 7)->id;
	(void)intern(0, 7);
	node_forget(&table, id, 1);
	assert_non_null(node_get(&table, id));
	node_forget(&table, id, 1);
	assert_null(node_get(&table, id));
}

static void forgetting_too_much_or_the_unknown_harms_nothing(void **state)
{
	uint64_t id;

	(void)state;
	(void)intern(0, 1);
	id = intern(0, 7)->id;
	node_forget(&table, id, 1000);
	node_forget(&table, id, 1);
	node_forget(&table, 0, 1);
	node_forget(&table, UINT64_MAX, 1);
	node_forget(&table, NODE_ROOT_ID, 5);
	assert_non_null(node_get(&table, NODE_ROOT_ID));
	assert_int_equal(node_count(&table), 1);
}

static void an_id_used_again_has_another_generation(void **state)
{
	uint64_t id, generation;
	struct node *node;

	(void)state;
	(void)intern(0, 1);
	node = intern(0, 7);
	id = node->id;
	generation = node->generation;
	node_forget(&table, id, 1);
	node = intern(0, 8);
	assert_int_equal(node->id, id);
	assert_true(node->generation > generation);
}

static void a_directory_is_known_by_each_copy(void **state)
{
	struct node *node = intern_dir(3, 5, 1, 9);
	struct handle other = handle_of(44), known = handle_of(9);

	(void)state;
	assert_ptr_equal(intern_dir(1, 9, 3, 5), node);
	assert_int_equal(node_first(node)->branch, 1);
	assert_int_equal(copy_next(node_first(node))->branch, 3);
	assert_int_equal(node_add_copy(&table, 1, &known, 2, &other), 0);
	assert_int_equal(node_add_copy(&table, 1, &known, 2, &other), 0);
	assert_int_equal(copy_next(node_first(node))->branch, 2);
	assert_int_equal(copy_next(node_copy_on(node, 2))->branch, 3);
	assert_null(copy_next(node_copy_on(node, 3)));
	assert_null(node_copy_on(node, 0));
}

static void a_copy_that_is_gone_is_passed_over(void **state)
{
	struct node *node = intern_dir(0, 5, 1, 9);
	struct handle first = handle_of(5);

	(void)state;
	node_copy_gone(&table, 0, &first, -1);
	assert_int_equal(node_first(node)->branch, 1);
	assert_null(node_copy_on(node, 0));
	/* The inode may come again, as another directory's copy. */
	assert_ptr_not_equal(intern_dir(0, 5, 2, 8), node);
}

static void a_copy_is_not_taken_from_another_node(void **state)
{
	struct node *one = intern_dir(0, 5, 1, 9);
	struct node *two = intern_dir(0, 6, 1, 10);

	(void)state;
	assert_ptr_equal(intern_dir(0, 5, 1, 10), one);
	assert_ptr_equal(node_first(two)->node, two);
	assert_ptr_equal(node_copy_on(two, 1)->node, two);
	assert_null(copy_next(node_copy_on(one, 1)));
}

static void many_names_come_and_go(void **state)
{
	static uint64_t ids[200000];
	uint32_t i;

	(void)state;
	(void)intern(0, 0);
	for (i = 1; i < 200000; i++)
		ids[i] = intern(i % 5, i)->id;
	for (i = 1; i < 200000; i++)
		assert_int_equal(intern(i % 5, i)->id, ids[i]);
	for (i = 1; i < 200000; i++)
		node_forget(&table, ids[i], 2);
	assert_int_equal(node_count(&table), 1);
	assert_int_equal(table.copies, 1);
}

static void a_held_node_outlives_the_kernels_interest(void **state)
{
	struct handle handle = handle_of(7), other = handle_of(8);
	struct node *node;

	(void)state;
	intern(0, 1); /* the root, which stays */
	node = intern(2, 7);
	assert_null(node_hold(&table, 2, &other));
	assert_null(node_hold(&table, 1, &handle));
	assert_ptr_equal(node_hold(&table, 2, &handle), node);
	node_forget(&table, node->id, 1);
	assert_ptr_equal(node_get(&table, node->id), node);
	node_forget(&table, node->id, 1);
	assert_null(node_hold(&table, 2, &handle));
}

static void a_removed_directory_keeps_a_descriptor_of_its_last_copy(
	void **state)
{
	struct node_found found[2] = {{1, handle_of(20)}, {3, handle_of(21)}};
	struct node *node;
	int one = dup(0), two = dup(0);

	(void)state;
	assert_int_equal(node_intern(&table, S_IFDIR, 5, found, 2, &node), 0);
	assert_int_equal(atomic_load(&node->buried_fd), -1);
	node_copy_gone(&table, 3, &found[1].handle, two);
	assert_int_equal(atomic_load(&node->buried_fd), -1);
	assert_int_equal(fcntl(two, F_GETFD), -1);
	node_copy_gone(&table, 1, &found[0].handle, one);
	assert_int_equal(atomic_load(&node->buried_fd), one);
}

static void a_quiet_change_is_shown_as_the_time_before(void **state)
{
	struct quiet_change change = {.after = {10, 5}, .shown = {3, 1}};
	struct timespec later = {10, 6}, shown;
	struct node *node = intern(0, 30);
	struct handle handle = handle_of(30);

	(void)state;
	node_change_quietly(&table, 0, &handle, &change);
	shown = node_shown_ctime(&table, node_first(node), &change.after);
	assert_int_equal(shown.tv_sec, 3);
	shown = node_shown_ctime(&table, node_first(node), &later);
	assert_int_equal(shown.tv_nsec, 6);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_node_is_the_root),
		TEST(one_inode_is_one_node),
		TEST(is_kept_until_every_lookup_is_given_back),
		TEST(forgetting_too_much_or_the_unknown_harms_nothing),
		TEST(an_id_used_again_has_another_generation),
		TEST(a_directory_is_known_by_each_copy),
		TEST(a_copy_that_is_gone_is_passed_over),
		TEST(a_copy_is_not_taken_from_another_node),
		TEST(a_held_node_outlives_the_kernels_interest),
		TEST(a_removed_directory_keeps_a_descriptor_of_its_last_copy),
		TEST(a_quiet_change_is_shown_as_the_time_before),
		TEST(many_names_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
