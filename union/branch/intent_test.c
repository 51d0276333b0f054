/* SPDX-License-Identifier: Apache-2.0 */
/* Two directories stand for branches; opening by handle needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "union/branch/intent.h"
#include "union/change/rename_parts.h"

#include <cmocka.h>

static char top[64];
static struct branch_table table;

static int setup(void **state)
{
	char path[80];
	struct error err;
	int i;

	(void)state;
	(void)snprintf(top, sizeof(top), "/tmp/trib-intent-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	for (i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%d", top, i);
		if (mkdir(path, 0755) < 0)
			return -1;
		if (branch_add(&table, path, 0, &err) < 0) {
			print_message("%s\n", err.msg);
			return 0; /* the tests skip */
		}
	}
	return 0;
}

static int done(void **state)
{
	const char *const argv[] = {"rm", "-rf", top, NULL};

	(void)state;
	branch_table_done(&table);
	return process_must(argv, 10000, NULL);
}

static int root_of(unsigned branch)
{
	if (table.count != 2)
		skip();
	return table.items[branch]->root_fd;
}

static struct handle handle_at(unsigned branch, const char *name)
{
	struct handle handle;

	assert_int_equal(handle_get(root_of(branch), name, &handle), 0);
	return handle;
}

static void put_file(unsigned branch, const char *name)
{
	auto_close int fd = openat(root_of(branch), name,
				   O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
}

static bool is_there(unsigned branch, const char *name)
{
	return faccessat(root_of(branch), name, F_OK, 0) == 0;
}

/* "new" of branch 1 is to replace "old" of branch 0. */
static struct intent replacing(void)
{
	struct intent intent = {.kind = INTENT_REPLACE, .other = 0};

	put_file(1, "new");
	put_file(0, "old");
	intent.moved = handle_at(1, "new");
	intent.to_dir = handle_at(1, "");
	intent.other_dir = handle_at(0, "");
	intent.replaced = handle_at(0, "old");
	strcpy(intent.to_name, "old");
	return intent;
}

static void recover(int want)
{
	struct error err = {0};

	assert_int_equal(intent_recover(&table, &err), want);
	assert_int_equal(intent_recover(&table, &err), 0);
}

static void text_and_back_is_the_same(void **state)
{
	struct intent intent = replacing(), back;
	char text[INTENT_TEXT_MAX + 1];

	(void)state;
	memset(intent.to_name, 'x', NAME_MAX);
	assert_int_equal(intent_encode(&intent, text), 0);
	assert_int_equal(intent_decode(text, &back), 0);
	assert_memory_equal(&intent, &back, sizeof(back));
	intent.kind = INTENT_RELOCATE_ALL;
	strcpy(intent.from_name, "copy-1");
	assert_int_equal(intent_encode(&intent, text), 0);
	assert_int_equal(intent_decode(text, &back), 0);
	assert_memory_equal(&intent, &back, sizeof(back));
	intent.kind = INTENT_MOVE;
	intent.from_dir = intent.other_dir;
	memset(&intent.other_dir, 0, sizeof(intent.other_dir));
	memset(&intent.replaced, 0, sizeof(intent.replaced));
	strcpy(intent.from_name, "1 %s :");
	assert_int_equal(intent_encode(&intent, text), 0);
	assert_int_equal(intent_decode(text, &back), 0);
	assert_memory_equal(&intent, &back, sizeof(back));
	intent.kind = INTENT_SWAP_ALL;
	assert_int_equal(intent_encode(&intent, text), 0);
	assert_int_equal(intent_decode(text, &back), 0);
	assert_memory_equal(&intent, &back, sizeof(back));
}

static void refuses_text_that_is_not_ours(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"1 R",
		"2 R 1:00 1:00 0 1:00 1:00 x",
		"1 X 1:00 ",
		"1 Y 1:00 1:00 1:00 a/b",
		"1 R 1:00 1:00 0 1:00 1:00 ",
		"1 R 1:0 1:00 0 1:00 1:00 x",
		"1 R 1:00 1:00 999 1:00 1:00 x",
		"1 M 1:00 1:00 1:00 ab",
		"1 M 1:00 1:00 1:00 /b",
		"1 M 1:00 1:00 1:00 a/b/c",
		"1 D 1:00 1:00 0 1:00 1:00 x",
		"1 E 1:00 1:00 0 1:00 1:00 x/",
		"1 E 1:00 1:00 999 1:00 1:00 x/y",
		"1 R 1: 1:00 0 1:00 1:00 x",
	};
	struct intent intent;
	size_t i;

	(void)state;
	for (i = 0; i < array_size(bad); i++)
		assert_int_equal(intent_decode(bad[i], &intent), -EPROTO);
}

