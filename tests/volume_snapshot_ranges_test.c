/* SPDX-License-Identifier: Apache-2.0 */
/* Data of a snapshot, and differences from an older one, as ranges. */
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

static int sum(void *total, uint64_t size, const struct snapshot_range *ranges,
	       size_t n)
{
	assert_int_equal(size, 128 * MIB);
	for (size_t i = 0; i < n; i++)
		*(uint64_t *)total += ranges[i].length;
	return 0;
}

static void ranges_are_of_a_volume_of_one_extent(void **state)
{
	struct kit *t = *state;
	struct volume_spec spec = {.capacity = 128 * MIB, .layout = "linear"};
	struct snapshot_ranges_request request = {.snapshot = "a"};
	uint64_t total = 0;

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	kit_write_split(t, "l", 0, 4096);
	assert_int_equal(kit_snapshot(t, "a", "l"), 0);
	kit_write_split(t, "l", 0, 12288);
	assert_int_equal(kit_snapshot(t, "b", "l"), 0);
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		0);
	assert_int_equal(total, 4096);
	request = (struct snapshot_ranges_request){.snapshot = "b",
						   .older = "a"};
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		0);
	assert_int_equal(total, 12288);
	request.start = 128 * MIB + 1;
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-ERANGE);
	request = (struct snapshot_ranges_request){.snapshot = "none"};
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-ENOENT);
	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	request.snapshot = "s";
	assert_int_equal(
		volume_snapshot_ranges(t->volumes, &request, sum, &total, NULL),
		-EINVAL);
}

struct seen {
	uint64_t end; /* bytes */
	size_t n;
};

/* Check that ranges are in order and inside, whatever a node says. */
static int see(void *seen_, uint64_t size, const struct snapshot_range *ranges,
	       size_t n)
{
	struct seen *seen = seen_;

	assert_int_equal(size, 128 * MIB);
	for (size_t i = 0; i < n; i++) {
		assert_true(ranges[i].length > 0);
		assert_true(ranges[i].offset >= seen->end);
		assert_true(ranges[i].length <= size - ranges[i].offset);
		seen->end = ranges[i].offset + ranges[i].length;
		seen->n++;
	}
	return 0;
}

static void ranges_that_make_no_sense_are_refused(void **state)
{
	struct kit *t = *state;
	struct volume_spec spec = {.capacity = 128 * MIB, .layout = "linear"};
	const struct snapshot_ranges_request request = {.snapshot = "a",
							.start = 2 * MIB};

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	kit_write_split(t, "l", 0, 4 * MIB);
	assert_int_equal(kit_snapshot(t, "a", "l"), 0);
	for (int what = 0; what < FAKE_RANGES_N; what++) {
		struct seen seen = {0};
		struct error err = {0};
		int want = what == FAKE_RANGES_GOOD  ? 0
			   : what == FAKE_RANGES_CUT ? -EIO
						     : -EPROTO;

		for (size_t i = 0; i < KIT_NODES; i++)
			atomic_store(&t->nodes[i].ranges, what);
		assert_int_equal(volume_snapshot_ranges(t->volumes, &request,
							see, &seen, &err),
				 want);
		assert_true(seen.n <= 2);
		if (want == -EPROTO)
			assert_non_null(strstr(err.msg, "list of ranges"));
	}
}

static int collect(void *list_, uint64_t size,
		   const struct snapshot_range *ranges, size_t n)
{
	struct snapshot_range *list = list_;

	assert_int_equal(size, 128 * MIB);
	for (; list->length; list++)
		continue;
	memcpy(list, ranges, n * sizeof(*ranges));
	return 0;
}

static void ranges_are(struct kit *t,
		       const struct snapshot_ranges_request *request,
		       const struct snapshot_range *want, size_t n)
{
	struct snapshot_range list[16] = {{0}};
	struct error err = {0};

	if (volume_snapshot_ranges(t->volumes, request, collect, list, &err) <
	    0)
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(list[i].offset, want[i].offset);
		assert_int_equal(list[i].length, want[i].length);
	}
	assert_int_equal(list[n].length, 0);
}

/* The first bytes of each extent are written, in units of 4 KiB. */
static void ranges_of_a_stripe_are_where_its_units_are(void **state)
{
	struct kit *t = *state;
	struct volume_spec spec = {.capacity = 128 * MIB,
				   .layout = "stripe",
				   .stripe_width = 2,
				   .stripe_unit = 4096};
	const struct snapshot_range all[] = {{0, 12288}, {16384, 4096}},
				    end[] = {{8192, 4096}, {16384, 4096}},
				    new[] = {{12288, 4096}, {20480, 4096}};

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	kit_write_split(t, "l", 0, 12288);
	kit_write_split(t, "l", 1, 4096);
	assert_int_equal(kit_snapshot(t, "a", "l"), 0);
	ranges_are(t, &(struct snapshot_ranges_request){.snapshot = "a"}, all,
		   2);
	/* From the middle of the third unit on. */
	ranges_are(t,
		   &(struct snapshot_ranges_request){.snapshot = "a",
						     .start = 10240},
		   end, 2);
	kit_write_split(t, "l", 1, 12288);
	assert_int_equal(kit_snapshot(t, "b", "l"), 0);
	ranges_are(t,
		   &(struct snapshot_ranges_request){.snapshot = "b",
						     .older = "a"},
		   new, 2);
	ranges_are(t,
		   &(struct snapshot_ranges_request){.snapshot = "b",
						     .start = 128 * MIB},
		   NULL, 0);
}

static void ranges_of_a_linear_device_are_those_of_its_extents(void **state)
{
	struct kit *t = *state;
	struct volume_spec spec = {
		.capacity = 128 * MIB, .layout = "linear", .min_splits = 2};
	const struct snapshot_range all[] = {{0, 4096}, {64 * MIB, 8192}},
				    end[] = {{64 * MIB, 8192}},
				    whole[] = {{0, 64 * MIB + 8192}};

	assert_int_equal(volume_create(t->volumes,
				       &(struct volume_create_request){
					       .name = "l", .spec = &spec},
				       NULL, NULL),
			 0);
	kit_write_split(t, "l", 0, 4096);
	kit_write_split(t, "l", 1, 8192);
	assert_int_equal(kit_snapshot(t, "a", "l"), 0);
	ranges_are(t, &(struct snapshot_ranges_request){.snapshot = "a"}, all,
		   2);
	ranges_are(t,
		   &(struct snapshot_ranges_request){.snapshot = "a",
						     .start = 64 * MIB},
		   end, 1);
	/* Over the end of an extent a range goes on. */
	kit_write_split(t, "l", 0, 64 * MIB);
	assert_int_equal(kit_snapshot(t, "b", "l"), 0);
	ranges_are(t, &(struct snapshot_ranges_request){.snapshot = "b"}, whole,
		   1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(ranges_are_of_a_volume_of_one_extent),
		KIT_TEST(ranges_that_make_no_sense_are_refused),
		KIT_TEST(ranges_of_a_stripe_are_where_its_units_are),
		KIT_TEST(ranges_of_a_linear_device_are_those_of_its_extents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
