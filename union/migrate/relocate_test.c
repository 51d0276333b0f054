/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that moves, and a crash at each of its steps. Two directories stand
 * for branches; opening by handle needs root.
 */
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
#include "union/branch/branch_work.h"
#include "union/branch/ino_preserve.h"
#include "union/migrate/relocate.h"
#include "union/sys/inode_number.h"
#include "union/testkit/branches_kit.h"

#include <cmocka.h>

static char top[BRANCHES_KIT_TOP];
static struct branch_table table;
static struct relocate_name names[2];
static struct relocation file;
static int dirs[2][2]; /* of each branch: "a" and "b" */

static int open_dirs(unsigned branch)
{
	static const char *const paths[] = {"a", "b"};
	int i;

	for (i = 0; i < 2; i++) {
		if (mkdirat(table.items[branch]->root_fd, paths[i], 0755) < 0)
			return -1;
		dirs[branch][i] = openat(table.items[branch]->root_fd, paths[i],
					 O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return 0;
}

static int setup(void **state)
{
	unsigned i;

	(void)state;
	if (branches_kit_make(top, &table) < 0)
		return -1;
	for (i = 0; i < 2 && table.count == 2; i++)
		if (open_dirs(i) < 0)
			return -1;
	return 0;
}

static int done(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 4 && table.count == 2; i++)
		fd_close(dirs[i / 2][i % 2]);
	branch_table_done(&table);
	return branches_kit_remove(top);
}

static void write_file(int dirfd, const char *name, const char *text)
{
	auto_close int fd = openat(dirfd, name, O_CREAT | O_WRONLY | O_CLOEXEC,
				   0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void assert_file(int dirfd, const char *name, const char *text)
{
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	char data[16] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, data, sizeof(data) - 1) >= 0);
	assert_string_equal(data, text);
}

static bool is_there(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* "a/x" and "b/y" of branch 0 are one file, and its copy is ready. */
static void prepare(unsigned count)
{
	auto_close int work = -1, copy = -1;
	struct stat st;

	if (table.count != 2)
		skip();
	work = branch_work_dir(table.items[1]);
	write_file(dirs[0][0], "x", "text");
	assert_int_equal(fstatat(dirs[0][0], "x", &st, 0), 0);
	memset(&file, 0, sizeof(file));
	memset(names, 0, sizeof(names));
	names[0] = (struct relocate_name){
		.name = "x", .from_fd = dirs[0][0], .to_fd = dirs[1][0]};
	names[1] = (struct relocate_name){
		.name = "y", .from_fd = dirs[0][1], .to_fd = dirs[1][1]};
	if (count > 1)
		assert_int_equal(linkat(dirs[0][0], "x", dirs[0][1], "y", 0),
				 0);
	file.from = table.items[0];
	file.to = table.items[1];
	file.names = names;
	file.count = count;
	file.keeps = true;
	file.number = inode_number(0, st.st_ino);
	relocate_temporary(file.temporary);
	write_file(work, file.temporary, "text");
	copy = openat(work, file.temporary, O_PATH | O_CLOEXEC);
	assert_int_equal(inode_number_write(copy, file.number), 0);
	assert_int_equal(handle_get(copy, "", &file.copy), 0);
	assert_int_equal(handle_get(dirs[0][0], "x", &file.old), 0);
}

/* No file of the union is left but a stub that is to stay. */
static void assert_tidy(bool stub)
{
	auto_close int from = branch_work_dir(table.items[0]);
	auto_close int to = branch_work_dir(table.items[1]);
	char name[INO_PRESERVE_NAME_MAX];

	assert_false(is_there(to, file.temporary));
	assert_int_equal(intent_pending(table.items[1]), 0);
	ino_preserve_name(file.number, name);
	assert_int_equal(is_there(from, name), stub);
	if (stub)
		assert_file(from, name, "");
}

static void assert_moved(void)
{
	struct stat st;

	assert_file(dirs[1][0], "x", "text");
	assert_false(is_there(dirs[0][0], "x"));
	assert_false(is_there(dirs[0][1], "y"));
	if (file.count > 1)
		assert_file(dirs[1][1], "y", "text");
	assert_int_equal(fstatat(dirs[1][0], "x", &st, 0), 0);
	assert_int_equal(st.st_nlink, file.count);
	assert_tidy(true);
}

static void assert_stayed(void)
{
	struct stat st;

	assert_file(dirs[0][0], "x", "text");
	assert_false(is_there(dirs[1][0], "x"));
	assert_false(is_there(dirs[1][1], "y"));
	assert_int_equal(fstatat(dirs[0][0], "x", &st, 0), 0);
	assert_int_equal(st.st_nlink, file.count);
	assert_tidy(false);
}

static unsigned told; /* that the file moved */

static void note_moved(void *context, unsigned from, const struct handle *old,
		       unsigned to, const struct handle *copy)
{
	assert_ptr_equal(context, &told);
	assert_int_equal(from, file.from->id);
	assert_int_equal(to, file.to->id);
	assert_true(handle_equal(old, &file.old));
	assert_true(handle_equal(copy, &file.copy));
	told++;
}

static void crash(void)
{
	const struct intent_watcher watcher = {note_moved, &told};
	struct error err = {0};

	told = 0;
	assert_true(intent_recover_watched(&table, &watcher, &err) >= 0);
	assert_in_range(told, is_there(dirs[1][0], "x"), 1);
	assert_int_equal(intent_recover(&table, &err), 0);
}

static void a_file_moves(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(relocate_cut(&file), 0);
	assert_int_equal(relocate_end(&file), 0);
	assert_moved();
}

static void it_stays_until_that_is_written_down(void **state)
{
	(void)state;
	prepare(2);
	crash();
	assert_stayed();
}

static void it_stays_until_all_of_that_is_written_down(void **state)
{
	auto_close int work = -1;
	struct intent intent = {.kind = INTENT_RELOCATE};

	(void)state;
	prepare(2);
	intent.moved = file.copy;
	intent.replaced = file.old;
	strcpy(intent.from_name, file.temporary);
	strcpy(intent.to_name, "x");
	assert_int_equal(handle_get(dirs[1][0], "", &intent.to_dir), 0);
	assert_int_equal(handle_get(dirs[0][0], "", &intent.other_dir), 0);
	assert_int_equal(intent_begin(table.items[1], 5, &intent, true), 0);
	crash();
	assert_stayed();
}

static void it_moves_once_that_is_written_down(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	crash();
	assert_moved();
}

static void it_moves_when_one_name_is_made(void **state)
{
	auto_close int work = -1;

	(void)state;
	prepare(2);
	work = branch_work_dir(table.items[1]);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(linkat(work, file.temporary, dirs[1][0], "x", 0), 0);
	crash();
	assert_moved();
}

static void it_moves_when_all_names_are_made(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	crash();
	assert_moved();
}

static void it_moves_when_one_name_is_cut(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(unlinkat(dirs[0][1], "y", 0), 0);
	crash();
	assert_moved();
}

static void it_moves_when_all_names_are_cut(void **state)
{
	(void)state;
	prepare(1);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(relocate_cut(&file), 0);
	crash();
	assert_moved();
}

static void what_others_did_since_stays_done(void **state)
{
	(void)state;
	prepare(1);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(relocate_cut(&file), 0);
	assert_int_equal(renameat(dirs[1][0], "x", dirs[1][1], "z"), 0);
	write_file(dirs[0][0], "x", "new");
	crash();
	assert_file(dirs[1][1], "z", "text");
	assert_file(dirs[0][0], "x", "new");
	assert_false(is_there(dirs[1][0], "x"));
}

/* The copy's branch was not there when a server went on; now it is. */
static void write_old(int dirfd, const char *name)
{
	struct stat st;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

	write_file(dirfd, name, "newer");
	assert_int_equal(fstatat(dirfd, name, &st, 0), 0);
	times[1] = st.st_mtim;
	times[1].tv_sec++;
	assert_int_equal(utimensat(dirfd, name, times, 0), 0);
}

static void what_was_written_to_the_old_file_since_is_not_lost(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	write_old(dirs[0][0], "x");
	crash();
	assert_file(dirs[0][0], "x", "newer");
	assert_file(dirs[0][1], "y", "newer");
	assert_false(is_there(dirs[1][0], "x"));
	assert_false(is_there(dirs[1][1], "y"));
	assert_int_equal(told, 0);
	assert_tidy(false);
}

static void nor_is_a_name_that_it_had_lost_by_then(void **state)
{
	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(unlinkat(dirs[0][1], "y", 0), 0);
	write_old(dirs[0][0], "x");
	crash();
	assert_file(dirs[0][0], "x", "newer");
	assert_file(dirs[0][1], "y", "newer");
	assert_false(is_there(dirs[1][0], "x"));
	assert_false(is_there(dirs[1][1], "y"));
	assert_tidy(false);
}

static void what_a_crash_finds_in_the_way_is_kept(void **state)
{
	(void)state;
	prepare(1);
	assert_int_equal(relocate_begin(&file), 0);
	write_file(dirs[1][0], "x", "hidden");
	crash();
	assert_moved();
}

static void it_is_taken_back(void **state)
{
	(void)state;
	prepare(2);
	write_file(dirs[1][1], "y", "other");
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), -EEXIST);
	assert_int_equal(relocate_undo(&file), 0);
	assert_file(dirs[1][1], "y", "other");
	assert_int_equal(unlinkat(dirs[1][1], "y", 0), 0);
	assert_stayed();
}

