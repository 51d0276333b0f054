/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/top_device.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define NAMES_MAX    64   /* cut-off devices of one attachment, still open */
#define BUSY_MS      3000 /* for those who look at each new device (udev) */
#define BUSY_STEP_MS 20

struct mapper *top_device_mapper = &mapper_kernel;

/* "trib-0123" has the UUIDs "TRIB-0123", "TRIB-0123-1", ... */
static void uuid_of(const char *name, char *ret)
{
	(void)snprintf(ret, MAPPER_NAME_MAX, MAPPER_UUID_PREFIX "%.64s",
		       name + strlen(MAPPER_UUID_PREFIX));
}

static const char *name_of(const struct record *record)
{
	return record->top + strlen(MAPPER_FOLDER);
}

/* All devices of a tag, cut off ones, too. Returned owned. */
static int list_of(const char *tag, struct mapper_device **ret,
		   size_t *ret_count, struct error *err)
{
	char uuid[MAPPER_NAME_MAX];

	uuid_of(tag, uuid);
	return mapper_list(top_device_mapper, uuid, ret, ret_count, err);
}

int top_device_linear(const struct record *record, struct mapper_table *ret,
		      struct error *err)
{
	struct stat st;
	int r;

	if (stat(record->device, &st) < 0)
		return error_set(err, errno, "'%s': %s", record->device,
				 strerror(errno));
	r = mapper_table_add_linear(ret, record->size, st.st_rdev, 0);
	return r < 0 ? error_set(err, -r, "a table over '%s': %s",
				 record->device, strerror(-r))
		     : 0;
}

int top_device_make(struct record *record, const char *tag,
		    const struct mapper_table *table, struct error *err)
{
	char name[MAPPER_NAME_MAX], uuid[MAPPER_NAME_MAX];
	int r = 0;

	(void)snprintf(name, sizeof(name), "%s", tag);
	for (unsigned i = 1; !r; i++) {
		uuid_of(name, uuid);
		r = mapper_create(top_device_mapper, name, uuid, table,
				  record->read_only ? MAPPER_READ_ONLY : 0,
				  MAPPER_LIMIT_MS, err);
		if (r != -EEXIST || i > NAMES_MAX)
			break;
		(void)snprintf(name, sizeof(name), "%s-%u", tag, i);
		r = 0;
	}
	if (!r)
		(void)snprintf(record->top, sizeof(record->top),
			       MAPPER_FOLDER "%.48s", name);
	return r;
}

void top_device_uuid(const struct record *record, char *ret, size_t size)
{
	char uuid[MAPPER_NAME_MAX] = "";

	if (record->top[0])
		uuid_of(name_of(record), uuid);
	(void)snprintf(ret, size, "%s", uuid);
}

/* Does it lie on record.device, or on nothing that has gone? */
static bool lies_well(const struct record *record,
		      const struct mapper_table *table)
{
	char path[64];
	struct stat st;

	if (stat(record->device, &st) < 0)
		return false;
	if (mapper_table_has_device(table, st.st_rdev))
		return true;
	/* The node of the extent may have put all of it on a disk of its own.
	 */
	for (size_t i = 0; i < table->count; i++) {
		dev_t below = table->segments[i].place.device;

		(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u",
			       major(below), minor(below));
		if (access(path, F_OK) < 0)
			return false;
	}
	return true;
}

int top_device_read(const struct record *record, struct mapper_table *ret,
		    struct error *err)
{
	struct mapper_device device;
	char uuid[MAPPER_NAME_MAX];
	int r;

	uuid_of(name_of(record), uuid);
	r = mapper_get(top_device_mapper, uuid, &device, err);
	if (!r)
		r = mapper_read(top_device_mapper, uuid, false, ret, err);
	if (r == -ENOENT)
		return error_set(err, ENODEV, "%s is gone: attach it again",
				 record->top);
	if (r < 0)
		return error_set(err, EACCES, "%s can't be looked at from here",
				 record->top);
	return 0;
}

int top_device_check(const struct record *record, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = top_device_read(record, &table, err);

	if (r == 0 && !lies_well(record, &table))
		r = error_set(err, ESTALE,
			      "%s does not lie on %s: attach it again",
			      record->top, record->device);
	return r;
}

static bool is_cut_off(const char *uuid)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};

	return !mapper_read(top_device_mapper, uuid, false, &table, NULL) &&
	       (!table.count || mapper_table_is_error(&table));
}

bool top_device_is_cut_off(const struct record *record)
{
	char uuid[MAPPER_NAME_MAX];

	uuid_of(name_of(record), uuid);
	return is_cut_off(uuid);
}

bool top_device_in_use(const struct record *record)
{
	struct mapper_device device;
	char uuid[MAPPER_NAME_MAX];

	uuid_of(name_of(record), uuid);
	return mapper_get(top_device_mapper, uuid, &device, NULL) == 0 &&
	       device.open_count && !is_cut_off(uuid);
}

