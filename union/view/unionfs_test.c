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

#include "union/branch/dir_fd.h"
#include "union/node/names_change.h"
#include "union/view/unionfs.h"

#include <cmocka.h>

static void attributes_are_not_kept_of_a_directory_that_changes(void **state)
{
	char path[] = "/tmp/unionfs-XXXXXX";
	struct branch branch = {.root_fd = -1};
	struct unionfs fs = {.timeout = 100};
	struct node_found found = {.branch = 0};
	struct node *node;
	struct stat st;
	double timeout;

	(void)state;
	assert_non_null(mkdtemp(path));
	branch.root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fs.branches.items[0] = &branch;
	fs.branches.count = 1;
	assert_int_equal(handle_get(branch.root_fd, "", &found.handle), 0);
	assert_int_equal(node_table_init(&fs.nodes, 1, NULL), 0);
	assert_int_equal(node_intern(&fs.nodes, S_IFDIR, 7, &found, 1, &node),
			 0);
	assert_int_equal(unionfs_attr(&fs, NULL, node, &st, &timeout), 0);
	assert_true(timeout == 100);
	names_change_begin(node);
	assert_int_equal(unionfs_attr(&fs, NULL, node, &st, &timeout), 0);
	assert_true(timeout == 0);
	names_change_end(node, true);
	assert_int_equal(unionfs_attr(&fs, NULL, node, &st, &timeout), 0);
	assert_true(timeout == 100);
	dir_fd_drop_branch(0);
	node_forget(&fs.nodes, node->id, 1);
	node_table_done(&fs.nodes);
	(void)close(branch.root_fd);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			attributes_are_not_kept_of_a_directory_that_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
