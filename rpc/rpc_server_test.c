/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "rpc/rpc_test_kit.h"

static int setup(void **state)
{
	struct kit *kit = malloc(sizeof(*kit));

	kit_make(kit);
	*state = kit;
	return 0;
}

static int teardown(void **state)
{
	kit_done(*state);
	free(*state);
	return 0;
}

static void carries_a_message_there_and_back(void **state)
{
	struct kit *kit = *state;
	Tributary__V1__Extent *extent;

	kit_start(kit);
	assert_int_equal(kit_get(kit, "echo:Grüße", 5000, &extent), 0);
	assert_string_equal(extent->name, "Grüße");
	kit_free(extent);
	/* and for one who does not want the answer */
	assert_int_equal(kit_get(kit, "echo:x", 5000, NULL), 0);
}

static void brings_errno_and_text_back_exactly(void **state)
{
	static const int errors[] = {ENOSPC, ESTALE,  EBUSY, EIO,   ENOENT,
				     EPERM,  ENOTDIR, EDOM,  EAGAIN};
	struct kit *kit = *state;
	char name[64];

	kit_start(kit);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		(void)snprintf(name, sizeof(name), "error:%d:pool 'ä' 100%%",
			       errors[i]);
		assert_int_equal(kit_get(kit, name, 5000, NULL), -errors[i]);
		assert_int_equal(kit->err.code, errors[i]);
		assert_string_equal(kit->err.msg, "pool 'ä' 100%");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(carries_a_message_there_and_back),
		T(brings_errno_and_text_back_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
