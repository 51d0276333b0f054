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

static unsigned minor_of(const struct hang_fs *fs)
{
	struct statx st;

	assert_int_equal(statx(fs->root_fd, "",
			       AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st),
			 0);
	return st.stx_dev_minor;
}

static bool has_ended(const struct hang_fs *fs)
{
	struct pollfd fuse = {.fd = fs->fuse_fd, .events = POLLOUT};

	assert_true(poll(&fuse, 1, 0) >= 0);
	return fuse.revents & POLLERR;
}

/* False: another mount of this machine took the number between the two. */
static bool end_the_one_before(void)
{
	struct hang_fs fs;
	unsigned before, now;
	int fd, gone;

	assert_int_equal(hang_fs_start(&fs), 0);
	before = minor_of(&fs);
	fd = fusectl_open(before);
	assert_true(fd >= 0);
	hang_fs_end(&fs);
	gone = fusectl_open(before);
	assert_true(gone >= 0 || gone == -ENOENT);
	assert_int_equal(hang_fs_start(&fs), 0);
	now = minor_of(&fs);
	assert_int_equal(fusectl_abort(fd), 0);
	assert_false(has_ended(&fs));
	fd_close(fd);
	fd = fusectl_open(now);
	assert_true(fd >= 0);
	assert_int_equal(fusectl_abort(fd), 0);
	assert_true(has_ended(&fs));
	fd_close(fd);
	hang_fs_end(&fs);
	if (gone >= 0)
		fd_close(gone);
	return gone == -ENOENT && now == before;
}

/* An end that comes late is not that of the next one with the same number. */
static void a_later_connection_is_left_alone(void **state)
{
	(void)state;
	if (!hang_fs_can())
		skip();
	for (int tries = 0; !end_the_one_before(); tries++)
		assert_true(tries < 1000);
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
