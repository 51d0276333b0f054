/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "union/view/name_filter.h"

static struct unionfs fs;
static struct node dir = {.id = 77}, other = {.id = 78};

static int teardown(void **state)
{
	(void)state;
	name_filter_forget_all();
	fs.shared = false;
	return 0;
}

static void nothing_is_known_of_a_directory_never_seen(void **state)
{
	(void)state;
	name_filter_add(&dir, "a", 0);
	assert_true(name_filter_may_have(&dir, "a", 0));
	assert_true(name_filter_may_have(&dir, "b", 0));
}

static void knows_what_a_new_directory_was_given(void **state)
{
	(void)state;
	name_filter_begin(&fs, &dir, 3);
	assert_false(name_filter_may_have(&dir, "a", 3));
	name_filter_add(&dir, "a", 3);
	assert_true(name_filter_may_have(&dir, "a", 3));
	assert_false(name_filter_may_have(&dir, "b", 3));
	assert_true(
		name_filter_may_have(&dir, "b", 4)); /* may have a copy there */
	assert_true(name_filter_may_have(&other, "b", 3));
	name_filter_remove(&dir, "a", 3);
	assert_false(name_filter_may_have(&dir, "a", 3));
	name_filter_forget(dir.id);
	assert_true(name_filter_may_have(&dir, "a", 3));
}

static void nothing_is_known_of_a_branch_that_is_forgotten(void **state)
{
	(void)state;
	name_filter_begin(&fs, &dir, 3);
	name_filter_begin(&fs, &dir, 4);
	name_filter_add(&dir, "a", 3);
	name_filter_add(&dir, "a", 4);
	name_filter_forget_branch(3);
	assert_true(name_filter_may_have(&dir, "b", 3));
	assert_true(name_filter_may_have(&dir, "a", 4));
	assert_false(name_filter_may_have(&dir, "b", 4));
	name_filter_begin(&fs, &dir, 3); /* read anew: the old names are gone */
	assert_false(name_filter_may_have(&dir, "a", 3));
}

static void a_name_is_there_as_often_as_it_was_added(void **state)
{
	(void)state;
	name_filter_begin(&fs, &dir, 0);
	name_filter_add(&dir, "a", 0);
	name_filter_add(&dir, "a", 0);
	name_filter_remove(&dir, "a", 0);
	assert_true(name_filter_may_have(&dir, "a", 0));
	name_filter_remove(&dir, "a", 0);
	name_filter_remove(&dir, "a", 0);
	assert_false(name_filter_may_have(&dir, "a", 0));
}

static void what_is_made_unseen_by_the_kernel_counts_once(void **state)
{
	(void)state;
	name_filter_begin(&fs, &dir, 0);
	name_filter_make_begin(&fs, &dir, "a", 0);
	assert_true(
		name_filter_may_have(&dir, "a", 0)); /* from the beginning on */
	name_filter_make_end(&fs, &dir, "a", 0, true);
	assert_true(name_filter_may_have(&dir, "a", 0));
	name_filter_remove(&dir, "a", 0);
	assert_false(name_filter_may_have(&dir, "a", 0));
	name_filter_make_begin(&fs, &dir, "a", 0);
	name_filter_make_end(&fs, &dir, "a", 0, false);
	assert_false(name_filter_may_have(&dir, "a", 0));
}

/* Then it may have been read before the name was there. */
static void what_was_begun_anew_meanwhile_is_not_relied_on(void **state)
{
	(void)state;
	name_filter_make_begin(&fs, &dir, "a", 0);
	name_filter_forget(dir.id);
	name_filter_begin(&fs, &dir, 0);
	name_filter_make_end(&fs, &dir, "a", 0, true);
	assert_true(name_filter_may_have(&dir, "b", 0));
}

static void remembers_many_while_others_come_and_go(void **state)
{
	char name[32];
	unsigned i;

	(void)state;
	name_filter_begin(&fs, &dir, 1);
	for (i = 0; i < 30000; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		name_filter_add(&dir, name, 1);
		if (i % 3) {
			(void)snprintf(name, sizeof(name), "n%u", i / 3 * 3);
			name_filter_add(&dir, name, 1);
			name_filter_remove(&dir, name, 1);
		}
	}
	for (i = 0; i < 30000; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_true(name_filter_may_have(&dir, name, 1));
		name_filter_remove(&dir, name, 1);
	}
	for (i = 0; i < 30000; i++) {
		(void)snprintf(name, sizeof(name), "n%u", i);
		assert_false(name_filter_may_have(&dir, name, 1));
	}
}

