/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/top_device.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/testkit/mapper_stand.h"

#define TAG  "trib-0123456789abcdef"
#define UUID "TRIB-0123456789abcdef"
#define MIB  (UINT64_C(1) << 20)

/* Any nodes do: the stand-in knows what is below by their numbers. */
static const char *const below[] = {"/dev/null", "/dev/zero"};

struct bed {
	struct mapper_stand *stand;
	struct record record;
	dev_t disk[2];
	int fd;
};

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	struct stat st;

	*state = bed;
	bed->stand = mapper_stand_new();
	top_device_mapper = mapper_stand_mapper(bed->stand);
	bed->fd = memfd_create("disk", MFD_CLOEXEC);
	if (bed->fd < 0 || ftruncate(bed->fd, 4 * MIB) < 0)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		if (stat(below[i], &st) < 0)
			return -1;
		bed->disk[i] = st.st_rdev;
		if (mapper_stand_add_disk(bed->stand, st.st_rdev, bed->fd) < 0)
			return -1;
	}
	bed->record.size = MIB;
	strcpy(bed->record.device, below[0]);
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	mapper_stand_free(bed->stand);
	fd_close(bed->fd);
	free(bed);
	top_device_mapper = &mapper_kernel;
	return 0;
}

static uint64_t size_of(const char *uuid)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	assert_int_equal(
		mapper_read(top_device_mapper, uuid, false, &table, NULL), 0);
	return table.size;
}

static int make_top(struct record *r)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	assert_int_equal(top_device_linear(r, &table, NULL), 0);
	return top_device_make(r, TAG, &table, NULL);
}

static int follow(const struct record *r)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	assert_int_equal(top_device_linear(r, &table, NULL), 0);
	return top_device_follow(r, &table, NULL);
}

static void it_lies_on_the_transports_device(void **state)
{
	struct bed *bed = *state;
	struct record *r = &bed->record;

	assert_int_equal(make_top(r), 0);
	assert_string_equal(r->top, "/dev/mapper/" TAG);
	assert_int_equal(top_device_check(r, NULL), 0);
	/* larger, and on another device, while somebody has it */
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	r->size = 2 * MIB;
	assert_int_equal(follow(r), 0);
	assert_int_equal(size_of(UUID), 2 * MIB);
	strcpy(r->device, below[1]);
	assert_int_equal(top_device_check(r, NULL), -ESTALE);
	assert_int_equal(follow(r), 0);
	assert_int_equal(top_device_check(r, NULL), 0);
	mapper_stand_close(bed->stand, UUID);
	assert_int_equal(top_device_remove(TAG, NULL), 0);
	assert_int_equal(top_device_check(r, NULL), -ENODEV);
	assert_int_equal(top_device_remove(TAG, NULL), 0);
}

static void one_in_use_is_not_taken_away(void **state)
{
	struct bed *bed = *state;
	struct mapper_device device;

	assert_int_equal(make_top(&bed->record), 0);
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	assert_int_equal(top_device_remove(TAG, NULL), -EBUSY);
	assert_int_equal(mapper_get(top_device_mapper, UUID, &device, NULL), 0);
	assert_false(device.deferred);
}

/* A stale one that somebody still has: it holds neither name nor disk. */
static void one_that_is_cut_off_holds_nothing_up(void **state)
{
	struct bed *bed = *state;
	struct record *r = &bed->record;
	struct mapper_device device;
	char byte;

	assert_int_equal(make_top(r), 0);
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	assert_int_equal(top_device_fence(TAG, NULL), 0);
	assert_int_equal(top_device_check(r, NULL), -ESTALE);
	assert_int_equal(top_device_remove(TAG, NULL), 0);
	assert_int_equal(make_top(r), 0);
	assert_string_equal(r->top, "/dev/mapper/" TAG "-1");
	assert_int_equal(top_device_check(r, NULL), 0);
	assert_int_equal(mapper_stand_read(bed->stand, UUID, &byte, 1, 0),
			 -EIO);
	assert_int_equal(mapper_stand_read(bed->stand, UUID "-1", &byte, 1, 0),
			 0);
	mapper_stand_close(bed->stand, UUID);
	assert_int_equal(mapper_get(top_device_mapper, UUID, &device, NULL),
			 -ENOENT);
	/* and the name is free again */
	assert_int_equal(top_device_remove(TAG, NULL), 0);
	assert_int_equal(make_top(r), 0);
	assert_string_equal(r->top, "/dev/mapper/" TAG);
}

static void what_a_crash_left_goes_on(void **state)
{
	struct bed *bed = *state;
	auto_cleanup(mapper_table_done) struct mapper_table t = {.count = 0};
	struct mapper_device device;

	assert_int_equal(make_top(&bed->record), 0);
	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	assert_int_equal(
		mapper_suspend(top_device_mapper, UUID, 0, 60000, NULL), 0);
	assert_int_equal(
		mapper_load(top_device_mapper, UUID, &t, 0, 60000, NULL), 0);
	assert_int_equal(top_device_mend(&bed->record, NULL), 0);
	assert_int_equal(mapper_get(top_device_mapper, UUID, &device, NULL), 0);
	assert_false(device.suspended || device.inactive);
	assert_int_equal(top_device_check(&bed->record, NULL), 0);
	/* or it is taken away */
	assert_int_equal(
		mapper_suspend(top_device_mapper, UUID, 0, 60000, NULL), 0);
	assert_int_equal(top_device_remove(TAG, NULL), 0);
	assert_int_equal(mapper_get(top_device_mapper, UUID, &device, NULL),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			it_lies_on_the_transports_device, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_in_use_is_not_taken_away,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_that_is_cut_off_holds_nothing_up, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(what_a_crash_left_goes_on,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
