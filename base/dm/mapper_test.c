/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dm/mapper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/dm/mapper_call.h"
#include "base/testkit/mapper_stand.h"

#define MIB   (UINT64_C(1) << 20)
#define TABLE auto_cleanup(mapper_table_done) struct mapper_table
#define UUID  "TRIB-test"
#define LONG  60000 /* ms; only a broken stand-in takes that */
#define SHORT 20    /* ms; a limit that is reached */

struct bed {
	struct mapper_stand *stand;
	struct mapper *mapper;
	int fd[2];
	dev_t disk[2];
};

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	*state = bed;
	bed->stand = mapper_stand_new();
	bed->mapper = mapper_stand_mapper(bed->stand);
	for (unsigned i = 0; i < 2; i++) {
		bed->disk[i] = makedev(7, i);
		bed->fd[i] = memfd_create("disk", MFD_CLOEXEC);
		if (bed->fd[i] < 0 || ftruncate(bed->fd[i], 4 * MIB) < 0 ||
		    mapper_stand_add_disk(bed->stand, bed->disk[i],
					  bed->fd[i]) < 0)
			return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	mapper_stand_free(bed->stand);
	fd_close(bed->fd[0]);
	fd_close(bed->fd[1]);
	free(bed);
	return 0;
}

/* Make or exchange the table: 2 MiB of one of the disks. */
static int linear_on(struct bed *bed, unsigned disk, bool make, int limit_ms,
		     struct error *err)
{
	TABLE t = {.count = 0};

	assert_int_equal(
		mapper_table_add_linear(&t, 2 * MIB, bed->disk[disk], 0), 0);
	return make ? mapper_create(bed->mapper, "trib-test", UUID, &t, 0,
				    limit_ms, err)
		    : mapper_swap(bed->mapper, UUID, &t, MAPPER_NO_FLUSH,
				  limit_ms, err);
}

static void make_device(struct bed *bed)
{
	assert_int_equal(linear_on(bed, 0, true, LONG, NULL), 0);
}

struct writer {
	struct bed *bed;
	int result;
};

static void *write_one(void *data)
{
	struct writer *w = data;

	w->result = mapper_stand_write(w->bed->stand, UUID, "x", 1, 0);
	return NULL;
}

/* Start a write that waits below. */
static pthread_t write_stuck(struct writer *w, struct bed *bed)
{
	pthread_t thread;

	w->bed = bed;
	mapper_stand_set_disk(bed->stand, bed->disk[0], MAPPER_STAND_SILENT);
	assert_int_equal(pthread_create(&thread, NULL, write_one, w), 0);
	while (!mapper_stand_in_flight(bed->stand, bed->disk[0]))
		(void)poll(NULL, 0, 1);
	return thread;
}

static void a_table_is_exchanged_under_a_reader(void **state)
{
	struct bed *bed = *state;
	struct mapper_device device;
	char byte;

	make_device(bed);
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	assert_int_equal(mapper_stand_write(bed->stand, UUID, "a", 1, MIB), 0);
	assert_int_equal(pwrite(bed->fd[1], "b", 1, MIB), 1);
	assert_int_equal(linear_on(bed, 1, false, LONG, NULL), 0);
	assert_int_equal(mapper_stand_read(bed->stand, UUID, &byte, 1, MIB), 0);
	assert_int_equal(byte, 'b');
	assert_int_equal(mapper_get(bed->mapper, UUID, &device, NULL), 0);
	assert_int_equal(device.open_count, 1);
	assert_false(device.suspended);
	assert_false(device.inactive);
}

static void a_fence_ends_every_request(void **state)
{
	struct bed *bed = *state;
	TABLE t = {.count = 0};

	make_device(bed);
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	assert_int_equal(mapper_fence(bed->mapper, UUID, LONG, NULL), 0);
	assert_int_equal(mapper_stand_write(bed->stand, UUID, "a", 1, 0), -EIO);
	assert_int_equal(mapper_fence(bed->mapper, UUID, LONG, NULL), 0);
	assert_int_equal(mapper_read(bed->mapper, UUID, false, &t, NULL), 0);
	assert_true(mapper_table_is_error(&t));
	assert_int_equal(t.size, 2 * MIB);
	assert_int_equal(mapper_fence(bed->mapper, "TRIB-none", LONG, NULL),
			 -ENOENT);
}

/* The known trap, and the way out of it. */
static void a_silent_disk_holds_no_call_up(void **state)
{
	struct bed *bed = *state;
	struct mapper_device device;
	struct error err = {.code = 0};
	struct writer w;
	pthread_t thread;
	TABLE t = {.count = 0};

	make_device(bed);
	thread = write_stuck(&w, bed);
	assert_int_equal(mapper_fence(bed->mapper, UUID, SHORT, &err),
			 -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "does not answer"));
	assert_int_equal(mapper_suspend(bed->mapper, UUID, 0, SHORT, NULL),
			 -ETIMEDOUT);
	/* As it was: neither suspended nor with a table that waits. */
	assert_int_equal(mapper_get(bed->mapper, UUID, &device, NULL), 0);
	assert_false(device.suspended || device.inactive);
	assert_int_equal(mapper_read(bed->mapper, UUID, false, &t, NULL), 0);
	assert_true(mapper_table_has_device(&t, bed->disk[0]));
	/* Made to fail first, everything goes through. */
	mapper_stand_set_disk(bed->stand, bed->disk[0], MAPPER_STAND_FAILING);
	assert_int_equal(mapper_fence(bed->mapper, UUID, LONG, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, -EIO);
	assert_int_equal(mapper_remove(bed->mapper, UUID, 0, LONG, NULL), 0);
}

