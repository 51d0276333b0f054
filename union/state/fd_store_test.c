/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#include <cmocka.h>

static int ends[2]; /* of the supervisor; of the server */

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int teardown(void **state)
{
	uint64_t token;
	int fd;

	(void)state;
	while ((fd = fd_store_take_any(&token)) >= 0)
		fd_close(fd);
	fd_close(ends[0]);
	fd_close(ends[1]);
	(void)fd_store_start(-1);
	return 0;
}

/* The inode number says which one it is. */
static ino_t number_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void a_server_is_given_what_was_kept(void **state)
{
	auto_close int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
	auto_close int two = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	uint64_t token = 0;
	int fd;

	(void)state;
	assert_int_equal(fd_store_send(ends[0], FD_STORE_ADD, 20, NULL, one),
			 0);
	assert_int_equal(
		fd_store_send(ends[0], FD_STORE_ADD, FD_STORE_FUSE, NULL, two),
		0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1), 0);
	assert_int_equal(fd_store_start(ends[1]), 0);
	assert_true(fd_store_is_on());
	assert_int_equal(fd_store_take(FD_STORE_STATE), -1);
	fd = fd_store_take(FD_STORE_FUSE);
	assert_int_equal(number_of(fd), number_of(two));
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	fd_close(fd);
	assert_int_equal(fd_store_take(FD_STORE_FUSE), -1);
	fd = fd_store_take_any(&token);
	assert_int_equal(token, 20);
	assert_int_equal(number_of(fd), number_of(one));
	fd_close(fd);
	assert_int_equal(fd_store_take_any(&token), -1);
}

static void the_supervisor_is_told(void **state)
{
	auto_close int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct error no = {EPROTO, "no"}, longest = {.code = EIO};
	struct fd_store_message message;
	int fd;

	(void)state;
	memset(longest.msg, 'x', sizeof(longest.msg) - 1);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1), 0);
	assert_int_equal(fd_store_start(ends[1]), 0);
	fd_store_fd(30, one);
	fd_store_drop(30);
	fd_store_say_failed(&no);
	fd_store_say_failed(&longest);
	fd_store_say_ready();
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_ADD);
	assert_int_equal(message.token, 30);
	assert_int_equal(number_of(fd), number_of(one));
	fd_close(fd);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_DROP);
	assert_int_equal(fd, -1);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_string_equal(message.text, "no");
	assert_int_equal(message.token, EPROTO);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(strlen(message.text), ERROR_TEXT_MAX - 1);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_READY);
}

/* Messages sent before the end arrive. */
static void what_a_server_sent_outlives_it(void **state)
{
	auto_close int one = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct fd_store_message message;
	int fd;

	(void)state;
	assert_int_equal(fd_store_send(ends[1], FD_STORE_ADD, 40, NULL, one),
			 0);
	fd_close(take_fd(&ends[1]));
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(number_of(fd), number_of(one));
	fd_close(fd);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 0);
}

static void refuses_a_message_that_is_cut(void **state)
{
	struct fd_store_message message;
	int fd;

	(void)state;
	assert_int_equal(send(ends[1], "short", 5, 0), 5);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), -EPROTO);
	assert_int_equal(fd, -1);
}

static void a_supervisor_that_is_gone_gives_nothing(void **state)
{
	(void)state;
	fd_close(take_fd(&ends[0]));
	assert_int_equal(fd_store_start(ends[1]), -EPIPE);
}

static void begin(void)
{
	assert_int_equal(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1), 0);
	assert_int_equal(fd_store_start(ends[1]), 0);
}

/* Take the token of a request to replace the server. */
static uint64_t take_request(void)
{
	struct fd_store_message message;
	int fd;

	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_REPLACE);
	return message.token;
}

static void asks_to_be_replaced_and_is_told_why_not(void **state)
{
	struct error err = {0};
	uint64_t token;

	(void)state;
	assert_int_equal(fd_store_start(-1), 0);
	assert_int_equal(fd_store_ask_replace(60000, &err), -EOPNOTSUPP);
	begin();
	assert_int_equal(fd_store_ask_replace(0, &err), -ETIMEDOUT);
	token = take_request();
	/* The first is late, and of the request before. */
	assert_int_equal(
		fd_store_send(ends[0], FD_STORE_REFUSED, token, "late", -1), 0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_REFUSED, token + 1,
				       "too old", -1),
			 0);
	assert_int_equal(fd_store_ask_replace(60000, &err), -EREMOTEIO);
	assert_string_equal(err.msg, "too old");
	assert_int_equal(take_request(), token + 1);
	fd_close(take_fd(&ends[0]));
	assert_int_equal(fd_store_ask_replace(60000, &err), -ENOTCONN);
}

/* An older supervisor does not know the message. */
static void waits_no_longer_than_it_may_for_a_supervisor_that_is_silent(
	void **state)
{
	struct error err = {0};

	(void)state;
	begin();
	assert_int_equal(fd_store_ask_replace(1, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "does not answer"));
}

/* The server was killed before it read the messages to it. */
static void what_it_sent_is_there_though_it_had_not_read(void **state)
{
	struct fd_store_message message;
	int fd;

	(void)state;
	assert_int_equal(fd_store_send(ends[0], FD_STORE_ADD, 20, NULL, -1), 0);
	assert_int_equal(fd_store_send(ends[1], FD_STORE_READY, 0, NULL, -1),
			 0);
	fd_close(take_fd(&ends[1]));
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_READY);
	assert_int_equal(fd_store_receive(ends[0], &message, &fd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_it_sent_is_there_though_it_had_not_read, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_server_is_given_what_was_kept,
						setup, teardown),
		cmocka_unit_test_setup_teardown(the_supervisor_is_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_a_server_sent_outlives_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(refuses_a_message_that_is_cut,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_supervisor_that_is_gone_gives_nothing, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			asks_to_be_replaced_and_is_told_why_not, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			waits_no_longer_than_it_may_for_a_supervisor_that_is_silent,
			setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
