/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire/fnv.h"

#include <cmocka.h>

/* draft-eastlake-fnv, appendix C */
static void is_as_published(void **state)
{
	(void)state;
	assert_true(fnv1a("", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(fnv1a("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(fnv1a("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_as_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
