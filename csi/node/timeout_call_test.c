/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "csi/node/timeout_call.h"

/* A job that ends when it is told to. */
struct job {
	int pipe[2];
	atomic_int ended;
};

static void job_init(struct job *job)
{
	assert_int_equal(pipe(job->pipe), 0);
	atomic_init(&job->ended, 0);
}

static void job_release(struct job *job)
{
	(void)close(job->pipe[1]);
}

static void wait_for_release(void *job_)
{
	struct job *job = job_;
	char byte;

	assert_int_equal(read(job->pipe[0], &byte, 1), 0);
}

static void job_end(void *job_)
{
	struct job *job = job_;

	(void)close(job->pipe[0]);
	atomic_fetch_add(&job->ended, 1);
}

static void do_nothing(void *job)
{
	(void)job;
}

static void a_job_that_ends_is_the_callers_again(void **state)
{
	struct job job;

	(void)state;
	job_init(&job);
	job_release(&job);
	assert_int_equal(
		timeout_call("k", 10000, wait_for_release, &job, job_end), 0);
	assert_int_equal(atomic_load(&job.ended), 0);
	job_end(&job);
}

static void a_job_that_hangs_is_left_and_ended_by_its_thread(void **state)
{
	struct job job, second;

	(void)state;
	job_init(&job);
	job_init(&second);
	assert_int_equal(timeout_call("k", 20, wait_for_release, &job, job_end),
			 -ETIMEDOUT);
	/* Not beside it, but of another name. */
	assert_int_equal(
		timeout_call("k", 10000, wait_for_release, &second, job_end),
		-ETIMEDOUT);
	assert_int_equal(atomic_load(&second.ended), 1);
	assert_int_equal(timeout_call("l", 10000, do_nothing, NULL, do_nothing),
			 0);
	assert_false(timeout_call_wait_all(1));
	assert_int_equal(atomic_load(&job.ended), 0);
	job_release(&job);
	job_release(&second);
	assert_true(timeout_call_wait_all(10000));
	while (atomic_load(&job.ended) == 0)
		(void)usleep(1000);
	assert_int_equal(timeout_call("k", 10000, do_nothing, NULL, do_nothing),
			 0);
}

static void there_are_only_so_many(void **state)
{
	static struct job jobs[TIMEOUT_CALLS_MAX + 1];
	char key[16];

	(void)state;
	for (size_t i = 0; i < TIMEOUT_CALLS_MAX; i++) {
		job_init(&jobs[i]);
		(void)snprintf(key, sizeof(key), "%zu", i);
		assert_int_equal(timeout_call(key, 0, wait_for_release,
					      &jobs[i], job_end),
				 -ETIMEDOUT);
	}
	assert_int_equal(
		timeout_call("more", 10000, do_nothing, NULL, do_nothing),
		-EAGAIN);
	for (size_t i = 0; i < TIMEOUT_CALLS_MAX; i++)
		job_release(&jobs[i]);
	assert_true(timeout_call_wait_all(10000));
	for (size_t i = 0; i < TIMEOUT_CALLS_MAX; i++)
		while (atomic_load(&jobs[i].ended) == 0)
			(void)usleep(1000);
}

static void a_file_system_says_its_size_or_its_error(void **state)
{
	struct statvfs vfs = {0};

	(void)state;
	assert_int_equal(timeout_statvfs("/", 10000, &vfs), 0);
	assert_true(vfs.f_blocks > 0);
	assert_int_equal(timeout_statvfs("/not/there", 10000, &vfs), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_that_ends_is_the_callers_again),
		cmocka_unit_test(
			a_job_that_hangs_is_left_and_ended_by_its_thread),
		cmocka_unit_test(there_are_only_so_many),
		cmocka_unit_test(a_file_system_says_its_size_or_its_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
