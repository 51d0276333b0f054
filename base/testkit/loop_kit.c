/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testkit/loop_kit.h"

#include "base/cleanup.h"

const unsigned loop_without_sets[LOOP_WITHOUT_SETS] = {
	0,
	LOOP_DEFER_TASKRUN,
	LOOP_SINGLE_ISSUER,
	LOOP_FIXED_BUFFERS,
	LOOP_BUSY_WAIT,
	LOOP_ALL_FEATURES,
};

struct loop *loop_make(unsigned without)
{
	struct loop_options options = {
		.name = "test",
		.entries = 8, /* small, so that it fills */
		.without = without,
		.buffer_limit = 1 << 20,
	};
	struct loop *loop = NULL;
	struct error err = {0};

	assert_int_equal(loop_new(&options, &loop, &err), 0);
	return loop;
}

void count_done(struct op *op, int res)
{
	struct count *count = container_of(op, struct count, op);

	count->res = res;
	if (--*count->left == 0)
		loop_stop(count->loop);
}

void loop_kit_pair(int pair[2])
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(in);
	auto_close int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(door, (struct sockaddr *)&in, length), 0);
	assert_int_equal(listen(door, 1), 0);
	assert_int_equal(getsockname(door, (struct sockaddr *)&in, &length), 0);
	pair[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(pair[1], (struct sockaddr *)&in, length), 0);
	pair[0] = accept4(door, (struct sockaddr *)&in, &length, SOCK_CLOEXEC);
	assert_true(pair[0] >= 0);
}

void loop_kit_pass_in_child(int (*run)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(run());
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == LOOP_KIT_CANNOT)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}
