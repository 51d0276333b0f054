/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "union/state/fd_store.h"
#include "union/supervisor/fd_store_server.h"

#include <cmocka.h>

#define MANY 200

static int open_one(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void what_is_dropped_is_closed_and_the_rest_stays(void **state)
{
	struct fd_store_server held = {0};
	int fds[MANY];
	unsigned i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		fds[i] = open_one();
		assert_int_equal(fd_store_server_add(&held, i + 1, fds[i]), 0);
	}
	for (i = 0; i < MANY; i += 2)
		fd_store_server_drop(&held, i + 1);
	fd_store_server_drop(&held, MANY + 1); /* none */
	for (i = 0; i < MANY; i++) {
		assert_int_equal(fd_store_server_has(&held, i + 1), i % 2);
		assert_int_equal(is_open(fds[i]), i % 2);
	}
	fd_store_server_done(&held);
	assert_false(fd_store_server_has(&held, 2));
	assert_false(is_open(fds[1]));
}

static void the_next_server_gets_all_of_it(void **state)
{
	struct fd_store_message message;
	struct fd_store_server held = {0};
	int ends[2], fd;

	(void)state;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(fd_store_server_add(&held, 7, open_one()), 0);
	assert_int_equal(fd_store_server_send(&held, ends[0]), 0);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_ADD);
	assert_int_equal(message.token, 7);
	assert_true(fd >= 0);
	fd_close(fd);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_END);
	fd_close(ends[1]);
	assert_true(fd_store_server_send(&held, ends[0]) < 0);
	fd_close(ends[0]);
	fd_store_server_done(&held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_dropped_is_closed_and_the_rest_stays),
		cmocka_unit_test(the_next_server_gets_all_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
