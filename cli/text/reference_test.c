/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cli/text/reference.h"

static void a_name_alone_is_on_this_node(void **state)
{
	struct reference at;

	(void)state;
	assert_int_equal(reference_parse("pool", "fast", "here", &at, NULL), 0);
	assert_string_equal(at.node, "here");
	assert_string_equal(at.name, "fast");
	assert_int_equal(reference_parse("pool", "n2/fast", "here", &at, NULL),
			 0);
	assert_string_equal(at.node, "n2");
	assert_string_equal(at.name, "fast");
}

static void what_is_no_name_is_refused(void **state)
{
	static const char *const bad[] = {"",      "/",    "n/",    "/x",
					  "a/b/c", "n/..", "n/a b", "n/A"};
	char long_name[200];
	struct reference at = {.node = "kept"};
	struct error err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(
			reference_parse("pool", bad[i], "here", &at, &err),
			-EINVAL);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(reference_parse("pool", long_name, "here", &at, &err),
			 -EINVAL);
	assert_string_equal(at.node, "kept");
}

static void labels_need_a_key_and_an_equals_sign(void **state)
{
	struct labels labels = {0};

	(void)state;
	assert_int_equal(label_parse("zone=a=b", &labels, NULL), 0);
	assert_string_equal(labels_get(&labels, "zone"), "a=b");
	assert_int_equal(label_parse("zone", &labels, NULL), -EINVAL);
	assert_int_equal(label_parse("=a", &labels, NULL), -EINVAL);
	labels_done(&labels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_alone_is_on_this_node),
		cmocka_unit_test(what_is_no_name_is_refused),
		cmocka_unit_test(labels_need_a_key_and_an_equals_sign),
	};

	return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
