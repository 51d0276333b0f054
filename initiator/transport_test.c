/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct initiator_request remote = {
	.transport = "auto",
	.address = "host:10809",
	.export_name = "e@1",
};
static const struct initiator_request local = {
	.transport = "auto",
	.local_path = "/pool/e",
};

/* A machine that can what the letters l, n and f say. */
static const struct initiator_capability *machine(const char *can)
{
	static struct initiator_capability c[4];

	c[0] = (struct initiator_capability){"loop", strchr(can, 'l'),
					     "no loop"};
	c[1] = (struct initiator_capability){"nbd", strchr(can, 'n'), "no nbd"};
	c[2] = (struct initiator_capability){"fuse", strchr(can, 'f'),
					     "no fuse"};
	return c;
}

static char why[INITIATOR_TEXT_MAX];

/* The name of the transport chosen, or NULL and *error. */
static const char *choose(const struct initiator_request *q, const char *can,
			  int *error)
{
	const struct transport *t = NULL;

	*error = transport_choose(q, machine(can), &t, why, NULL);
	return t ? t->name : NULL;
}

static void takes_a_loop_device_for_an_extent_of_this_node(void **state)
{
	int error;

	(void)state;
	assert_string_equal(choose(&local, "lnf", &error), "loop");
}

static void never_takes_a_network_way_to_this_node(void **state)
{
	struct initiator_request both = remote;
	int error;

	(void)state;
	both.local_path = "/pool/e";
	assert_string_equal(choose(&both, "lnf", &error), "loop");
	assert_null(choose(&both, "nf", &error));
	assert_int_equal(error, -ENODEV);
}

static void prefers_the_kernel_s_client(void **state)
{
	int error;

	(void)state;
	assert_string_equal(choose(&remote, "lnf", &error), "nbd");
}

static void takes_fuse_where_there_is_no_other_and_says_why(void **state)
{
	int error;

	(void)state;
	assert_string_equal(choose(&remote, "lf", &error), "fuse");
	assert_string_equal(why, "no nbd; FUSE file and loop device instead");
}

static void says_when_there_is_no_way(void **state)
{
	int error;

	(void)state;
	assert_null(choose(&remote, "l", &error));
	assert_int_equal(error, -ENODEV);
}

static void keeps_to_the_transport_asked_for(void **state)
{
	struct initiator_request q = remote;
	int error;

	(void)state;
	q.transport = "fuse";
	assert_string_equal(choose(&q, "lnf", &error), "fuse");
	q.transport = "nbd";
	assert_null(choose(&q, "lf", &error));
	assert_int_equal(error, -ENODEV);
}

static void refuses_a_request_that_lacks_its_source(void **state)
{
	struct initiator_request q = remote;
	int error;

	(void)state;
	q.transport = "loop";
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -EINVAL);
	q.transport = "fuse";
	q.export_name = NULL;
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -EINVAL);
	q.transport = "auto";
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -EINVAL);
	q.transport = "carrier-pigeon";
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			takes_a_loop_device_for_an_extent_of_this_node),
		cmocka_unit_test(never_takes_a_network_way_to_this_node),
		cmocka_unit_test(prefers_the_kernel_s_client),
		cmocka_unit_test(
			takes_fuse_where_there_is_no_other_and_says_why),
		cmocka_unit_test(says_when_there_is_no_way),
		cmocka_unit_test(keeps_to_the_transport_asked_for),
		cmocka_unit_test(refuses_a_request_that_lacks_its_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
