/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/branch/branch_health.h"
#include "union/node/node.h"
#include "union/state/state.h"

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
	return node_table_init(&table, 100, NULL);
}

static int done(void **state)
{
	(void)state;
	node_table_done(&table);
	return 0;
}

static void only_a_new_directory_is_in_doubt(void **state)
{
	struct node_found known = {0, handle_of(1)}, new = {0, handle_of(2)};
	struct node *node;

	(void)state;
	atomic_store(&branch_doubted, 1);
	node = intern_dir(0, 1, 1, 1);
	assert_int_equal(
		node_intern_doubted(&table, S_IFDIR, 1, &known, 1, true, &node),
		0);
	assert_false(node_in_doubt(node));
	assert_int_equal(
		node_intern_doubted(&table, S_IFDIR, 2, &new, 1, true, &node),
		0);
	/* Another finds it at the same time. */
	assert_int_equal(
		node_intern_doubted(&table, S_IFDIR, 2, &new, 1, true, &node),
		0);
	assert_true(node_in_doubt(node));
	atomic_store(&branch_doubted, 0);
	assert_false(node_in_doubt(node));
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
	node_copy_gone(&table, 0, &first, NULL);
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
	assert_ptr_equal(copy_node(node_first(two)), two);
	assert_ptr_equal(copy_node(node_copy_on(two, 1)), two);
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

#define COUNTED 100000 /* names */

/* Count the bytes of the heap and of the state memory. */
static uint64_t bytes_taken(void)
{
	struct mallinfo2 heap = mallinfo2();
	struct stat st;

	assert_int_equal(fstat(table.state->fd, &st), 0);
	return heap.uordblks + heap.hblkhd + (uint64_t)st.st_blocks * 512;
}

/* And a place in the index. */
static void a_name_costs_no_more_than_its_records(void **state)
{
	uint64_t before, each;
	uint32_t i;

	(void)state;
	(void)intern(0, 0);
	before = bytes_taken();
	for (i = 1; i <= COUNTED; i++)
		(void)intern(i % 5, i);
	each = (bytes_taken() - before) / COUNTED;
	assert_in_range(each, sizeof(struct node),
			sizeof(struct node) + sizeof(struct copy) + 8);
	/* Memory of forgotten nodes is used again. */
	for (i = 1; i <= COUNTED; i++)
		node_forget(&table, i + 1, 1);
	before = bytes_taken();
	for (i = 1; i <= COUNTED; i++)
		(void)intern(i % 5, COUNTED + i);
	assert_in_range(bytes_taken(), 0, before);
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
	assert_ptr_equal(node_hold_id(&table, node->id), node);
	node_let_go(&table, node);
	assert_ptr_equal(node_get(&table, node->id), node);
	node_forget(&table, node->id, 1); /* more than it knows */
	assert_ptr_equal(node_get(&table, node->id), node);
	node_let_go(&table, node);
	assert_null(node_hold(&table, 2, &handle));
	assert_null(node_hold_id(&table, 2));
}

static void a_removed_directory_keeps_a_descriptor_of_its_last_copy(
	void **state)
{
	struct node_found found[2] = {{1, handle_of(20)}, {3, handle_of(21)}};
	struct node *node;
	struct orphan_fd one = {.fd = dup(0)}, two = {.fd = dup(0)};
	int first = one.fd, second = two.fd;

	(void)state;
	assert_int_equal(node_intern(&table, S_IFDIR, 5, found, 2, &node), 0);
	assert_int_equal(atomic_load(&node->orphan_fd), -1);
	node_copy_gone(&table, 3, &found[1].handle, &two);
	assert_int_equal(atomic_load(&node->orphan_fd), -1);
	assert_int_equal(fcntl(second, F_GETFD), -1);
	node_copy_gone(&table, 1, &found[0].handle, &one);
	assert_int_equal(atomic_load(&node->orphan_fd), first);
}

static void a_copy_is_taken_over_where_others_change_the_branches(void **state)
{
	struct node *one, *two;
	struct handle handle = handle_of(21);

	(void)state;
	one = intern_dir(0, 20, 2, 22);
	two = intern_dir(1, 21, 3, 23);
	assert_ptr_equal(intern_dir(0, 20, 1, 21), one);
	assert_null(node_copy_on(one, 1)); /* it is the other's */
	table.takes_over = true;
	assert_ptr_equal(intern_dir(0, 20, 1, 21), one);
	assert_true(copy_has(node_copy_on(one, 1), &handle));
	assert_null(node_copy_on(two, 1));
	assert_non_null(node_copy_on(two, 3));
	/* And back; once more changes nothing. */
	assert_ptr_equal(intern_dir(3, 23, 1, 21), two);
	assert_ptr_equal(intern_dir(3, 23, 1, 21), two);
	assert_int_equal(node_first(two)->branch, 1);
	assert_int_equal(node_first(one)->branch, 0);
	assert_int_equal(copy_next(node_first(one))->branch, 2);
	assert_null(copy_next(copy_next(node_first(one))));
}

static void a_quiet_change_is_shown_as_the_time_before(void **state)
{
	struct quiet_change change = {
		.after = {10, 5}, .modified = {9, 7}, .shown = {3, 1}};
	struct stat st = {.st_ctim = change.after, .st_mtim = change.modified};
	struct timespec shown;
	struct node *node = intern(0, 30);
	struct handle handle = handle_of(30);

	(void)state;
	preserve_ctime_change(&table, 0, &handle, &change);
	shown = preserve_ctime_shown(&table, node_first(node), &st);
	assert_int_equal(shown.tv_sec, 3);
	/* Somebody changed it, within the same tick and later. */
	st.st_mtim = st.st_ctim;
	shown = preserve_ctime_shown(&table, node_first(node), &st);
	assert_int_equal(shown.tv_nsec, 5);
	st.st_mtim = change.modified;
	st.st_ctim.tv_nsec = 6;
	shown = preserve_ctime_shown(&table, node_first(node), &st);
	assert_int_equal(shown.tv_nsec, 6);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

static void count_node(void *context, const struct node *node)
{
	(void)node;
	++*(unsigned *)context;
}

static void a_file_moves_and_stays_the_node_it_is(void **state)
{
	struct handle old = handle_of(800), new = handle_of(801);
	struct node *node, *same;
	uint64_t id, ino;
	unsigned n = 0;

	(void)state;
	(void)intern(0, 1);
	node = intern(3, 800);
	id = node->id;
	ino = node->ino;
	assert_int_equal(node_move(&table, node, 3, &old, 1, &new), 0);
	assert_int_equal(node_first(node)->branch, 1);
	assert_null(copy_next(node_first(node)));
	assert_int_equal(node_moves(node), 1);
	assert_null(node_hold(&table, 3, &old));
	same = intern(1, 801);
	assert_ptr_equal(same, node);
	assert_int_equal(same->id, id);
	assert_int_equal(same->ino, ino);
	node_each_on(&table, 3, count_node, &n);
	assert_int_equal(n, 0);
	node_each_on(&table, 1, count_node, &n);
	assert_true(n > 0);
	/* And back, to an inode that its first branch gave it anew. */
	old = handle_of(802);
	assert_int_equal(node_move(&table, node, 1, &new, 3, &old), 0);
	assert_int_equal(node_first(node)->branch, 3);
	assert_true(copy_has(node_first(node), &old));
	assert_int_equal(node_move(&table, node, 1, &new, 3, &old), -ESTALE);
	node_forget(&table, id, 2);
}

static void what_was_forgotten_last_is_found_again(void **state)
{
	struct node *nodes[4], *node;
	uint64_t generation[4], id[4];
	unsigned i;

	(void)state;
	table.forgotten.max = 2;
	(void)intern(0, 1);
	for (i = 0; i < 4; i++) {
		nodes[i] = intern(0, 7 + i);
		id[i] = nodes[i]->id;
		generation[i] = nodes[i]->generation;
	}
	node_forget(&table, id[0], 1);
	node_forget(&table, id[1], 1);
	assert_int_equal(node_count(&table), 3);
	/* Find it by its id, as with a file handle, and by its inode. */
	node = node_hold_id(&table, id[0]);
	assert_ptr_equal(node, nodes[0]);
	assert_int_equal(node->generation, generation[0]);
	assert_ptr_equal(intern(0, 8), nodes[1]);
	assert_int_equal(node_count(&table), 5);
	node_forget(&table, id[1], 1);
	node_let_go(&table, node);
	assert_int_equal(node_count(&table), 3);
	/* There is room for two. */
	node_forget(&table, id[2], 1);
	assert_null(node_get(&table, id[0]));
	assert_non_null(node_get(&table, id[1]));
	assert_non_null(node_get(&table, id[2]));
	/* A node that was looked up and is not forgotten again stays. */
	assert_ptr_equal(intern(0, 8), nodes[1]);
	node_forget(&table, id[3], 1);
	assert_ptr_equal(node_get(&table, id[1]), nodes[1]);
	node_forget(&table, id[1], 1);
	assert_null(node_get(&table, id[2]));
	assert_non_null(node_get(&table, id[1]));
	assert_non_null(node_get(&table, id[3]));
	assert_int_equal(node_count(&table), 1);
	node_drop_asleep(&table, 1);
	assert_non_null(node_get(&table, id[1]));
	node_drop_asleep(&table, 0);
	assert_null(node_get(&table, id[1]));
	assert_null(node_get(&table, id[3]));
	assert_int_equal(node_count(&table), 1);
}

static void what_was_removed_does_not_sleep(void **state)
{
	struct handle handle = handle_of(8);
	struct node *node;
	uint64_t id;

	(void)state;
	table.forgotten.max = FORGOTTEN_ALL;
	(void)intern(0, 1);
	id = intern(0, 7)->id;
	node_forget(&table, id, 1);
	assert_non_null(node_get(&table, id));
	node = intern(0, 8);
	id = node->id;
	node_copy_gone(&table, 0, &handle, NULL);
	node_forget(&table, id, 1);
	assert_null(node_get(&table, id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_node_is_the_root),
		TEST(only_a_new_directory_is_in_doubt),
		TEST(one_inode_is_one_node),
		TEST(is_kept_until_every_lookup_is_given_back),
		TEST(forgetting_too_much_or_the_unknown_harms_nothing),
		TEST(an_id_used_again_has_another_generation),
		TEST(what_was_forgotten_last_is_found_again),
		TEST(what_was_removed_does_not_sleep),
		TEST(a_directory_is_known_by_each_copy),
		TEST(a_copy_that_is_gone_is_passed_over),
		TEST(a_copy_is_not_taken_from_another_node),
		TEST(a_held_node_outlives_the_kernels_interest),
		TEST(a_removed_directory_keeps_a_descriptor_of_its_last_copy),
		TEST(a_copy_is_taken_over_where_others_change_the_branches),
		TEST(a_quiet_change_is_shown_as_the_time_before),
		TEST(many_names_come_and_go),
		TEST(a_name_costs_no_more_than_its_records),
		TEST(a_file_moves_and_stays_the_node_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
