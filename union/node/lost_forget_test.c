/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/node/lost_forget.h"
#include "union/node/node_restore.h"
#include "union/state/state.h"

#include <cmocka.h>

#define LOOKUPS 3 /* of the file */

static struct state state;
static struct node_table table;
static const struct node_found root = {0, {.length = 1, .data = "r"}};
static const struct node_found file = {0, {.length = 1, .data = "f"}};

static struct node *look_up(mode_t type, const struct node_found *found)
{
	struct node *node;

	assert_int_equal(node_intern(&table, type, 1, found, 1, &node), 0);
	return node;
}

/* The tables of a server that was killed, and of the next one. */
static int setup(void **unused)
{
	unsigned i;

	(void)unused;
	assert_int_equal(state_create(&state), 0);
	state.branches[0].used = STATE_BRANCH_USED;
	assert_int_equal(node_table_init(&table, 100, &state), 0);
	(void)look_up(S_IFDIR, &root);
	for (i = 0; i < LOOKUPS; i++)
		(void)look_up(S_IFREG, &file);
	node_table_done(&table);
	assert_int_equal(node_table_init(&table, 200, &state), 0);
	return node_restore(&table);
}

static int done(void **unused)
{
	(void)unused;
	node_table_done(&table);
	state_done(&state);
	return 0;
}

/* Remove the file; returns the descriptor that is kept. */
static int make_orphan(const struct node_found *found)
{
	struct orphan_fd orphan = {.fd = open("/dev/null", O_PATH | O_CLOEXEC)};
	int fd = orphan.fd;

	orphan_inode_add(&table, found->branch, &found->handle, &orphan);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Take the note of the file, after a FORGET of one: there is only one. */
static struct lost_forget take_one(void)
{
	struct lost_forget *lost, one;

	assert_true(lost_forget_any(&table));
	assert_int_equal(lost_forget_take(&table, &lost), 1);
	assert_false(lost_forget_any(&table));
	one = *lost;
	free(lost);
	return one;
}

/* The kernel says that it does not know it. */
static void end(const struct lost_forget *lost)
{
	struct node *node = lost_forget_hold(&table, lost);

	assert_non_null(node);
	lost_forget_end(&table, node, lost);
	node_let_go(&table, node);
}

static void what_is_removed_later_is_let_go(void **unused)
{
	uint64_t id = look_up(S_IFREG, &file)->id;
	struct lost_forget lost;
	int fd = make_orphan(&file);

	(void)unused;
	assert_false(lost_forget_any(&table));
	node_forget(&table, id, 1);
	lost = take_one();
	assert_int_equal(lost.lookups, LOOKUPS);
	end(&lost);
	assert_false(is_open(fd));
	assert_null(node_first(node_get(&table, id)));
	assert_int_equal(state.nodes[id].orphan_token, 0);
	/* The FORGET that was not lost but late. */
	node_forget(&table, id, LOOKUPS);
	assert_null(node_get(&table, id));
	assert_false(lost_forget_any(&table));
}

static void what_was_removed_before_is_let_go(void **unused)
{
	struct lost_forget lost;
	int fd = make_orphan(&file);

	(void)unused;
	lost_forget_note_all(&table);
	lost = take_one();
	end(&lost);
	assert_false(is_open(fd));
}

static void what_the_kernel_was_told_of_since_stays(void **unused)
{
	const struct node *node = look_up(S_IFREG, &file);
	struct lost_forget lost;
	int fd = make_orphan(&file);

	(void)unused;
	node_forget(&table, node->id, 1);
	lost = take_one();
	assert_ptr_equal(look_up(S_IFREG, &file), node);
	end(&lost);
	assert_true(is_open(fd));
	assert_non_null(node_first(node));
}

static void what_has_its_id_now_stays(void **unused)
{
	static const struct node_found other = {0, {.length = 1, .data = "o"}};
	uint64_t id = look_up(S_IFREG, &file)->id;
	struct lost_forget lost;

	(void)unused;
	(void)make_orphan(&file);
	node_forget(&table, id, 1);
	lost = take_one();
	node_forget(&table, id, LOOKUPS);
	assert_int_equal(look_up(S_IFREG, &other)->id, id);
	assert_null(lost_forget_hold(&table, &lost));
	assert_int_equal(node_get(&table, id)->holds, 0);
}

static void what_is_open_or_held_stays(void **unused)
{
	struct node *node = look_up(S_IFREG, &file);
	struct lost_forget lost;
	int fd = make_orphan(&file);

	(void)unused;
	node_forget(&table, node->id, 1);
	lost = take_one();
	node_file(node)->opens = 1;
	assert_null(lost_forget_hold(&table, &lost));
	node_file(node)->opens = 0;
	assert_ptr_equal(node_hold_id(&table, node->id), node);
	end(&lost);
	assert_true(is_open(fd));
	node_let_go(&table, node);
	end(&lost);
	assert_false(is_open(fd));
}

/* A server notes no node of its own. */
static void nothing_of_this_server_is_noted(void **unused)
{
	static const struct node_found other = {0, {.length = 1, .data = "o"}};
	uint64_t id = look_up(S_IFREG, &other)->id;

	(void)unused;
	(void)look_up(S_IFREG, &other);
	(void)make_orphan(&other);
	node_forget(&table, id, 1);
	assert_false(lost_forget_any(&table));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_removed_later_is_let_go),
		TEST(what_was_removed_before_is_let_go),
		TEST(what_the_kernel_was_told_of_since_stays),
		TEST(what_has_its_id_now_stays),
		TEST(what_is_open_or_held_stays),
		TEST(nothing_of_this_server_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