static void a_name_is_where_it_was_put_or_nothing_is_known(void **state)
{
	uint64_t where[BRANCH_MAX / 64];
	unsigned i, in = 0;

	(void)state;
	for (i = 0; i < 200; i++)
		name_filter_begin(&fs, &dir, i);
	name_filter_add(&dir, "a", 3);
	name_filter_add(&dir, "a", 130);
	name_filter_add(&dir, "b", 4);
	name_filter_where(&dir, 200, "a", where);
	for (i = 0; i < 200; i++)
		in += name_filter_is_in(where, i);
	assert_int_equal(in, 2);
	assert_true(name_filter_is_in(where, 3) &&
		    name_filter_is_in(where, 130));
	assert_true(name_filter_is_in(where, 200)); /* not known */
	/* Now and then some are asked, each in its turn. */
	for (in = i = 0;
	     i < 200 / NAME_FILTER_CHECKED * NAME_FILTER_CHECK_EVERY; i++) {
		name_filter_where(&dir, 200, "c", where);
		in += name_filter_is_in(where, 0) +
		      name_filter_is_in(where, 199);
	}
	assert_int_equal(in, 2);
}

static void knows_nothing_where_others_change_the_branches(void **state)
{
	(void)state;
	fs.shared = true;
	name_filter_begin(&fs, &dir, 0);
	assert_true(name_filter_may_have(&dir, "a", 0));
}

static void one_that_was_not_said_to_be_there_ends_all_knowledge(void **state)
{
	(void)state;
	name_filter_begin(&fs, &dir, 0);
	name_filter_add(&dir, "a", 0);
	name_filter_confirm(&dir, "a", 0);
	assert_false(name_filter_may_have(&dir, "b", 0));
	name_filter_confirm(&dir, "b", 0);
	assert_true(name_filter_may_have(&dir, "c", 0));
}

static struct node_found found_on(unsigned branch)
{
	return (struct node_found){.branch = branch,
				   .handle = {.length = 4, .type = 1}};
}

static unsigned asked_for(const struct node *node, const char *name)
{
	uint64_t where[BRANCH_MAX / 64];
	unsigned i, n = 0;

	name_filter_where(node, 4, name, where);
	for (i = 0; i < 4; i++)
		n += name_filter_is_in(where, i);
	return n;
}

static void a_directory_with_a_new_copy_is_known_no_more(void **state)
{
	struct node_found found[] = {found_on(0), found_on(1), found_on(2)};
	struct unionfs own = {0};
	struct node *node;

	(void)state;
	assert_int_equal(node_table_init(&own.nodes, 1, NULL), 0);
	assert_int_equal(node_intern(&own.nodes, S_IFDIR, 7, found, 2, &node),
			 0);
	name_filter_begin(&own, node, 0);
	name_filter_begin(&own, node, 1);
	name_filter_add(node, "a", 1);
	assert_int_equal(asked_for(node, "a"), 3); /* it may have more copies */
	name_filter_learn(&own, node);
	assert_int_equal(asked_for(node, "a"), 1); /* it has not */
	assert_int_equal(asked_for(node, "b"), 0);
	assert_int_equal(node_add_copy(&own.nodes, 0, &found[0].handle, 2,
				       &found[2].handle),
			 0);
	assert_int_equal(asked_for(node, "b"), 2);
	name_filter_begin(&own, node, 2);
	name_filter_learn(&own, node);
	assert_int_equal(asked_for(node, "b"), 0);
	name_filter_forget_branch(1);
	assert_int_equal(asked_for(node, "b"), 2);
	node_forget(&own.nodes, node->id, 1);
	node_table_done(&own.nodes);
}

/* An empty directory whose copies are those of two branches. */
struct place {
	struct unionfs own;
	struct branch branches[2];
	char paths[2][32];
	struct node *node;
};

