/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct_mapper.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/testkit/mapper_stand.h"

#define SHIFT   16
#define CLUSTER (UINT64_C(1) << SHIFT)
#define START   (UINT64_C(3) << 20) /* of the clusters, on the medium */
#define SIZE    (10 * CLUSTER + 4096)
#define UUID    "TRIB-test"
#define POOL    "6ad4a1e5-52fb-4e8c-b4ab-31d3a8e6d0b5"
#define EXTENT  "0c04ead3-0381-4906-8cc8-f824876eea73"

struct bed {
	struct mapper_stand *stand;
	struct mapper *mapper;
	struct direct_mapper *system;
	struct direct_medium medium;
	dev_t slow;
	int medium_fd, slow_fd;
	char folder[64], note[96];
	struct error err;
	/* What each() told of. */
	struct direct_device *device;
	unsigned told;
};

static int disk(struct bed *bed, dev_t device)
{
	int fd = memfd_create("disk", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8 << 20), 0);
	assert_int_equal(mapper_stand_add_disk(bed->stand, device, fd), 0);
	return fd;
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	*state = bed;
	assert_non_null(bed);
	bed->stand = mapper_stand_new();
	bed->mapper = mapper_stand_mapper(bed->stand);
	bed->medium = (struct direct_medium){.pool_id = POOL,
					     .device = makedev(8, 16),
					     .data_start = START,
					     .shift = SHIFT};
	bed->slow = makedev(7, 3);
	bed->medium_fd = disk(bed, bed->medium.device);
	bed->slow_fd = disk(bed, bed->slow);
	(void)snprintf(bed->folder, sizeof(bed->folder), "%.30s/notes.XXXXXX",
		       getenv("TMPDIR") ?: "/tmp");
	assert_non_null(mkdtemp(bed->folder));
	(void)snprintf(bed->note, sizeof(bed->note), "%s/" UUID, bed->folder);
	assert_int_equal(direct_mapper_new(bed->mapper, bed->folder, NULL, true,
					   &bed->system, &bed->err),
			 0);
	assert_int_equal(mapper_table_add_linear(&table, SIZE, bed->slow, 0),
			 0);
	assert_int_equal(mapper_create(bed->mapper, "trib-test", UUID, &table,
				       0, 60000, &bed->err),
			 0);
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	assert_int_equal(unlink(bed->note) < 0 && errno != ENOENT, 0);
	assert_int_equal(rmdir(bed->folder), 0);
	direct_mapper_free(bed->system);
	mapper_stand_free(bed->stand);
	fd_close(bed->medium_fd);
	fd_close(bed->slow_fd);
	free(bed);
	return 0;
}

static struct direct_device *open_it(struct bed *bed)
{
	const struct direct_mapper_device which = {.uuid = UUID,
						   .extent_id = EXTENT,
						   .slow = bed->slow,
						   .size = SIZE};
	struct direct_device *device = NULL;

	assert_int_equal(direct_mapper_open(bed->system, &bed->medium, &which,
					    &device, &bed->err),
			 0);
	return device;
}

/* Clusters 2 and 3, and the last whole one. */
static void some_runs(struct direct_runs *ret)
{
	const struct direct_run runs[] = {{2, 5, 2}, {9, 1, 1}};

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(direct_runs_add(ret, &runs[i]), 0);
}

static void use(struct direct_device *device, const struct direct_runs *runs)
{
	struct error err;

	assert_int_equal(device->ops->load(device, runs, &err), 0);
	assert_int_equal(device->ops->suspend(device, 0, &err), 0);
	assert_int_equal(device->ops->resume(device, &err), 0);
}

static char byte_at(int fd, uint64_t offset)
{
	char byte = 0;

	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	return byte;
}

static void requests_go_where_the_runs_are(void **state)
{
	struct bed *bed = *state;
	struct direct_device *device = open_it(bed);
	struct direct_runs runs = {0};
	char data[512];

	assert_int_equal(device->clusters, 10);
	some_runs(&runs);
	use(device, &runs);
	for (uint64_t i = 0; i < SIZE; i += CLUSTER / 2) {
		memset(data, 'a' + (int)(i / (CLUSTER / 2)), sizeof(data));
		assert_int_equal(mapper_stand_write(bed->stand, UUID, data,
						    sizeof(data), i),
				 0);
	}
	assert_int_equal(byte_at(bed->medium_fd, START + 5 * CLUSTER), 'a' + 4);
	assert_int_equal(
		byte_at(bed->medium_fd, START + 6 * CLUSTER + CLUSTER / 2),
		'a' + 7);
	assert_int_equal(byte_at(bed->medium_fd, START + CLUSTER), 'a' + 18);
	assert_int_equal(byte_at(bed->slow_fd, 2 * CLUSTER), 0);
	assert_int_equal(byte_at(bed->slow_fd, 4 * CLUSTER), 'a' + 8);
	assert_int_equal(byte_at(bed->slow_fd, 10 * CLUSTER), 'a' + 20);
	device->ops->close(device);
	direct_runs_done(&runs);
}