static void a_replaced_file_goes_when_the_rename_was_done(void **state)
{
	struct intent intent = replacing();

	(void)state;
	assert_int_equal(intent_begin(table.items[1], 1, &intent, true), 0);
	assert_int_equal(renameat(root_of(1), "new", root_of(1), "old"), 0);
	recover(1);
	assert_true(is_there(1, "old"));
	assert_false(is_there(0, "old"));
}

static void records_are_counted_and_left_alone(void **state)
{
	struct intent intent = replacing();

	(void)state;
	assert_int_equal(intent_pending(table.items[1]), 0);
	assert_int_equal(intent_begin(table.items[1], 1, &intent, true), 0);
	assert_int_equal(intent_begin(table.items[1], 2, &intent, true), 0);
	assert_int_equal(intent_pending(table.items[1]), 2);
	assert_int_equal(intent_pending(table.items[0]), 0);
	recover(2);
	assert_int_equal(intent_pending(table.items[1]), 0);
}

static void a_file_stays_when_the_rename_was_not_done(void **state)
{
	struct intent intent = replacing();

	(void)state;
	assert_int_equal(intent_begin(table.items[1], 1, &intent, true), 0);
	recover(1);
	assert_true(is_there(1, "new"));
	assert_true(is_there(0, "old"));
	assert_false(is_there(1, "old"));
}

static void a_file_that_came_later_is_not_removed(void **state)
{
	struct intent intent = replacing();

	(void)state;
	assert_int_equal(intent_begin(table.items[1], 1, &intent, true), 0);
	assert_int_equal(renameat(root_of(1), "new", root_of(1), "old"), 0);
	put_file(0, "another");
	assert_int_equal(renameat(root_of(0), "another", root_of(0), "old"), 0);
	recover(1);
	assert_true(is_there(0, "old"));
}

static void write_down_move(unsigned branch, enum intent_kind kind)
{
	struct intent intent = {.kind = kind};

	assert_int_equal(mkdirat(root_of(branch), "d", 0755), 0);
	intent.moved = handle_at(branch, "d");
	intent.from_dir = handle_at(branch, "");
	intent.to_dir = intent.from_dir;
	strcpy(intent.from_name, "d");
	strcpy(intent.to_name, "e");
	assert_int_equal(intent_begin(table.items[branch], 7, &intent, true),
			 0);
}

static void a_directory_is_moved_on_all_branches_once_decided(void **state)
{
	(void)state;
	write_down_move(1, INTENT_MOVE);
	write_down_move(0, INTENT_MOVE_ALL);
	assert_int_equal(renameat(root_of(0), "d", root_of(0), "e"), 0);
	recover(2);
	assert_true(is_there(0, "e"));
	assert_true(is_there(1, "e"));
	assert_false(is_there(1, "d"));
}

/* The server was killed after the record, before it hid the file. */
static void a_directory_takes_the_place_of_a_file_it_hides(void **state)
{
	struct stat st;

	(void)state;
	put_file(1, "e");
	write_down_move(1, INTENT_MOVE);
	write_down_move(0, INTENT_MOVE_ALL);
	recover(2);
	assert_false(is_there(1, "d"));
	assert_int_equal(fstatat(root_of(1), "e", &st, 0), 0);
	assert_true(S_ISDIR(st.st_mode));
}

static void a_directory_stays_on_all_branches_until_decided(void **state)
{
	(void)state;
	write_down_move(1, INTENT_MOVE);
	recover(1);
	assert_true(is_there(1, "d"));
}

/* On branch 1 both names are exchanged, on branch 0 "d" becomes "e". */
static void write_down_exchange(void)
{
	struct intent intent = {.kind = INTENT_SWAP};

	put_file(1, "e");
	assert_int_equal(mkdirat(root_of(1), "d", 0755), 0);
	intent.moved = handle_at(1, "d");
	intent.from_dir = handle_at(1, "");
	intent.to_dir = intent.from_dir;
	strcpy(intent.from_name, "d");
	strcpy(intent.to_name, "e");
	assert_int_equal(intent_begin(table.items[1], 7, &intent, true), 0);
	write_down_move(0, INTENT_MOVE_ALL);
}

static bool is_file(unsigned branch, const char *name)
{
	struct stat st;

	return fstatat(root_of(branch), name, &st, 0) == 0 &&
	       S_ISREG(st.st_mode);
}

static void names_are_exchanged_on_all_branches_once_decided(void **state)
{
	(void)state;
	write_down_exchange();
	assert_int_equal(renameat(root_of(0), "d", root_of(0), "e"), 0);
	recover(2);
	assert_true(is_file(1, "d"));
	assert_false(is_file(1, "e"));
	assert_true(is_there(0, "e"));
}

