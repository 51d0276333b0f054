/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "union/live/remove_branch.h"

#include <cmocka.h>

static struct unionfs fs;

static void a_branch_is_closed_when_the_last_who_used_it_has_ended(void **state)
{
	struct branch branch = {.flags = BRANCH_GONE, .to_close = true};
	const uint64_t request[] = {11};
	struct migrate_lock_pass pass;

	(void)state;
	assert_int_equal(migrate_lock_init(&fs.migrate_lock), 0);
	fs.branches.items[0] = &branch;
	fs.branches.count = 1;
	branch.root_fd = open("/", O_PATH | O_CLOEXEC);
	assert_true(branch.root_fd >= 0);
	pass = migrate_lock_enter(&fs.migrate_lock, request, 1);
	assert_true(union_remove_branch_finish(&fs));
	assert_true(union_remove_branch_finish(&fs));
	assert_true(fcntl(branch.root_fd, F_GETFD) >= 0);
	migrate_lock_leave(&fs.migrate_lock, pass);
	assert_false(union_remove_branch_finish(&fs));
	assert_int_equal(branch.root_fd, -1);
	assert_false(union_remove_branch_finish(&fs));
	migrate_lock_done(&fs.migrate_lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_branch_is_closed_when_the_last_who_used_it_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