static void place_make(struct place *place)
{
	struct node_found found[2] = {{.branch = 0}, {.branch = 1}};
	unsigned i;

	memset(place, 0, sizeof(*place));
	for (i = 0; i < 2; i++) {
		strcpy(place->paths[i], "/tmp/names-XXXXXX");
		assert_non_null(mkdtemp(place->paths[i]));
		place->branches[i].id = i;
		place->branches[i].root_fd = open(
			place->paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(handle_get(place->branches[i].root_fd, "",
					    &found[i].handle),
				 0);
		place->own.branches.items[i] = &place->branches[i];
	}
	place->own.branches.count = 2;
	assert_int_equal(node_table_init(&place->own.nodes, 1, NULL), 0);
	assert_int_equal(node_intern(&place->own.nodes, S_IFDIR, 7, found, 2,
				     &place->node),
			 0);
}

static void place_drop(struct place *place)
{
	unsigned i;

	node_forget(&place->own.nodes, place->node->id, 1);
	node_table_done(&place->own.nodes);
	for (i = 0; i < 2; i++) {
		(void)close(place->branches[i].root_fd);
		assert_int_equal(rmdir(place->paths[i]), 0);
	}
}

static void file_make(const struct place *place, unsigned i, const char *name)
{
	int fd = openat(place->branches[i].root_fd, name, O_CREAT | O_CLOEXEC,
			0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static void file_drop(const struct place *place, unsigned i, const char *name)
{
	assert_int_equal(unlinkat(place->branches[i].root_fd, name, 0), 0);
}

static void what_is_read_counts_once(void **state)
{
	struct place place;

	(void)state;
	place_make(&place);
	name_filter_begin(&place.own, place.node, 0);
	name_filter_add(place.node, "a", 1); /* it is not known yet */
	file_make(&place, 1, "a");
	file_make(&place, 1, "b");
	name_filter_learn(&place.own, place.node);
	assert_true(name_filter_may_have(place.node, "a", 1));
	assert_true(name_filter_may_have(place.node, "b", 1));
	assert_false(name_filter_may_have(place.node, "c", 1));
	name_filter_remove(place.node, "a", 1);
	name_filter_remove(place.node, "b", 1);
	assert_false(name_filter_may_have(place.node, "a", 1));
	assert_false(name_filter_may_have(place.node, "b", 1));
	file_drop(&place, 1, "a");
	file_drop(&place, 1, "b");
	place_drop(&place);
}

static void nothing_is_read_while_the_kernel_does_not_see_what_is_made(
	void **state)
{
	struct place place;

	(void)state;
	place_make(&place);
	name_filter_make_begin(&place.own, place.node, "a", 1);
	name_filter_learn(&place.own, place.node);
	assert_true(name_filter_may_have(place.node, "b", 1));
	file_make(&place, 1, "a");
	name_filter_make_end(&place.own, place.node, "a", 1, true);
	name_filter_learn(&place.own, place.node);
	assert_false(name_filter_may_have(place.node, "b", 1));
	assert_true(name_filter_may_have(place.node, "a", 1));
	name_filter_remove(place.node, "a", 1);
	assert_false(name_filter_may_have(place.node, "a", 1));
	file_drop(&place, 1, "a");
	place_drop(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			nothing_is_known_of_a_directory_never_seen, teardown),
		cmocka_unit_test_teardown(knows_what_a_new_directory_was_given,
					  teardown),
		cmocka_unit_test_teardown(
			nothing_is_known_of_a_branch_that_is_forgotten,
			teardown),
		cmocka_unit_test_teardown(
			a_name_is_there_as_often_as_it_was_added, teardown),
		cmocka_unit_test_teardown(
			what_is_made_unseen_by_the_kernel_counts_once,
			teardown),
		cmocka_unit_test_teardown(
			what_was_begun_anew_meanwhile_is_not_relied_on,
			teardown),
		cmocka_unit_test_teardown(what_is_read_counts_once, teardown),
		cmocka_unit_test_teardown(
			nothing_is_read_while_the_kernel_does_not_see_what_is_made,
			teardown),
		cmocka_unit_test_teardown(
			remembers_many_while_others_come_and_go, teardown),
		cmocka_unit_test_teardown(
			a_name_is_where_it_was_put_or_nothing_is_known,
			teardown),
		cmocka_unit_test_teardown(
			knows_nothing_where_others_change_the_branches,
			teardown),
		cmocka_unit_test_teardown(
			a_directory_with_a_new_copy_is_known_no_more, teardown),
		cmocka_unit_test_teardown(
			one_that_was_not_said_to_be_there_ends_all_knowledge,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