static void it_stays_whole_when_a_name_cannot_be_cut(void **state)
{
	struct stat st;

	(void)state;
	prepare(2);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	names[1].name = "y/"; /* which no file is called */
	assert_true(relocate_cut(&file) < 0);
	names[1].name = "y";
	assert_file(dirs[0][0], "x", "text");
	assert_int_equal(fstatat(dirs[0][0], "x", &st, 0), 0);
	assert_int_equal(st.st_nlink, 2); /* no stub is left */
	assert_int_equal(relocate_undo(&file), 0);
	crash();
	assert_stayed();
}

static void a_number_is_kept_as_long_as_its_file(void **state)
{
	auto_close int work = -1, fd = -1;
	char name[INO_PRESERVE_NAME_MAX];
	uint64_t number;

	(void)state;
	prepare(1);
	assert_int_equal(ino_preserve_mark(table.items[1]), 0);
	assert_int_equal(relocate_begin(&file), 0);
	assert_int_equal(relocate_link(&file), 0);
	assert_int_equal(relocate_cut(&file), 0);
	assert_int_equal(relocate_end(&file), 0);
	fd = openat(dirs[1][0], "x", O_PATH | O_CLOEXEC);
	assert_int_equal(ino_preserve_read(table.items[1], fd, "", 1, &number),
			 0);
	assert_int_equal(number, file.number);
	ino_preserve_end(&table, 1, fd);
	work = branch_work_dir(table.items[0]);
	ino_preserve_name(file.number, name);
	assert_false(is_there(work, name));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_moves),
		TEST(it_stays_until_that_is_written_down),
		TEST(it_stays_until_all_of_that_is_written_down),
		TEST(it_moves_once_that_is_written_down),
		TEST(it_moves_when_one_name_is_made),
		TEST(it_moves_when_all_names_are_made),
		TEST(it_moves_when_one_name_is_cut),
		TEST(it_moves_when_all_names_are_cut),
		TEST(what_others_did_since_stays_done),
		TEST(what_was_written_to_the_old_file_since_is_not_lost),
		TEST(nor_is_a_name_that_it_had_lost_by_then),
		TEST(what_a_crash_finds_in_the_way_is_kept),
		TEST(it_is_taken_back),
		TEST(it_stays_whole_when_a_name_cannot_be_cut),
		TEST(a_number_is_kept_as_long_as_its_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
