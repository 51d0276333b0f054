/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "union/state/policy_record.h"

#include <cmocka.h>

static struct policy_set set_of(const char *name)
{
	struct policy_set set;
	unsigned i;

	policy_set_init(&set);
	for (i = 0; i < POLICY_FUNCTIONS; i++)
		atomic_store(&set.of[i], policy_find(name));
	return set;
}

static bool is_all(const struct policy_set *set, const char *name)
{
	unsigned i;

	for (i = 0; i < POLICY_FUNCTIONS; i++)
		if (policy_of(set, i) != policy_find(name))
			return false;
	return true;
}

static void test_what_is_recorded_comes_back(void **unused)
{
	static struct state_header header;
	struct policy_set ff = set_of("ff"), rand = set_of("rand"), set;

	(void)unused;
	policy_record(&header, &ff);
	policy_set_init(&set);
	policy_restore(&header, &set);
	assert_true(is_all(&set, "ff"));
	policy_record(&header, &rand);
	policy_restore(&header, &set);
	assert_true(is_all(&set, "rand"));
}

static void test_one_that_is_not_known_stays_as_it_was(void **unused)
{
	static struct state_header header;
	struct policy_set ff = set_of("ff"), rand = set_of("rand");

	(void)unused;
	policy_record(&header, &ff);
	memset(header.policies[POLICY_MKDIR], 'x', STATE_POLICY_NAME_MAX);
	policy_restore(&header, &rand);
	assert_ptr_equal(policy_of(&rand, POLICY_MKDIR), policy_find("rand"));
	assert_ptr_equal(policy_of(&rand, POLICY_CREATE), policy_find("ff"));
	assert_ptr_equal(policy_of(&rand, POLICY_MKNOD), policy_find("ff"));
}

struct shared {
	struct state_header header;
	_Atomic unsigned rounds;
};

static void change_until_killed(struct shared *shared)
{
	const struct policy_set ff = set_of("ff"), rand = set_of("rand");
	unsigned i;

	for (i = 0;; i++) {
		policy_record(&shared->header, i % 2 ? &ff : &rand);
		atomic_store(&shared->rounds, i);
	}
}

static void test_is_one_or_the_other_after_a_kill(void **unused)
{
	struct shared *shared = mmap(NULL, sizeof(*shared),
				     PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct policy_set ff = set_of("ff");
	struct policy_set set;
	unsigned i;
	pid_t pid;

	(void)unused;
	assert_ptr_not_equal(shared, MAP_FAILED);
	for (i = 0; i < 300; i++) {
		policy_record(&shared->header, &ff);
		atomic_store(&shared->rounds, 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			change_until_killed(shared);
		while (atomic_load(&shared->rounds) < 10 + i * 7)
			(void)sched_yield();
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		set = set_of("mfs");
		policy_restore(&shared->header, &set);
		assert_true(is_all(&set, "ff") || is_all(&set, "rand"));
	}
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_recorded_comes_back),
		cmocka_unit_test(test_one_that_is_not_known_stays_as_it_was),
		cmocka_unit_test(test_is_one_or_the_other_after_a_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
