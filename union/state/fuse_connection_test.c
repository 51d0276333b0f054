/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/fuse_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel/fusectl.h"
#include "union/testkit/hang_kit.h"

#include <cmocka.h>

static void by_descriptor(const struct hang_fs *at)
{
	(void)mkdirat(at->root_fd, "x", 0700);
}

static void who_waits_is_answered_though_others_have_it(void **state)
{
	struct hang_fs fs;
	pid_t thread, pid;
	struct stat st;
	int r;

	(void)state;
	if (!hang_fs_can())
		skip();
	assert_int_equal(hang_fs_start(&fs), 0);
	pid = hang_process(&fs, by_descriptor, &thread);
	r = fuse_connection_abort(fs.fuse_fd);
	if (r == 0) {
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(stat(fs.path, &st), -1);
		assert_int_equal(errno, ENOTCONN);
	}
	hang_fs_end(&fs);
	if (r == -EOPNOTSUPP)
		skip();
	assert_int_equal(r, 0);
}

/* An end that comes late is not that of the next one with the same number. */
static void a_later_connection_is_left_alone(void **state)
{
	struct hang_fs fs;
	struct pollfd fuse = {.events = POLLOUT};
	struct statx before, now;
	int fd;

	(void)state;
	if (!hang_fs_can())
		skip();
	assert_int_equal(hang_fs_start(&fs), 0);
	assert_int_equal(statx(fs.root_fd, "",
			       AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &before),
			 0);
	fd = fusectl_open(before.stx_dev_minor);
	assert_true(fd >= 0);
	hang_fs_end(&fs);
	assert_int_equal(fusectl_open(before.stx_dev_minor), -ENOENT);
	assert_int_equal(hang_fs_start(&fs), 0);
	assert_int_equal(statx(fs.root_fd, "",
			       AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &now),
			 0);
	assert_int_equal(fusectl_abort(fd), 0);
	fuse.fd = fs.fuse_fd;
	assert_true(poll(&fuse, 1, 0) >= 0);
	assert_false(fuse.revents & POLLERR);
	fd_close(fd);
	fd = fusectl_open(now.stx_dev_minor);
	assert_true(fd >= 0);
	assert_int_equal(fusectl_abort(fd), 0);
	assert_true(poll(&fuse, 1, 0) >= 0);
	assert_true(fuse.revents & POLLERR);
	fd_close(fd);
	hang_fs_end(&fs);
	if (now.stx_dev_minor != before.stx_dev_minor)
		skip(); /* another mount took the number */
}

static void what_is_none_is_left_alone(void **state)
{
	(void)state;
	assert_int_equal(fuse_connection_abort(STDIN_FILENO), -EOPNOTSUPP);
	assert_int_equal(fuse_connection_abort(-1), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_is_answered_though_others_have_it),
		cmocka_unit_test(a_later_connection_is_left_alone),
		cmocka_unit_test(what_is_none_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