static void note_device(void *context, const char *extent_id,
			struct direct_device *device)
{
	struct bed *bed = context;

	assert_string_equal(extent_id, EXTENT);
	assert_null(bed->device);
	bed->device = device;
	bed->told++;
}

static int each(struct bed *bed)
{
	struct direct_system *system = direct_mapper_system(bed->system);

	bed->device = NULL;
	bed->told = 0;
	return system->each(system, &bed->medium, note_device, bed, &bed->err);
}

static void the_next_one_finds_it_as_it_was_left(void **state)
{
	struct bed *bed = *state;
	struct direct_device *device = open_it(bed);
	struct direct_runs runs = {0};
	struct direct_found found = {0};

	some_runs(&runs);
	use(device, &runs);
	assert_int_equal(
		device->ops->load(device, &(struct direct_runs){0}, &bed->err),
		0);
	assert_int_equal(device->ops->suspend(device, DIRECT_FREEZE, &bed->err),
			 0);
	device->ops->close(device);

	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 1);
	device = bed->device;
	assert_int_equal(device->clusters, 10);
	assert_int_equal(device->ops->look(device, &found, &bed->err), 0);
	assert_true(found.suspended && !found.strange);
	assert_true(direct_runs_same(&found.live, &runs));
	assert_int_equal(device->ops->clear(device, &bed->err), 0);
	assert_int_equal(device->ops->resume(device, &bed->err), 0);
	device->ops->close(device);
	direct_runs_done(&found.live);
	direct_runs_done(&runs);
}

static void swap(struct bed *bed, const struct mapper_segment *segments,
		 size_t n)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	for (size_t i = 0; i < n; i++)
		assert_int_equal(
			mapper_table_add_linear(&table, segments[i].length,
						segments[i].place.device,
						segments[i].place.offset),
			0);
	assert_int_equal(mapper_swap(bed->mapper, UUID, &table, MAPPER_NO_FLUSH,
				     60000, &bed->err),
			 0);
}

/* Each is a table that no blockd makes. */
static void a_table_of_another_kind_is_strange(void **state)
{
	struct bed *bed = *state;
	const dev_t medium = bed->medium.device, slow = bed->slow;
	const struct mapper_segment tables[][2] = {
		/* Before the first cluster; between two; half of one. */
		{{.length = CLUSTER, .place = {medium, START - CLUSTER}},
		 {.length = SIZE - CLUSTER, .place = {slow, CLUSTER}}},
		{{.length = CLUSTER, .place = {medium, START + 4096}},
		 {.length = SIZE - CLUSTER, .place = {slow, CLUSTER}}},
		{{.length = CLUSTER / 2, .place = {medium, START}},
		 {.length = SIZE - CLUSTER / 2, .place = {slow, CLUSTER / 2}}},
		/* The slow device shifted, and another one. */
		{{.length = CLUSTER, .place = {medium, START}},
		 {.length = SIZE - CLUSTER, .place = {slow, 0}}},
		{{.length = CLUSTER, .place = {medium, START}},
		 {.length = SIZE - CLUSTER, .place = {makedev(7, 9), CLUSTER}}},
	};
	struct direct_device *device = open_it(bed);
	int other = disk(bed, makedev(7, 9));

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct direct_found found = {0};

		swap(bed, tables[i], 2);
		assert_int_equal(device->ops->look(device, &found, &bed->err),
				 0);
		assert_true(found.strange);
		assert_int_equal(found.live.n, 0);
	}
	device->ops->close(device);
	fd_close(other);
}

static void a_fenced_device_is_not_taken_over(void **state)
{
	struct bed *bed = *state;
	struct direct_device *device = open_it(bed);
	struct direct_found found = {0};

	assert_int_equal(mapper_fence(bed->mapper, UUID, 60000, &bed->err), 0);
	assert_int_equal(device->ops->look(device, &found, &bed->err), -ESTALE);
	device->ops->close(device);
	/* The pool is opened all the same. */
	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 0);
}

