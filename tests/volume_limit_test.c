/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a volume are those of its extents together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tests/snapshot_kit.h"

static void limits_are_divided_and_all_or_nothing(void **state)
{
	struct kit *t = *state;
	struct volume_limits limits = {.iops = 1000, .bytes_per_second = 3};
	struct volume_record *record = NULL;
	struct fake_extent e[2];

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(volume_limit(t->volumes, "v", &limits, &record, NULL),
			 0);
	for (int i = 0; i < 2; i++)
		assert_true(
			fake_node_look(kit_node_of(t, record->splits[i].node),
				       record->splits[i].extent, &e[i]));
	assert_int_equal(e[0].iops + e[1].iops, 1000);
	assert_true(e[0].bytes_per_second >= 1 && e[1].bytes_per_second >= 1);
	volume_record_free(record);
	limits.iops = 5;
	atomic_store(&t->nodes[1].limit_fails, EIO);
	assert_int_equal(volume_limit(t->volumes, "v", &limits, NULL, NULL),
			 -EIO);
	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	assert_int_equal(record->spec.limits.iops, 1000);
	for (int i = 0; i < 2; i++)
		assert_true(
			fake_node_look(kit_node_of(t, record->splits[i].node),
				       record->splits[i].extent, &e[i]));
	assert_int_equal(e[0].iops + e[1].iops, 1000);
	volume_record_free(record);
	assert_int_equal(volume_limit(t->volumes, "none", &limits, NULL, NULL),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(limits_are_divided_and_all_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
