/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory that goes, or gets another name, while another request makes a
 * copy of it on another branch. Opening by handle needs root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/change/clone_dir.h"
#include "union/change/remove_dir.h"
#include "union/change/rename.h"
#include "union/node/dir_attr_lock.h"
#include "union/recover/unionfs_life.h"
#include "union/testkit/branches_kit.h"
#include "union/view/name_filter.h"

#include <cmocka.h>

static char top[BRANCHES_KIT_TOP];
static struct unionfs fs;
static struct node *root, *dir; /* "d", on branch 0 alone */
static atomic_int waiter;       /* thread id */

static int setup(void **state)
{
	(void)state;
	return branches_kit_union(top, &fs, &root);
}

static int done(void **state)
{
	(void)state;
	if (root)
		unionfs_done(&fs);
	return branches_kit_remove(top);
}

static int root_fd(unsigned branch)
{
	return fs.branches.items[branch]->root_fd;
}

static bool is_there(unsigned branch, const char *name)
{
	return faccessat(root_fd(branch), name, F_OK, 0) == 0;
}

static int make(void **state)
{
	struct fuse_entry_param entry;

	(void)state;
	atomic_store(&waiter, 0);
	if (!root)
		return 0;
	name_filter_add(root, "d", 0);
	if (mkdirat(root_fd(0), "d", 0755) < 0 ||
	    lookup_entry(&fs, NULL, root, "d", NULL, &entry) < 0)
		return -1;
	dir = node_get(&fs.nodes, entry.ino);
	return 0;
}

static int clear(void **state)
{
	unsigned i;

	(void)state;
	if (!root)
		return 0;
	node_forget(&fs.nodes, dir->id, 1);
	for (i = 0; i < 2; i++) {
		(void)unlinkat(root_fd(i), "d", AT_REMOVEDIR);
		(void)unlinkat(root_fd(i), "e", AT_REMOVEDIR);
	}
	name_filter_forget_all();
	return node_count(&fs.nodes) == 1 ? 0 : -1; /* nobody holds it */
}

static void *remove_it(void *context)
{
	(void)context;
	atomic_store(&waiter, gettid());
	return (void *)(intptr_t)remove_dir(&fs, NULL, root, "d");
}

static void *clone_it(void *context)
{
	struct dir_fd *made = NULL;
	int r;

	(void)context;
	atomic_store(&waiter, gettid());
	r = clone_dir(&fs, dir, 1, &made);
	dir_fd_put(made);
	return (void *)(intptr_t)r;
}

static void *rename_it(void *context)
{
	struct rename_args m = {.fs = &fs,
				.from_dir = root,
				.to_dir = root,
				.from_name = "d",
				.to_name = "e"};

	(void)context;
	atomic_store(&waiter, gettid());
	return (void *)(intptr_t)rename_name(&m);
}

/* Start @run, and go on when it waits. */
static pthread_t start(void *(*run)(void *context))
{
	char path[64], state = 0;
	pthread_t thread;
	FILE *file;

	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	while (!atomic_load(&waiter))
		(void)sched_yield();
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
		       atomic_load(&waiter));
	while (state != 'S') {
		file = fopen(path, "re");
		assert_non_null(file);
		assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
		(void)fclose(file);
	}
	return thread;
}

static int end(pthread_t thread)
{
	void *r;

	assert_int_equal(pthread_join(thread, &r), 0);
	return (int)(intptr_t)r;
}

/* Make a copy as clone_dir() does. */
static void make_copy(void)
{
	struct handle known = copy_handle(node_first(dir)), handle;

	name_filter_add(root, "d", 1);
	assert_int_equal(mkdirat(root_fd(1), "d", 0755), 0);
	assert_int_equal(handle_get(root_fd(1), "d", &handle), 0);
	assert_int_equal(node_add_copy(&fs.nodes, 0, &known, 1, &handle), 0);
}

static void a_copy_made_meanwhile_goes_too(void **state)
{
	struct dir_attr_lock turn;
	pthread_t thread;

	(void)state;
	if (!root)
		skip();
	dir_attr_lock_take(&turn, dir->id);
	thread = start(remove_it);
	make_copy();
	dir_attr_lock_give(&turn);
	assert_int_equal(end(thread), 0);
	assert_false(is_there(0, "d"));
	assert_false(is_there(1, "d"));
}

static void what_was_removed_is_not_made_again(void **state)
{
	struct dir_attr_lock turn;
	struct handle known;
	pthread_t thread;

	(void)state;
	if (!root)
		skip();
	known = copy_handle(node_first(dir));
	dir_attr_lock_take(&turn, dir->id);
	thread = start(clone_it);
	assert_int_equal(unlinkat(root_fd(0), "d", AT_REMOVEDIR), 0);
	node_copy_gone(&fs.nodes, 0, &known, NULL);
	dir_attr_lock_give(&turn);
	assert_int_equal(end(thread), -ENOENT);
	assert_false(is_there(1, "d"));
}

static void a_copy_made_meanwhile_is_renamed_too(void **state)
{
	pthread_t thread;

	(void)state;
	if (!root)
		skip();
	pthread_rwlock_rdlock(&fs.tree);
	thread = start(rename_it);
	make_copy();
	pthread_rwlock_unlock(&fs.tree);
	assert_int_equal(end(thread), 0);
	assert_true(is_there(0, "e"));
	assert_true(is_there(1, "e"));
	assert_false(is_there(1, "d"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_copy_made_meanwhile_goes_too,
						make, clear),
		cmocka_unit_test_setup_teardown(
			what_was_removed_is_not_made_again, make, clear),
		cmocka_unit_test_setup_teardown(
			a_copy_made_meanwhile_is_renamed_too, make, clear),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
