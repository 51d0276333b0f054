/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/transport/transport.h"

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

static const struct initiator_request by_both = {
	.transport = "auto",
	.address = "host:10809",
	.export_name = "e@1",
	.iscsi_portal = "host:3260",
	.iscsi_target = "iqn.2025-01.io.union:e:1:ab",
};

/* Make a machine that has the transports of the letters l, n, i, f and u. */
static const struct initiator_capability *machine(const char *can)
{
	static struct initiator_capability c[6];

	c[0] = (struct initiator_capability){"loop", strchr(can, 'l'),
					     "no loop"};
	c[1] = (struct initiator_capability){"nbd", strchr(can, 'n'), "no nbd"};
	c[2] = (struct initiator_capability){"iscsi", strchr(can, 'i'),
					     "no iscsi"};
	c[3] = (struct initiator_capability){"fuse", strchr(can, 'f'),
					     "no fuse"};
	c[4] = (struct initiator_capability){"ublk", strchr(can, 'u'),
					     "no ublk"};
	return c;
}

static char why[INITIATOR_TEXT_MAX];

/* Choose: the name of the transport chosen, or NULL and *error. */
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

static void takes_iscsi_before_fuse_where_it_is_served(void **state)
{
	int error;

	(void)state;
	assert_string_equal(choose(&by_both, "lnif", &error), "nbd");
	assert_string_equal(choose(&by_both, "lif", &error), "iscsi");
	assert_string_equal(why, "no nbd; its iSCSI client instead");
	assert_string_equal(choose(&by_both, "lf", &error), "fuse");
	assert_string_equal(choose(&remote, "lif", &error), "fuse");
}

static void says_when_there_is_no_way(void **state)
{
	const struct transport *t;
	struct error err = {0};
	int error;

	(void)state;
	assert_null(choose(&remote, "li", &error));
	assert_int_equal(error, -ENODEV);
	assert_int_equal(
		transport_choose(&by_both, machine("l"), &t, why, &err),
		-ENODEV);
	assert_non_null(strstr(err.msg, "no nbd; no iscsi; no fuse"));
	assert_int_equal(
		transport_choose(&remote, machine("li"), &t, why, &err),
		-ENODEV);
	assert_non_null(strstr(err.msg, "not served by iSCSI"));
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
	q = by_both;
	q.transport = "iscsi";
	assert_string_equal(choose(&q, "lnif", &error), "iscsi");
}

static void takes_ublk_by_name_only(void **state)
{
	static const struct initiator_request parts[2];
	struct initiator_request q = remote;
	int error;

	(void)state;
	assert_string_equal(choose(&q, "lfu", &error), "fuse");
	assert_null(choose(&q, "lu", &error));
	assert_int_equal(error, -ENODEV);
	q.transport = "ublk";
	assert_string_equal(choose(&q, "lnfu", &error), "ublk");
	assert_string_equal(why, "asked for");
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -ENODEV);
	q.parts = parts;
	q.n_parts = 2;
	assert_string_equal(choose(&q, "lnfu", &error), "ublk");
}

static void refuses_a_request_that_lacks_its_source(void **state)
{
	struct initiator_request q = remote;
	int error;

	(void)state;
	q.transport = "loop";
	assert_null(choose(&q, "lnf", &error));
	assert_int_equal(error, -EINVAL);
	q.transport = "iscsi";
	assert_null(choose(&q, "lnif", &error));
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
		cmocka_unit_test(takes_iscsi_before_fuse_where_it_is_served),
		cmocka_unit_test(says_when_there_is_no_way),
		cmocka_unit_test(keeps_to_the_transport_asked_for),
		cmocka_unit_test(takes_ublk_by_name_only),
		cmocka_unit_test(refuses_a_request_that_lacks_its_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