static void an_exchange_that_was_done_is_not_done_again(void **state)
{
	(void)state;
	write_down_exchange();
	assert_int_equal(
		renameat2(root_of(1), "d", root_of(1), "e", RENAME_EXCHANGE),
		0);
	recover(2);
	assert_true(is_file(1, "d"));
	assert_true(is_there(0, "e"));
}

static struct rename_part part(unsigned branch, const char *from,
			       const char *to, unsigned flags)
{
	return (struct rename_part){.branch = table.items[branch],
				    .from_fd = root_of(branch),
				    .to_fd = root_of(branch),
				    .from_name = from,
				    .to_name = to,
				    .flags = flags};
}

static void all_parts_are_renamed_or_none(void **state)
{
	struct rename_part parts[2];

	(void)state;
	put_file(0, "a");
	put_file(1, "a");
	put_file(1, "b");
	parts[0] = part(0, "a", "b", RENAME_NOREPLACE);
	parts[1] = part(1, "a", "b", RENAME_NOREPLACE);
	assert_int_equal(rename_parts_do(parts, 2, NULL, 0), -EEXIST);
	assert_true(is_there(0, "a"));
	assert_false(is_there(0, "b"));
	assert_int_equal(intent_pending(table.items[0]), 0);
	parts[1].flags = RENAME_EXCHANGE;
	assert_int_equal(rename_parts_do(parts, 2, NULL, 0), 0);
	assert_false(is_there(0, "a"));
	assert_true(is_there(0, "b"));
	assert_true(is_there(1, "a"));
	assert_int_equal(intent_pending(table.items[1]), 0);
}

static ino_t number_of(unsigned branch, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(root_of(branch), name, &st, 0), 0);
	return st.st_ino;
}

static struct rename_gone gone(unsigned branch, const char *name)
{
	return (struct rename_gone){.branch = table.items[branch],
				    .dir_fd = root_of(branch),
				    .name = name,
				    .replaced = true};
}

static void make_dirs(const char *const (*names)[2], int count)
{
	int i;

	for (i = 0; i < count; i++)
		assert_int_equal(mkdirat(root_of(names[i][0][0] == '1'),
					 names[i][1], 0755),
				 0);
}

/* The second part fails: a directory cannot go into itself. */
static void what_was_to_go_stays_when_a_part_fails(void **state)
{
	static const char *const dirs[][2] = {
		{"0", "a"}, {"0", "b"}, {"1", "a"}, {"1", "a/s"}};
	struct rename_part parts[2];
	struct rename_gone target = gone(0, "b");
	ino_t number;

	(void)state;
	make_dirs(dirs, 4);
	number = number_of(0, "b");
	parts[0] = part(0, "a", "b", 0);
	parts[1] = part(1, "a", "a/s/b", 0);
	assert_int_equal(rename_parts_do(parts, 2, &target, 1), -EINVAL);
	assert_true(is_there(0, "a") && is_there(1, "a"));
	assert_int_equal(number_of(0, "b"), number);
	assert_int_equal(intent_pending(table.items[0]), 0);
}

/* A single part; the file to go is on a branch without one. */
static void what_was_to_go_elsewhere_stays_when_the_part_fails(void **state)
{
	static const char *const dirs[][2] = {
		{"0", "a"}, {"0", "a/s"}, {"1", "b"}};
	struct rename_part only;
	struct rename_gone target = gone(1, "b");
	ino_t number;

	(void)state;
	make_dirs(dirs, 3);
	number = number_of(1, "b");
	only = part(0, "a", "a/s/b", 0);
	assert_int_equal(rename_parts_do(&only, 1, &target, 1), -EINVAL);
	assert_int_equal(number_of(1, "b"), number);
	only.to_name = "b";
	assert_int_equal(rename_parts_do(&only, 1, &target, 1), 0);
	assert_true(is_there(0, "b"));
	assert_false(is_there(1, "b"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(text_and_back_is_the_same),
		TEST(refuses_text_that_is_not_ours),
		TEST(a_replaced_file_goes_when_the_rename_was_done),
		TEST(records_are_counted_and_left_alone),
		TEST(a_file_stays_when_the_rename_was_not_done),
		TEST(a_file_that_came_later_is_not_removed),
		TEST(a_directory_is_moved_on_all_branches_once_decided),
		TEST(a_directory_takes_the_place_of_a_file_it_hides),
		TEST(a_directory_stays_on_all_branches_until_decided),
		TEST(names_are_exchanged_on_all_branches_once_decided),
		TEST(an_exchange_that_was_done_is_not_done_again),
		TEST(all_parts_are_renamed_or_none),
		TEST(what_was_to_go_stays_when_a_part_fails),
		TEST(what_was_to_go_elsewhere_stays_when_the_part_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
