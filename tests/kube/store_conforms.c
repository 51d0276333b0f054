/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_conforms LOCATION: the conformance test of stores against the one at
 * LOCATION, which is empty.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "volume/testkit/store_conformance.h"

static const char *location;

static void the_store_conforms(void **state)
{
	(void)state;
	store_conformance(location);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_store_conforms),
	};
	int r = store_conformance_child(argc, argv);

	if (r >= 0)
		return r;
	if (argc != 2) {
		(void)fprintf(stderr, "usage: store_conforms LOCATION\n");
		return 2;
	}
	location = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
