/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local/local_ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "blockd/local/loopdev_users.h"

static void the_answer_comes_back_as_it_was(void **state)
{
	static const struct local_answer answers[] = {
		{.error = EACCES},
		{.bound = false},
		{.bound = true, .device = 2049, .inode = 1},
		{.bound = true,
		 .read_only = true,
		 .device = UINT64_MAX,
		 .inode = UINT64_MAX},
	};
	char text[LOCAL_ANSWER_MAX];

	(void)state;
	for (size_t i = 0; i < array_size(answers); i++) {
		const struct local_answer *a = &answers[i];
		struct local_answer b;

		assert_int_equal(
			local_answer_parse(local_answer_format(a, text), &b),
			0);
		assert_int_equal(a->error, b.error);
		assert_int_equal(a->bound, b.bound);
		assert_int_equal(a->read_only, b.read_only);
		assert_true(a->device == b.device && a->inode == b.inode);
	}
}

static void half_an_answer_is_none(void **state)
{
	static const char *const texts[] = {
		"",
		"free",
		"freely\n",
		"error 0\n",
		"error\n",
		"writes\n",
		"writes device=1\n",
		"writes device=1 inode=2",
		"writes device=1 inode=-2\n",
		"writes device=1 inode=2\nfree\n",
		"reads device=01 inode=2\n",
		"reads device=99999999999999999999 inode=2\n",
	};
	struct local_answer answer;

	(void)state;
	for (size_t i = 0; i < array_size(texts); i++)
		assert_int_equal(local_answer_parse(texts[i], &answer),
				 -EBADMSG);
}

/* ---- a device that does not answer, and a file that somebody has open ---- */

static const struct loopdev_users silent = {
	.items = (struct loopdev_user[]){{.name = "loop7", .silent = true}},
	.count = 1,
};
static const struct loopdev_users none;

static int check(const struct loopdev_users *users, const char *path,
		 bool writers)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *holder;
	int r;

	assert_true(fd >= 0);
	r = loopdev_users_check(users, fd, writers, &holder);
	if (r < 0)
		assert_string_equal(holder, "loop7");
	return r;
}

static void a_silent_device_may_hold_what_somebody_has_open(void **state)
{
	char path[] = "/tmp/local_ask_test.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	(void)signal(SIGIO, SIG_IGN);
	assert_int_equal(check(&none, path, false), 0);
	assert_int_equal(check(&silent, path, false), -EAGAIN);
	assert_int_equal(check(&silent, path, true), -EAGAIN);
	fd_close(fd);
	assert_int_equal(check(&silent, path, false), 0);
	assert_int_equal(check(&silent, path, true), 0);
	/* A reader is no writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(check(&silent, path, false), -EAGAIN);
	assert_int_equal(check(&silent, path, true), 0);
	/* Nothing is left of the asking: an open does not wait. */
	fd_close(fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	assert_true(fd >= 0);
	fd_close(fd);
	(void)unlink(path);
}

static void a_device_that_holds_another_file_is_no_holder(void **state)
{
	char path[] = "/tmp/local_ask_test.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);
	struct loopdev_user user = {.name = "loop7"};
	const struct loopdev_users users = {.items = &user, .count = 1};
	struct stat st;

	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	user.device = st.st_dev;
	user.inode = st.st_ino;
	assert_int_equal(check(&users, path, false), -EBUSY);
	user.read_only = true;
	assert_int_equal(check(&users, path, false), -EBUSY);
	assert_int_equal(check(&users, path, true), 0);
	user.inode++;
	assert_int_equal(check(&users, path, false), 0);
	fd_close(fd);
	(void)unlink(path);
}

/* ---- one that is slow, and one that is kept waiting ---- */

/* Answers after it was busy for @busy_ms; -1: waits for ever. */
static struct local_ask asker(int busy_ms)
{
	struct local_ask ask = {0};
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	ask.pid = fork();
	assert_true(ask.pid >= 0);
	if (ask.pid == 0) {
		int64_t end_ms = clock_ms() + busy_ms;

		if (busy_ms < 0)
			(void)pause();
		while (clock_ms() < end_ms)
			;
		_exit(write(ends[1], "free\n", 5) == 5 ? 0 : 1);
	}
	fd_close(ends[1]);
	ask.fd = ends[0];
	return ask;
}

static void who_had_no_turn_yet_is_slow_and_not_silent(void **state)
{
	struct local_ask slow = asker(300), waiting = asker(-1);
	struct local_answer answer = {.bound = true};

	(void)state;
	assert_int_equal(local_ask_take(&slow, clock_ms(), &answer), 0);
	assert_int_equal(answer.error, 0);
	assert_false(answer.bound);
	assert_int_equal(local_ask_take(&waiting, clock_ms(), &answer),
			 -EAGAIN);
	local_ask_stop(&slow);
	local_ask_stop(&waiting);
	while (!local_ask_ended(&slow) || !local_ask_ended(&waiting))
		(void)poll(NULL, 0, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_comes_back_as_it_was),
		cmocka_unit_test(half_an_answer_is_none),
		cmocka_unit_test(
			a_silent_device_may_hold_what_somebody_has_open),
		cmocka_unit_test(a_device_that_holds_another_file_is_no_holder),
		cmocka_unit_test(who_had_no_turn_yet_is_slow_and_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