static void a_suspended_device_holds_requests_back(void **state)
{
	struct bed *bed = *state;
	struct writer w = {.bed = bed, .result = 1};
	pthread_t thread;

	make_device(bed);
	assert_int_equal(mapper_suspend(bed->mapper, UUID, 0, LONG, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, write_one, &w), 0);
	(void)poll(NULL, 0, 5);
	assert_int_equal(mapper_stand_in_flight(bed->stand, bed->disk[0]), 0);
	assert_int_equal(mapper_resume(bed->mapper, UUID, 0, LONG, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, 0);
}

static void a_device_in_use_is_removed_later(void **state)
{
	struct bed *bed = *state;
	struct mapper_device device;

	make_device(bed);
	assert_int_equal(mapper_stand_open(bed->stand, UUID), 0);
	assert_int_equal(mapper_remove(bed->mapper, UUID, 0, SHORT, NULL),
			 -EBUSY);
	assert_int_equal(
		mapper_remove(bed->mapper, UUID, MAPPER_DEFERRED, SHORT, NULL),
		0);
	assert_int_equal(mapper_get(bed->mapper, UUID, &device, NULL), 0);
	assert_true(device.deferred);
	mapper_stand_close(bed->stand, UUID);
	assert_int_equal(mapper_get(bed->mapper, UUID, &device, NULL), -ENOENT);
	assert_int_equal(mapper_remove(bed->mapper, UUID, 0, SHORT, NULL), 0);
}

static int refuse_load(void *context, const char *change, const char *uuid)
{
	(void)context;
	(void)uuid;
	return strcmp(change, "load") != 0 ? 0 : -EINVAL;
}

static void a_table_that_cannot_be_loaded_changes_nothing(void **state)
{
	struct bed *bed = *state;
	struct mapper_device device;
	TABLE t = {.count = 0};

	make_device(bed);
	mapper_stand_set_before(bed->stand, refuse_load, NULL);
	assert_int_equal(linear_on(bed, 1, false, LONG, NULL), -EINVAL);
	mapper_stand_set_before(bed->stand, NULL, NULL);
	assert_int_equal(mapper_table_add_linear(&t, MIB, makedev(99, 99), 0),
			 0);
	assert_int_equal(mapper_swap(bed->mapper, UUID, &t, 0, LONG, NULL),
			 -ENXIO);
	assert_int_equal(mapper_get(bed->mapper, UUID, &device, NULL), 0);
	assert_false(device.inactive || device.suspended);
	assert_int_equal(mapper_stand_write(bed->stand, UUID, "a", 1, 0), 0);
}

static void others_devices_are_left_alone(void **state)
{
	struct bed *bed = *state;
	struct mapper *m = bed->mapper;
	static const char *const others[] = {"LVM-abc", "", "TRIB-", "trib-x",
					     "TRIB-a b"};
	TABLE t = {.count = 0};

	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	for (size_t i = 0; i < array_size(others); i++) {
		const char *u = others[i];

		assert_int_equal(mapper_create(m, "x", u, &t, 0, LONG, NULL),
				 -EPERM);
		assert_int_equal(mapper_load(m, u, &t, 0, LONG, NULL), -EPERM);
		assert_int_equal(mapper_suspend(m, u, 0, LONG, NULL), -EPERM);
		assert_int_equal(mapper_resume(m, u, 0, LONG, NULL), -EPERM);
		assert_int_equal(mapper_clear(m, u, LONG, NULL), -EPERM);
		assert_int_equal(mapper_remove(m, u, 0, LONG, NULL), -EPERM);
		for (unsigned c = 0; c < MAPPER_CHANGES; c++) {
			struct mapper_change_request q = {
				.change = c, .name = "x", .uuid = u};

			/* trib-dm, called by a person */
			assert_int_equal(mapper_call_change(&q, NULL), -EPERM);
		}
	}
	make_device(bed);
	/* a name that is taken */
	assert_int_equal(
		mapper_create(m, "trib-test", "TRIB-2", &t, 0, LONG, NULL),
		-EEXIST);
	assert_int_equal(mapper_create(m, "trib-2", UUID, &t, 0, LONG, NULL),
			 -EEXIST);
	assert_int_equal(mapper_create(m, "a/b", "TRIB-2", &t, 0, LONG, NULL),
			 -EINVAL);
}

static void the_list_is_of_a_prefix(void **state)
{
	struct bed *bed = *state;
	auto_free struct mapper_device *list = NULL;
	TABLE t = {.count = 0};
	size_t count;

	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	make_device(bed);
	assert_int_equal(mapper_create(bed->mapper, "two", "TRIB-two", &t,
				       MAPPER_READ_ONLY, LONG, NULL),
			 0);
	assert_int_equal(
		mapper_list(bed->mapper, "TRIB-tw", &list, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_string_equal(list[0].name, "two");
	assert_true(list[0].read_only);
}

/* Whatever this machine has, the answer is one line, and nothing waits. */
static void the_kernels_answers_in_one_line(void **state)
{
	struct error err = {.code = 0};
	struct mapper_device device;
	int r = mapper_probe(&mapper_kernel, &err);

	(void)state;
	if (!r)
		return;
	assert_int_equal(r, -ENODEV);
	assert_null(strchr(err.msg, '\n'));
	assert_non_null(strstr(err.msg, "device mapper"));
	assert_true(mapper_get(&mapper_kernel, UUID, &device, &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_table_is_exchanged_under_a_reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_fence_ends_every_request,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_silent_disk_holds_no_call_up,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_suspended_device_holds_requests_back, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			a_device_in_use_is_removed_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_table_that_cannot_be_loaded_changes_nothing, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(others_devices_are_left_alone,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_list_is_of_a_prefix, set_up,
						tear_down),
		cmocka_unit_test(the_kernels_answers_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
