/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "union/config/policy_set.h"

#include <cmocka.h>

static struct policy_set set;
static struct error err;

static int apply(const char *name, const char *value)
{
	memset(&err, 0, sizeof(err));
	return policy_set_apply(&set, name, value, &err);
}

static void has(enum policy_function function, const char *policy)
{
	assert_string_equal(policy_of(&set, function)->name, policy);
}

static int init(void **state)
{
	(void)state;
	policy_set_init(&set);
	return 0;
}

static void begins_as_the_manual_says(void **state)
{
	(void)state;
	has(POLICY_CREATE, "pfrd");
	has(POLICY_SYMLINK, "pfrd");
	has(POLICY_ACCESS, "ff");
	has(POLICY_READLINK, "ff");
	has(POLICY_CHMOD, "epall");
	has(POLICY_UTIMENS, "epall");
}

static void later_words_win(void **state)
{
	(void)state;
	assert_int_equal(apply("func.mkdir", "ff"), 0);
	has(POLICY_MKDIR, "ff");
	has(POLICY_CREATE, "pfrd");
	assert_null(policy_of_category(&set, 0));
	assert_int_equal(apply("category.create", "lus"), 0);
	has(POLICY_MKDIR, "lus");
	assert_string_equal(policy_of_category(&set, 0)->name, "lus");
	has(POLICY_OPEN, "ff");
	assert_int_equal(apply("policy", "local"), 0);
	has(POLICY_MKNOD, "local");
	assert_int_equal(apply("category.action", "all"), 0);
	has(POLICY_RMDIR, "all");
	has(POLICY_READLINK, "ff");
}

static void every_function_and_category_has_its_name(void **state)
{
	char name[32];
	unsigned i;

	(void)state;
	for (i = 0; i < POLICY_FUNCTIONS; i++) {
		(void)snprintf(name, sizeof(name), "func.%s",
			       policy_function_name(i));
		assert_int_equal(apply(name, "rand"), 0);
		has(i, "rand");
	}
	for (i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof(name), "category.%s",
			       policy_category_name(i));
		assert_int_equal(apply(name, "mfs"), 0);
	}
	assert_null(policy_category_name(3));
}

static void refuses_what_is_not_there(void **state)
{
	(void)state;
	assert_int_equal(apply("minfreespace", "ff"), -ENOENT);
	assert_int_equal(apply("policies", "ff"), -ENOENT);
	assert_int_equal(apply("func.read", "ff"), -EINVAL);
	assert_non_null(strstr(err.msg, "func.read"));
	assert_int_equal(apply("category.", "ff"), -EINVAL);
	assert_int_equal(apply("category.create", "best"), -EINVAL);
	assert_non_null(strstr(err.msg, "msppfrd"));
	has(POLICY_CREATE, "pfrd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(begins_as_the_manual_says, init),
		cmocka_unit_test_setup(later_words_win, init),
		cmocka_unit_test_setup(every_function_and_category_has_its_name,
				       init),
		cmocka_unit_test_setup(refuses_what_is_not_there, init),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