/* While no blockd runs, a device is made anew over another slow device. */
static void one_made_anew_lies_where_it_lies_now(void **state)
{
	struct bed *bed = *state;
	const struct mapper_segment now = {
		.length = SIZE - CLUSTER,
		.place = {makedev(7, 9), 0},
	};
	struct direct_device *device = open_it(bed);
	int other = disk(bed, makedev(7, 9));
	char data[512] = "new";

	device->ops->close(device);
	swap(bed, &now, 1);
	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 1);
	assert_int_equal(bed->device->clusters, 9);
	use(bed->device, &(struct direct_runs){0});
	assert_int_equal(
		mapper_stand_write(bed->stand, UUID, data, sizeof(data), 0), 0);
	assert_int_equal(byte_at(other, 0), 'n');
	assert_int_equal(byte_at(bed->slow_fd, 0), 0);
	bed->device->ops->close(bed->device);
	fd_close(other);
}

/* A device that went, or was fenced, never gets a table again. */
static void a_device_that_is_over_gets_no_table(void **state)
{
	struct bed *bed = *state;
	struct direct_device *device = open_it(bed);
	struct direct_runs runs = {0};

	some_runs(&runs);
	assert_int_equal(mapper_fence(bed->mapper, UUID, 60000, &bed->err), 0);
	assert_int_equal(device->ops->load(device, &runs, &bed->err), -ENODEV);
	assert_int_equal(mapper_remove(bed->mapper, UUID, 0, 60000, &bed->err),
			 0);
	assert_int_equal(device->ops->load(device, &runs, &bed->err), -ENODEV);
	device->ops->close(device);
	direct_runs_done(&runs);
}

static int open_attached(struct bed *bed, struct direct_device **ret)
{
	struct direct_system *system = direct_mapper_system(bed->system);

	return system->open(system, &bed->medium, UUID, EXTENT, 7, ret,
			    &bed->err);
}

/* The slow device is what an attachment's device lies on. */
static void opens_a_device_as_an_attachment_has_it(void **state)
{
	struct bed *bed = *state;
	const struct mapper_segment shifted = {
		.length = SIZE,
		.place = {bed->slow, CLUSTER},
	};
	const struct mapper_segment ours = {
		.length = SIZE,
		.place = {bed->medium.device, 0},
	};
	struct direct_device *device = NULL;

	assert_int_equal(open_attached(bed, &device), 0);
	assert_int_equal(device->clusters, 10);
	assert_int_equal(device->epoch, 7);
	device->ops->close(device);
	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 1);
	assert_int_equal(bed->device->epoch, 7);
	bed->device->ops->close(bed->device);
	swap(bed, &shifted, 1);
	assert_int_equal(open_attached(bed, &device), -EINVAL);
	swap(bed, &ours, 1);
	assert_int_equal(open_attached(bed, &device), -EINVAL);
}

/* Without a note: one that has access is fenced, others are left alone. */
static void access_that_nobody_knows_of_ends(void **state)
{
	struct bed *bed = *state;
	struct direct_device *device;
	struct direct_runs runs = {0};
	char byte[512] = {0};

	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 0);
	assert_int_equal(
		mapper_stand_read(bed->stand, UUID, byte, sizeof(byte), 0), 0);

	device = open_it(bed);
	some_runs(&runs);
	use(device, &runs);
	assert_int_equal(device->ops->forget(device, &bed->err), 0);
	device->ops->close(device);
	assert_int_equal(each(bed), 0);
	assert_int_equal(bed->told, 0);
	assert_int_equal(
		mapper_stand_read(bed->stand, UUID, byte, sizeof(byte), 0),
		-EIO);
	direct_runs_done(&runs);
}

static void refuses_other_peoples_devices(void **state)
{
	struct bed *bed = *state;
	const char *const uuids[] = {"LVM-test", "TRIB-../x", "TRIB-none"};
	const int errors[] = {-EINVAL, -EINVAL, -ENOENT};
	struct direct_device *device = NULL;

	for (size_t i = 0; i < 3; i++) {
		const struct direct_mapper_device which = {.uuid = uuids[i],
							   .extent_id = EXTENT,
							   .slow = bed->slow,
							   .size = SIZE};

		assert_int_equal(direct_mapper_open(bed->system, &bed->medium,
						    &which, &device, &bed->err),
				 errors[i]);
	}
	assert_null(device);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(requests_go_where_the_runs_are),
		TEST(the_next_one_finds_it_as_it_was_left),
		TEST(a_table_of_another_kind_is_strange),
		TEST(a_fenced_device_is_not_taken_over),
		TEST(one_made_anew_lies_where_it_lies_now),
		TEST(a_device_that_is_over_gets_no_table),
		TEST(opens_a_device_as_an_attachment_has_it),
		TEST(access_that_nobody_knows_of_ends),
		TEST(refuses_other_peoples_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
