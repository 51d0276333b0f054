/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launch/fd_store_message.h"
#include "launch/fd_store_server.h"

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

static void make_pair(int *ends)
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

/* Take messages as a launcher does, until FD_STORE_READY. */
static void take_all(int socket, struct fd_store_server *stored)
{
	struct fd_store_message message;
	int fd;

	do {
		assert_int_equal(fd_store_receive(socket, &message, &fd), 1);
		if (message.op == FD_STORE_ADD)
			assert_int_equal(
				fd_store_server_add(stored, message.token, fd),
				0);
		else if (message.op == FD_STORE_DROP)
			fd_store_server_drop(stored, message.token);
	} while (message.op != FD_STORE_READY);
}

/* A supervisor and its mirror in a launcher. */
struct mirrored {
	struct fd_store_server held, stored;
	int launcher; /* its end of the socket */
};

static void begin_mirror(struct mirrored *m)
{
	int ends[2];

	make_pair(ends);
	memset(m, 0, sizeof(*m));
	m->launcher = ends[1];
	assert_int_equal(fd_store_server_add(&m->held, 5, open_one()), 0);
	fd_store_server_mirror(&m->held, ends[0]);
	assert_int_equal(fd_store_server_add(&m->held, 6, open_one()), 0);
	assert_int_equal(
		fd_store_server_add(&m->held, FD_STORE_PRIVATE, open_one()), 0);
	fd_store_server_drop(&m->held, 5);
	fd_store_server_say_ready(&m->held);
	assert_true(m->held.mirrored);
	take_all(m->launcher, &m->stored); /* those from before the mirror */
	assert_true(fd_store_server_has(&m->stored, 5));
	take_all(m->launcher, &m->stored);
}

static void end_mirror_test(struct mirrored *m)
{
	fd_close(m->launcher);
	fd_store_server_done(&m->held);
	fd_store_server_done(&m->stored);
}

/* Give the next supervisor what is stored. Returns as it sees it. */
static int follow(const struct mirrored *m, struct fd_store_server *next,
		  int *ends)
{
	make_pair(ends);
	assert_int_equal(fd_store_server_send_all(&m->stored, ends[1]), 0);
	return fd_store_server_receive(next, ends[0]);
}

static void the_next_supervisor_goes_on_with_the_mirror(void **state)
{
	struct fd_store_server next = {0};
	struct fd_store_message message;
	struct mirrored m;
	int ends[2], fd;

	(void)state;
	begin_mirror(&m);
	assert_int_equal(follow(&m, &next, ends), 0);
	assert_false(fd_store_server_has(&next, 5));
	assert_true(is_open(fd_store_server_fd(&next, 6)));
	assert_true(is_open(fd_store_server_fd(&next, FD_STORE_PRIVATE)));
	assert_int_equal(next.count, 2); /* not the mark */
	assert_true(next.mirrored);
	fd_store_server_drop(&next, 6);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_DROP);
	assert_int_equal(message.token, 6);
	fd_close(ends[1]);
	fd_store_server_done(&next);
	end_mirror_test(&m);
}

static void nobody_goes_on_with_a_mirror_that_was_left(void **state)
{
	struct fd_store_server next = {0};
	struct fd_store_message message;
	struct mirrored m;
	int ends[2], fd;

	(void)state;
	begin_mirror(&m);
	fd_store_server_unmirror(&m.held);
	assert_int_equal(follow(&m, &next, ends), -ESTALE);
	assert_false(next.mirrored);
	assert_int_equal(next.count, 0);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_END);
	fd_close(ends[1]);
	end_mirror_test(&m);
}

static void a_mirror_that_takes_nothing_is_left(void **state)
{
	struct mirrored m;
	uint64_t token = 100;

	(void)state;
	begin_mirror(&m);
	while (m.held.mirrored && token < 100000)
		assert_int_equal(fd_store_server_add(&m.held, token++, dup(0)),
				 0);
	assert_false(m.held.mirrored);
	while (token > 100)
		fd_store_server_drop(&m.held, --token);
	assert_true(fd_store_server_has(&m.held, 6)); /* which goes on */
	end_mirror_test(&m);
}

static void no_server_is_given_what_is_private(void **state)
{
	struct fd_store_message message;
	struct mirrored m;
	int ends[2], fd;

	(void)state;
	begin_mirror(&m);
	make_pair(ends);
	assert_int_equal(fd_store_server_send(&m.held, ends[0]), 0);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.token, 6);
	fd_close(fd);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_END);
	fd_close(ends[0]);
	fd_close(ends[1]);
	end_mirror_test(&m);
}

/* A message that was looked at is there for the next, with its descriptor. */
static void a_message_that_is_peeked_stays(void **state)
{
	struct fd_store_message message;
	int ends[2], fd, i;

	(void)state;
	make_pair(ends);
	fd = open_one();
	assert_int_equal(fd_store_send(ends[0], FD_STORE_ADD, 9, NULL, fd), 0);
	fd_close(fd);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_DROP, 9, NULL, -1), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(fd_store_peek(ends[1], &message, &fd), 1);
		assert_int_equal(message.op, FD_STORE_ADD);
		assert_true(is_open(fd));
		fd_close(fd);
	}
	fd_store_skip(ends[1]);
	assert_int_equal(fd_store_receive(ends[1], &message, &fd), 1);
	assert_int_equal(message.op, FD_STORE_DROP);
	fd_close(ends[0]);
	fd_close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_dropped_is_closed_and_the_rest_stays),
		cmocka_unit_test(the_next_server_gets_all_of_it),
		cmocka_unit_test(the_next_supervisor_goes_on_with_the_mirror),
		cmocka_unit_test(nobody_goes_on_with_a_mirror_that_was_left),
		cmocka_unit_test(a_mirror_that_takes_nothing_is_left),
		cmocka_unit_test(no_server_is_given_what_is_private),
		cmocka_unit_test(a_message_that_is_peeked_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
