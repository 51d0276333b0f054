/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches that fail while a server goes on with interrupted renames on them.
 * Two directories stand for branches; opening by handle needs root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/intent.h"
#include "union/testkit/branches_kit.h"

#include <cmocka.h>

static char top[BRANCHES_KIT_TOP];
static struct branch_table table;

/*
 * So many of the next calls give EIO. A read of a disk that dies is followed by
 * a write that is to tell; after a write another one is.
 */
static unsigned bad_reads, bad_syncs;

struct dirent *readdir(DIR *dir)
{
	struct dirent *(*real)(DIR *) = NULL;

	*(void **)&real = dlsym(RTLD_NEXT, "readdir");
	if (!bad_reads)
		return real(dir);
	bad_reads--;
	bad_syncs = 1;
	errno = EIO;
	return NULL;
}

int fsync(int fd)
{
	int (*real)(int) = NULL;

	*(void **)&real = dlsym(RTLD_NEXT, "fsync");
	if (!bad_syncs)
		return real(fd);
	bad_syncs--;
	errno = EIO;
	return -1;
}

static int setup(void **state)
{
	(void)state;
	log_setup("intent_recover_test", LOG_LEVEL_ERROR);
	return branches_kit_make(top, &table);
}

static int done(void **state)
{
	(void)state;
	branch_table_done(&table);
	return branches_kit_remove(top);
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

static bool is_there(unsigned branch, const char *name)
{
	return faccessat(root_of(branch), name, F_OK, 0) == 0;
}

/* Was "d" on both branches renamed to "e"? */
static bool is_moved(void)
{
	return is_there(0, "e") && is_there(1, "e") && !is_there(0, "d") &&
	       !is_there(1, "d");
}

/* Its part of the rename of "d" to "e". */
static void write_down(unsigned branch, enum intent_kind kind)
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

static void go_on(void)
{
	const struct intent_watcher watcher = {0};
	struct error err = {0};

	assert_true(intent_recover_watched(&table, &watcher, &err) >= 0);
}

static void come_back(unsigned branch)
{
	struct branch *item = table.items[branch];
	auto_close int root = open(item->path,
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(item->failed, EIO);
	assert_true(root >= 0);
	branch_revive(item, root, item->device);
	branch_trust(item);
}

/* The next mount. */
static void recover(int want)
{
	struct error err = {0};

	assert_int_equal(intent_recover(&table, &err), want);
}

static void a_mount_is_refused(void **state)
{
	(void)state;
	write_down(1, INTENT_MOVE_ALL);
	bad_reads = 1;
	recover(-EIO);
	bad_syncs = 2;
	recover(-EIO);
	come_back(1);
	recover(1);
	assert_true(is_there(1, "e"));
}

static void goes_on_without_one_that_cannot_be_read(void **state)
{
	(void)state;
	write_down(0, INTENT_MOVE);
	write_down(1, INTENT_MOVE_ALL);
	bad_reads = 1;
	go_on();
	assert_false(branch_usable(0));
	assert_true(branch_usable(1));
	come_back(0);
	recover(2);
	assert_true(is_moved());
}

static void what_one_would_decide_waits_for_it(void **state)
{
	(void)state;
	write_down(0, INTENT_MOVE_ALL);
	write_down(1, INTENT_MOVE);
	bad_reads = 1;
	go_on();
	assert_true(is_there(1, "d"));
	come_back(0);
	recover(2);
	assert_true(is_moved());
}

static void goes_on_without_one_that_cannot_be_changed(void **state)
{
	(void)state;
	write_down(0, INTENT_MOVE);
	write_down(1, INTENT_MOVE_ALL);
	bad_syncs = 2;
	go_on();
	assert_false(branch_usable(0));
	assert_true(is_there(1, "e"));
	come_back(0);
	recover(2);
	assert_true(is_moved());
}

/* Name "e" on branch 1 "d" again, as a user of the union. */
static void rename_back(void)
{
	assert_true(is_there(1, "e"));
	assert_int_equal(renameat(root_of(1), "e", root_of(1), "d"), 0);
}

static void what_was_finished_is_not_done_once_more(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(root_of(0), BRANCH_WORK_DIR, 0700), 0);
	write_down(1, INTENT_MOVE_ALL);
	/* A server was killed in the middle of this note. */
	assert_int_equal(symlinkat("cut short", root_of(1),
				   BRANCH_WORK_DIR "/settled-7"),
			 0);
	bad_reads = 1;
	go_on();
	rename_back();
	go_on(); /* without branch 0 still */
	assert_true(is_there(1, "d"));
	come_back(0);
	recover(1);
	assert_true(is_there(1, "d"));
}

static void what_was_finished_counts_for_the_others(void **state)
{
	(void)state;
	write_down(0, INTENT_MOVE);
	write_down(1, INTENT_MOVE_ALL);
	bad_reads = 1;
	go_on();
	rename_back();
	come_back(0);
	recover(2);
	assert_true(is_there(0, "e"));
	assert_true(is_there(1, "d"));
	recover(0);
}

static void put_file(unsigned branch, const char *name)
{
	auto_close int fd = openat(root_of(branch), name,
				   O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
}

static void a_damaged_object_keeps_no_mount_from_going_on(void **state)
{
	(void)state;
	write_down(0, INTENT_MOVE);
	write_down(1, INTENT_MOVE_ALL);
	bad_syncs = 1; /* the disk is well, as the next says */
	recover(2);
	assert_true(branch_usable(0) && branch_usable(1));
	assert_true(is_moved());
	recover(2); /* that one was durable is not known */
	recover(0);
}

/* The replaced file may be in use again by then. */
static void what_was_replaced_on_a_failed_one_is_not_removed_later(void **state)
{
	struct intent intent = {.kind = INTENT_REPLACE, .other = 0};

	(void)state;
	put_file(1, "new");
	put_file(0, "old");
	intent.moved = handle_at(1, "new");
	intent.to_dir = handle_at(1, "");
	intent.other_dir = handle_at(0, "");
	intent.replaced = handle_at(0, "old");
	strcpy(intent.to_name, "old");
	assert_int_equal(intent_begin(table.items[1], 1, &intent, true), 0);
	assert_int_equal(renameat(root_of(1), "new", root_of(1), "old"), 0);
	branch_fail(table.items[0], EIO);
	go_on();
	come_back(0);
	recover(0);
	assert_true(is_there(0, "old") && is_there(1, "old"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_mount_is_refused),
		TEST(goes_on_without_one_that_cannot_be_read),
		TEST(what_one_would_decide_waits_for_it),
		TEST(goes_on_without_one_that_cannot_be_changed),
		TEST(what_was_finished_is_not_done_once_more),
		TEST(what_was_finished_counts_for_the_others),
		TEST(a_damaged_object_keeps_no_mount_from_going_on),
		TEST(what_was_replaced_on_a_failed_one_is_not_removed_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
