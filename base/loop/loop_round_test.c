/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop/loop_internal.h"
#include "base/testkit/loop_kit.h"

/* ---- results that are known at once ---- */

struct known {
	struct op op;
	struct loop *loop;
	struct known *another; /* told of by this one */
	int *told;
	int place, res;
};

static void known_done(struct op *op, int res)
{
	struct known *known = container_of(op, struct known, op);
	struct known *another = known->another;

	known->res = res;
	known->place = ++*known->told;
	if (another) {
		loop_complete(known->loop, &another->op, 9);
		assert_int_equal(another->place, 0); /* not inside the call */
	} else if (*known->told == 3) {
		loop_stop(known->loop);
	}
}

static void what_is_known_at_once_is_told_in_order(void **state)
{
	struct loop *loop = loop_make(0);
	struct known known[3];
	int told = 0;

	(void)state;
	for (int i = 0; i < 3; i++)
		known[i] = (struct known){
			.op.done = known_done,
			.loop = loop,
			.told = &told,
		};
	known[0].another = &known[2];
	assert_true(loop_sq_empty(loop));
	loop_complete(loop, &known[0].op, 7);
	loop_complete(loop, &known[1].op, 8);
	assert_false(loop_sq_empty(loop));
	assert_int_equal(told, 0);
	assert_int_equal(loop_in_flight(loop), 2);
	assert_int_equal(loop_run(loop), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(known[i].place, i + 1);
		assert_int_equal(known[i].res, 7 + i);
	}
	assert_int_equal(loop_in_flight(loop), 0);
	loop_free(loop);
}

/* ---- looking instead of sleeping ---- */

/* Waits for what is there at once, for what takes a while, or in turn. */
struct waiter {
	struct op op;
	struct loop_timer timer;
	struct loop *loop;
	int fd, left;
	bool short_ones, long_ones, was_short;
	char byte;
};

static void waiter_start(struct waiter *w)
{
	bool is_short = w->short_ones && (!w->long_ones || !w->was_short);

	w->was_short = is_short;
	if (w->left-- == 0)
		loop_stop(w->loop);
	else if (is_short)
		loop_read(w->loop, &w->op, w->fd, &w->byte, 1, 0);
	else
		loop_timer_start(w->loop, &w->timer, 1);
}

static void read_done(struct op *op, int res)
{
	assert_int_equal(res, 1);
	waiter_start(container_of(op, struct waiter, op));
}

static void timer_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);

	assert_int_equal(res, -ETIME);
	waiter_start(container_of(timer, struct waiter, timer));
}

/* Returns the loop's counts. */
static struct loop_wait wait_on(struct loop *loop, int times, bool short_ones,
				bool long_ones, bool *ret_can)
{
	struct loop_wait wait;
	struct waiter w = {
		.op.done = read_done,
		.timer.op.done = timer_done,
		.loop = loop,
		.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC),
		.left = times,
		.short_ones = short_ones,
		.long_ones = long_ones,
	};

	assert_true(w.fd >= 0);
	*ret_can = loop_features(loop) & LOOP_BUSY_WAIT;
	waiter_start(&w);
	assert_int_equal(loop_run(loop), 0);
	wait = loop->wait;
	loop_free(loop);
	close(w.fd);
	return wait;
}

static struct loop_wait wait_often(unsigned without, int times, bool short_ones,
				   bool long_ones, bool *ret_can)
{
	return wait_on(loop_make(without), times, short_ones, long_ones,
		       ret_can);
}

static void short_waits_are_looked_through_if_the_kernel_can(void **state)
{
	bool can;

	(void)state;
	for (size_t i = 0; i < LOOP_WITHOUT_SETS; i++) {
		unsigned without = loop_without_sets[i];
		struct loop_wait wait = wait_often(without, 500, true, false,
						   &can);

		if (without & (LOOP_BUSY_WAIT | LOOP_DEFER_TASKRUN))
			assert_false(can);
		if (can)
			assert_true(wait.looks > 0);
		else
			assert_int_equal(wait.looks + wait.vain_looks, 0);
	}
}

static void long_waits_are_slept_through(void **state)
{
	struct loop_wait wait;
	bool can;

	(void)state;
	wait = wait_often(0, 100, false, true, &can);
	/*
	 * No looks, except that the kernel sometimes returns without a
	 * completion.
	 */
	assert_true(wait.looks + wait.vain_looks <= 20);
}

static void waits_for_a_disk_are_slept_through(void **state)
{
	struct loop *loop = loop_make(0);
	struct loop_wait wait;
	bool can;

	(void)state;
	loop_disk_begin(loop);
	loop_disk_begin(loop);
	loop_disk_end(loop);
	wait = wait_on(loop, 500, true, false, &can);
	assert_int_equal(wait.looks + wait.vain_looks, 0);
}

static void waits_for_a_payload_are_slept_through_for_a_while(void **state)
{
	struct loop *loop = loop_make(0);
	struct loop_wait wait;
	bool can;

	(void)state;
	loop_payload_begin(loop);
	loop->payload_ns += INT64_C(60000000000); /* however slow we are */
	wait = wait_on(loop, 500, true, false, &can);
	assert_int_equal(wait.looks + wait.vain_looks, 0);
	/* Its time is over, or it has come: as without. */
	loop = loop_make(0);
	loop_payload_begin(loop);
	loop->payload_ns = loop->payload_ns ? clock_ns() : 0;
	wait = wait_on(loop, 2000, true, false, &can);
	assert_true(wait.looks + wait.vain_looks > 0 || !can);
	loop = loop_make(0);
	loop_payload_begin(loop);
	loop_payload_end(loop);
	assert_true(loop->payload_ns == 0);
	wait = wait_on(loop, 2000, true, false, &can);
	assert_true(wait.looks + wait.vain_looks > 0 || !can);
}

/* Each makes twice as many waits sleep: of 60 that could be, a few. */
static void looks_in_vain_become_rare(void **state)
{
	struct loop_wait wait;
	bool can;

	(void)state;
	wait = wait_often(0, 120, true, true, &can);
	assert_true(wait.vain_looks <= 20);
}

/* ---- a kernel that takes nothing ---- */

#define REFUSED_MS 999

static bool refuse_entries(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {array_size(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* How much of the processor it took: 0: little; 1: much. */
static void end_child(int signal)
{
	struct timespec took;

	(void)signal;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &took);
	_exit(took.tv_sec > 0 || took.tv_nsec > REFUSED_MS * 100000 ? 1 : 0);
}

static void does_not_spin_while_the_kernel_takes_nothing(void **state)
{
	struct loop *loop = loop_make(0);
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		const struct itimerval once = {.it_value.tv_usec = REFUSED_MS *
								   1000};

		(void)signal(SIGALRM, end_child);
		if (!refuse_entries())
			_exit(77);
		(void)setitimer(ITIMER_REAL, &once, NULL);
		(void)loop_run(loop);
		_exit(2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	loop_free(loop);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_known_at_once_is_told_in_order),
		cmocka_unit_test(
			short_waits_are_looked_through_if_the_kernel_can),
		cmocka_unit_test(long_waits_are_slept_through),
		cmocka_unit_test(waits_for_a_disk_are_slept_through),
		cmocka_unit_test(
			waits_for_a_payload_are_slept_through_for_a_while),
		cmocka_unit_test(looks_in_vain_become_rare),
		cmocka_unit_test(does_not_spin_while_the_kernel_takes_nothing),
	};

	return cmocka_run_group_tests_name("loop_wait", tests, NULL, NULL);
}
