/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/testkit/loop_kit.h"

static void operations_started_before_the_run_complete(void **state)
{
	struct count counts[100];
	char data[100];

	(void)state;
	for (size_t s = 0; s < LOOP_WITHOUT_SETS; s++) {
		struct loop *loop = loop_make(loop_without_sets[s]);
		auto_close int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		int left = 100;

		memset(data, 1, sizeof(data));
		for (int i = 0; i < 8; i++) /* before it runs: what fits */
			counts[i] = (struct count){
				.op.done = count_done,
				.loop = loop,
				.left = &left,
			};
		for (int i = 0; i < 7; i++)
			loop_read(loop, &counts[i].op, fd, data + i, 1, 0);
		left = 7;
		assert_int_equal(loop_run(loop), 0);
		for (int i = 0; i < 7; i++) {
			assert_int_equal(counts[i].res, 1);
			assert_int_equal(data[i], 0);
		}
		assert_int_equal(loop_in_flight(loop), 0);
		assert_int_equal(loop_features(loop) & loop_without_sets[s], 0);
		loop_free(loop);
	}
}

struct hurry {
	struct loop_message message;
	struct count counts[2];
	int pipe[2];
	int early, late; /* bytes in the pipe after each start */
	int left;
};

static int bytes_in(int fd)
{
	int n = -1;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

static void hurry_start(struct loop_message *message)
{
	struct hurry *hurry = container_of(message, struct hurry, message);
	struct loop *loop = hurry->counts[0].loop;

	loop_write(loop, &hurry->counts[0].op, hurry->pipe[1], "a", 1, 0, 0);
	loop_submit_early(loop, 2);
	hurry->early = bytes_in(hurry->pipe[0]);
	loop_write(loop, &hurry->counts[1].op, hurry->pipe[1], "b", 1, 0, 0);
	loop_submit_early(loop, 2);
	hurry->late = bytes_in(hurry->pipe[0]);
}

static void a_hurried_operation_does_not_wait_for_the_round(void **state)
{
	struct loop *loop = loop_make(0);
	struct hurry hurry = {.message.run = hurry_start, .left = 2};

	(void)state;
	assert_int_equal(pipe(hurry.pipe), 0);
	for (int i = 0; i < 2; i++)
		hurry.counts[i] = (struct count){.op.done = count_done,
						 .loop = loop,
						 .left = &hurry.left};
	loop_post(loop, &hurry.message);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(hurry.early, 0);
	assert_int_equal(hurry.late, 2);
	assert_int_equal(hurry.counts[0].res, 1);
	assert_int_equal(hurry.counts[1].res, 1);
	fd_close(hurry.pipe[0]);
	fd_close(hurry.pipe[1]);
	loop_free(loop);
}

struct flood {
	struct loop_message message;
	struct loop *loop;
	struct count counts[100];
	char data[100];
	int fd;
	int left;
};

static void flood_start(struct loop_message *message)
{
	struct flood *flood = container_of(message, struct flood, message);

	for (int i = 0; i < 100; i++) {
		flood->counts[i] = (struct count){
			.op.done = count_done,
			.loop = flood->loop,
			.left = &flood->left,
		};
		loop_read(flood->loop, &flood->counts[i].op, flood->fd,
			  flood->data + i, 1, 0);
	}
}

static void a_full_queue_is_submitted_and_refilled(void **state)
{
	(void)state;
	for (size_t s = 0; s < LOOP_WITHOUT_SETS; s++) {
		struct flood flood = {
			.message.run = flood_start,
			.loop = loop_make(loop_without_sets[s]),
			.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC),
			.left = 100,
		};

		memset(flood.data, 1, sizeof(flood.data));
		loop_post(flood.loop, &flood.message);
		assert_int_equal(loop_run(flood.loop), 0);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(flood.counts[i].res, 1);
			assert_int_equal(flood.data[i], 0);
		}
		close(flood.fd);
		loop_free(flood.loop);
	}
}

static void a_cancelled_receive_tells_so(void **state)
{
	struct loop *loop = loop_make(0);
	int left = 1, pair[2];
	struct count count = {
		.op.done = count_done,
		.loop = loop,
		.left = &left,
	};
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	loop_recv(loop, &count.op, pair[0], &byte, 1, 0);
	loop_cancel(loop, &count.op);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(count.res, -ECANCELED);
	close(pair[0]);
	close(pair[1]);
	loop_free(loop);
}

static void a_send_to_a_closed_peer_is_an_error_not_a_signal(void **state)
{
	struct loop *loop = loop_make(0);
	int left = 1, pair[2];
	struct iovec byte = {.iov_base = "x", .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1};
	struct count send = {
		.op.done = count_done,
		.loop = loop,
		.left = &left,
	};

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	close(pair[1]);
	loop_sendmsg(loop, &send.op, pair[0], &message, 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(send.res, -EPIPE);
	close(pair[0]);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_started_before_the_run_complete),
		cmocka_unit_test(
			a_hurried_operation_does_not_wait_for_the_round),
		cmocka_unit_test(a_full_queue_is_submitted_and_refilled),
		cmocka_unit_test(a_cancelled_receive_tells_so),
		cmocka_unit_test(
			a_send_to_a_closed_peer_is_an_error_not_a_signal),
	};

	return cmocka_run_group_tests_name("loop_io", tests, NULL, NULL);
}