int top_device_below(const struct record *record,
		     char ret[static DEVICE_PATH_MAX])
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	char uuid[MAPPER_NAME_MAX], path[64], link[PATH_MAX];
	const char *name;
	ssize_t n;

	uuid_of(name_of(record), uuid);
	if (mapper_read(top_device_mapper, uuid, false, &table, NULL) < 0 ||
	    !table.count || table.segments[0].kind != MAPPER_LINEAR)
		return -ENOENT;
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u",
		       major(table.segments[0].place.device),
		       minor(table.segments[0].place.device));
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return -ENOENT;
	link[n] = '\0';
	name = strrchr(link, '/');
	(void)snprintf(ret, DEVICE_PATH_MAX, "/dev/%.32s",
		       name ? name + 1 : link);
	return 0;
}

int top_device_hold(const struct record *record, int limit_ms,
		    struct error *err)
{
	char uuid[MAPPER_NAME_MAX];

	uuid_of(name_of(record), uuid);
	return mapper_suspend(top_device_mapper, uuid, MAPPER_NO_FLUSH,
			      limit_ms, err);
}

int top_device_mend(const struct record *record, struct error *err)
{
	struct mapper_device device;
	char uuid[MAPPER_NAME_MAX];
	int r;

	uuid_of(name_of(record), uuid);
	r = mapper_get(top_device_mapper, uuid, &device, err);
	if (!r && device.inactive)
		r = mapper_clear(top_device_mapper, uuid, MAPPER_LIMIT_MS, err);
	if (!r && device.suspended)
		r = mapper_resume(top_device_mapper, uuid, MAPPER_NO_FLUSH,
				  MAPPER_LIMIT_MS, err);
	return r;
}

int top_device_follow(const struct record *record,
		      const struct mapper_table *table, struct error *err)
{
	char uuid[MAPPER_NAME_MAX];

	uuid_of(name_of(record), uuid);
	return mapper_swap(top_device_mapper, uuid, table,
			   MAPPER_NO_FLUSH |
				   (record->read_only ? MAPPER_READ_ONLY : 0),
			   MAPPER_LIMIT_MS, err);
}

int top_device_fence(const char *tag, struct error *err)
{
	auto_free struct mapper_device *list = NULL;
	size_t count = 0;
	int r = list_of(tag, &list, &count, err);

	for (size_t i = 0; i < count && !r; i++)
		r = mapper_fence(top_device_mapper, list[i].uuid,
				 MAPPER_LIMIT_MS, err);
	return r;
}

/*
 * Wait a moment until nobody has it open. A flush before that might wait for
 * requests of a stuck program. -EBUSY: somebody has.
 */
static int wait_unused(const char *uuid, const char *path, struct error *err)
{
	int64_t end = clock_ms() + BUSY_MS;
	struct mapper_device device;
	int r;

	while ((r = mapper_get(top_device_mapper, uuid, &device, err)) == 0 &&
	       device.open_count) {
		if (clock_ms() >= end)
			return device_busy(path, err);
		(void)poll(NULL, 0, BUSY_STEP_MS);
	}
	return r;
}

/* Nobody has it: what was not flushed goes down. -EBUSY: somebody has. */
static int settle(const char *uuid, const char *path, struct error *err)
{
	int fd = -1, r = device_settle(path, err);

	if (r == 0)
		r = wait_unused(uuid, path, err);
	if (r == 0)
		r = device_open_idle(path, &fd, err);

	/*
	 * A server that is gone for good must not hold this up: a caller that
	 * cared got the error of its own fsync.
	 */
	if (fd >= 0)
		(void)fsync(fd);
	fd_close(fd);
	return r == -ENODEV || r == -ENOENT ? 0 : r;
}

static int remove_one(const struct mapper_device *device, struct error *err)
{
	char path[sizeof(MAPPER_FOLDER) + MAPPER_NAME_MAX];
	unsigned flags = MAPPER_DEFERRED;
	int r = 0;

	(void)snprintf(path, sizeof(path), MAPPER_FOLDER "%s", device->name);
	if (!is_cut_off(device->uuid)) {
		flags = 0;
		if (device->suspended)
			r = mapper_resume(top_device_mapper, device->uuid,
					  MAPPER_NO_FLUSH, MAPPER_LIMIT_MS,
					  err);
		if (!r)
			r = settle(device->uuid, path, err);
	}
	if (r < 0)
		return r;
	r = mapper_remove(top_device_mapper, device->uuid, flags,
			  flags ? 0 : BUSY_MS, err);
	return r == -EBUSY ? device_busy(path, err) : r;
}

int top_device_remove(const char *tag, struct error *err)
{
	auto_free struct mapper_device *list = NULL;
	size_t count = 0;
	int r = list_of(tag, &list, &count, err);

	for (size_t i = 0; i < count && !r; i++)
		r = list[i].deferred ? 0 : remove_one(&list[i], err);
	return r;
}
