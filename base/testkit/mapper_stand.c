/* SPDX-License-Identifier: Apache-2.0 */
#include "base/testkit/mapper_stand.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define STAND_MAJOR 253

struct stand_disk {
	struct stand_disk *next;
	dev_t device;
	int fd;
	enum mapper_stand_disk_state state;
	unsigned in_flight;
};

struct stand_device {
	struct stand_device *next;
	struct mapper_device shown;
	struct mapper_table live, inactive;
	unsigned in_flight;
};

struct mapper_stand {
	struct mapper mapper;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t changed;
	struct stand_disk *disks;
	struct stand_device *devices;
	unsigned made; /* devices, ever: their minor numbers */
	mapper_stand_before *before;
	void *context;
};

static struct mapper_stand *stand_of(struct mapper *m)
{
	return container_of(m, struct mapper_stand, mapper);
}

static struct stand_device *stand_find(struct mapper_stand *s, const char *uuid)
{
	struct stand_device *d = s->devices;

	while (d && strcmp(d->shown.uuid, uuid) != 0)
		d = d->next;
	return d;
}

static struct stand_disk *stand_disk_find(struct mapper_stand *s, dev_t device)
{
	struct stand_disk *d = s->disks;

	while (d && d->device != device)
		d = d->next;
	return d;
}

static int stand_lock(struct mapper_stand *s)
{
	return pthread_mutex_lock(&s->lock);
}

static void stand_unlock(struct mapper_stand *s)
{
	(void)pthread_mutex_unlock(&s->lock);
}

/*
 * Begin a change: the test's own say first, then the device, locked. NULL with
 * *ret_r.
 */
static struct stand_device *stand_change(struct mapper_stand *s,
					 const char *change, const char *uuid,
					 int *ret_r, struct error *err)
{
	struct stand_device *d;
	int r = s->before ? s->before(s->context, change, uuid) : 0;

	if (r < 0) {
		*ret_r = error_set(err, -r, "%s %s: %s", change, uuid,
				   strerror(-r));
		return NULL;
	}
	(void)stand_lock(s);
	d = stand_find(s, uuid);
	if (d)
		return d;
	stand_unlock(s);
	*ret_r = error_set(err, ENOENT, "%s: no device %s", change, uuid);
	return NULL;
}

static int copy_table(const struct mapper_table *from, struct mapper_table *ret)
{
	auto_free char *text = mapper_table_encode(from);

	return text ? mapper_table_decode(text, ret, NULL) : -ENOMEM;
}

/* A table of devices that are not there cannot be loaded. */
static int check_disks(struct mapper_stand *s, const struct mapper_table *t,
		       struct error *err)
{
	for (size_t i = 0; i < t->count; i++) {
		const struct mapper_segment *g = &t->segments[i];

		if (g->kind == MAPPER_LINEAR &&
		    !stand_disk_find(s, g->place.device))
			return error_set(err, ENXIO, "no disk below");
		for (unsigned j = 0; j < g->stripes; j++)
			if (!stand_disk_find(s, g->places[j].device))
				return error_set(err, ENXIO, "no disk below");
	}
	return 0;
}

/* ---- the calls ---- */

static int stand_probe(struct mapper *m, struct error *err)
{
	(void)m;
	(void)err;
	return 0;
}

static int stand_taken(struct mapper_stand *s, const char *name,
		       const char *uuid, struct error *err)
{
	for (const struct stand_device *d = s->devices; d; d = d->next)
		if (!strcmp(d->shown.name, name) ||
		    !strcmp(d->shown.uuid, uuid))
			return error_set(err, EEXIST,
					 "%s is there already, UUID '%s'",
					 d->shown.name, d->shown.uuid);
	return 0;
}

static int stand_create(struct mapper *m, const char *name, const char *uuid,
			const struct mapper_table *table, unsigned flags,
			int limit_ms, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	struct stand_device *d;
	int r = s->before ? s->before(s->context, "create", uuid) : 0;

	(void)limit_ms;
	if (r < 0)
		return error_set(err, -r, "create %s", uuid);
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_set(err, ENOMEM, "no memory");
	(void)snprintf(d->shown.name, sizeof(d->shown.name), "%s", name);
	(void)snprintf(d->shown.uuid, sizeof(d->shown.uuid), "%s", uuid);
	d->shown.read_only = flags & MAPPER_READ_ONLY;
	(void)stand_lock(s);
	r = stand_taken(s, name, uuid, err);
	if (!r)
		r = check_disks(s, table, err);
	if (!r)
		r = copy_table(table, &d->live);
	if (r < 0) {
		stand_unlock(s);
		free(d);
		return r;
	}
	d->shown.device = makedev(STAND_MAJOR, s->made++);
	d->next = s->devices;
	s->devices = d;
	stand_unlock(s);
	return 0;
}

static int stand_load(struct mapper *m, const char *uuid,
		      const struct mapper_table *table, unsigned flags,
		      int limit_ms, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	struct mapper_table copy = {.count = 0};
	int r = 0;
	struct stand_device *d = stand_change(s, "load", uuid, &r, err);

	(void)flags;
	(void)limit_ms;
	if (!d)
		return r;
	r = check_disks(s, table, err);
	if (!r)
		r = copy_table(table, &copy);
	if (!r) {
		mapper_table_done(&d->inactive);
		d->inactive = copy;
	}
	stand_unlock(s);
	return r;
}

static struct timespec after_ms(int ms)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000L;
	if (t.tv_nsec >= 1000000000L) {
		t.tv_nsec -= 1000000000L;
		t.tv_sec++;
	}
	return t;
}

/* Locked. Nobody removes a device meanwhile: it is in use. */
static int suspend(struct mapper_stand *s, struct stand_device *d, int limit_ms,
		   struct error *err)
{
	struct timespec end = after_ms(limit_ms);
	int r = 0;

	d->shown.suspended = true;
	while (d->in_flight && !r)
		r = pthread_cond_timedwait(&s->changed, &s->lock, &end);
	if (!d->in_flight)
		return 0;
	d->shown.suspended = false;
	(void)pthread_cond_broadcast(&s->changed);
	return error_set(err, ETIMEDOUT,
			 "suspend of %s did not end in %d ms: what is below "
			 "does not answer",
			 d->shown.uuid, limit_ms);
}

static int stand_suspend(struct mapper *m, const char *uuid, unsigned flags,
			 int limit_ms, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	int r = 0;
	struct stand_device *d = stand_change(s, "suspend", uuid, &r, err);

	(void)flags;
	if (!d)
		return r;
	r = suspend(s, d, limit_ms, err);
	stand_unlock(s);
	return r;
}

static int stand_resume(struct mapper *m, const char *uuid, unsigned flags,
			int limit_ms, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	int r = 0;
	struct stand_device *d = stand_change(s, "resume", uuid, &r, err);

	(void)flags;
	if (!d)
		return r;
	if (d->inactive.count && !d->shown.suspended)
		r = suspend(s, d, limit_ms, err);
	if (!r && d->inactive.count) {
		mapper_table_done(&d->live);
		d->live = d->inactive;
		d->inactive = (struct mapper_table){.count = 0};
	}
	if (!r) {
		d->shown.suspended = false;
		(void)pthread_cond_broadcast(&s->changed);
	}
	stand_unlock(s);
	return r;
}

static int stand_clear(struct mapper *m, const char *uuid, int limit_ms,
		       struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	int r = 0;
	struct stand_device *d = stand_change(s, "clear", uuid, &r, err);

	(void)limit_ms;
	if (!d)
		return r;
	mapper_table_done(&d->inactive);
	stand_unlock(s);
	return 0;
}

static void device_free(struct stand_device *d)
{
	mapper_table_done(&d->live);
	mapper_table_done(&d->inactive);
	free(d);
}

/* Locked. */
static void unlink_device(struct mapper_stand *s, struct stand_device *d)
{
	struct stand_device **at = &s->devices;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	device_free(d);
}

static int stand_remove(struct mapper *m, const char *uuid, unsigned flags,
			int limit_ms, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	struct timespec end = after_ms(limit_ms);
	int r = 0, waited = 0;
	struct stand_device *d = stand_change(s, "remove", uuid, &r, err);

	if (!d)
		return r == -ENOENT ? 0 : r;
	while (d && d->shown.open_count && !waited) {
		waited = pthread_cond_timedwait(&s->changed, &s->lock, &end);
		d = stand_find(s, uuid);
	}
	if (d && !d->shown.open_count)
		unlink_device(s, d);
	else if (d && flags & MAPPER_DEFERRED)
		d->shown.deferred = true;
	else if (d)
		r = error_set(err, EBUSY, "%s is in use", uuid);
	stand_unlock(s);
	return r;
}

static int stand_get(struct mapper *m, const char *uuid,
		     struct mapper_device *ret, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	const struct stand_device *d;

	(void)stand_lock(s);
	d = stand_find(s, uuid);
	if (d) {
		*ret = d->shown;
		ret->live = d->live.count;
		ret->inactive = d->inactive.count;
	}
	stand_unlock(s);
	return d ? 0 : error_set(err, ENOENT, "no device %s", uuid);
}

static int stand_read_table(struct mapper *m, const char *uuid, bool inactive,
			    struct mapper_table *ret, struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	const struct stand_device *d;
	int r;

	(void)stand_lock(s);
	d = stand_find(s, uuid);
	r = d ? copy_table(inactive ? &d->inactive : &d->live, ret)
	      : error_set(err, ENOENT, "no device %s", uuid);
	stand_unlock(s);
	return r;
}

static int stand_list(struct mapper *m, const char *prefix,
		      struct mapper_device **ret, size_t *ret_count,
		      struct error *err)
{
	struct mapper_stand *s = stand_of(m);
	struct mapper_device *list;
	size_t count = 0, all = 0;

	(void)stand_lock(s);
	for (const struct stand_device *d = s->devices; d; d = d->next)
		all++;
	list = calloc(all + 1, sizeof(*list));
	for (const struct stand_device *d = s->devices; list && d; d = d->next)
		if (!strncmp(d->shown.uuid, prefix, strlen(prefix)))
			list[count++] = d->shown;
	stand_unlock(s);
	if (!list)
		return error_set(err, ENOMEM, "no memory");
	*ret = list;
	*ret_count = count;
	return 0;
}

static const struct mapper_ops stand_ops = {
	.probe = stand_probe,
	.create = stand_create,
	.load = stand_load,
	.suspend = stand_suspend,
	.resume = stand_resume,
	.clear = stand_clear,
	.remove = stand_remove,
	.get = stand_get,
	.read = stand_read_table,
	.list = stand_list,
};

/* ---- the test's side ---- */

struct mapper_stand *mapper_stand_new(void)
{
	struct mapper_stand *s = calloc(1, sizeof(*s));
	pthread_condattr_t attributes;

	if (!s)
		return NULL;
	s->mapper.ops = &stand_ops;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	return s;
}

void mapper_stand_free(struct mapper_stand *s)
{
	if (!s)
		return;
	while (s->devices)
		unlink_device(s, s->devices);
	while (s->disks) {
		struct stand_disk *disk = s->disks;

		s->disks = disk->next;
		free(disk);
	}
	(void)pthread_cond_destroy(&s->changed);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

struct mapper *mapper_stand_mapper(struct mapper_stand *s)
{
	return &s->mapper;
}

int mapper_stand_add_disk(struct mapper_stand *s, dev_t device, int fd)
{
	struct stand_disk *disk = calloc(1, sizeof(*disk));

	if (!disk)
		return -ENOMEM;
	disk->device = device;
	disk->fd = fd;
	(void)stand_lock(s);
	disk->next = s->disks;
	s->disks = disk;
	stand_unlock(s);
	return 0;
}

void mapper_stand_set_disk(struct mapper_stand *s, dev_t device,
			   enum mapper_stand_disk_state state)
{
	struct stand_disk *disk;

	(void)stand_lock(s);
	disk = stand_disk_find(s, device);
	if (disk)
		disk->state = state;
	(void)pthread_cond_broadcast(&s->changed);
	stand_unlock(s);
}

void mapper_stand_set_before(struct mapper_stand *s,
			     mapper_stand_before *before, void *context)
{
	s->before = before;
	s->context = context;
}

int mapper_stand_open(struct mapper_stand *s, const char *uuid)
{
	struct stand_device *d;

	(void)stand_lock(s);
	d = stand_find(s, uuid);
	if (d)
		d->shown.open_count++;
	stand_unlock(s);
	return d ? 0 : -ENOENT;
}

void mapper_stand_close(struct mapper_stand *s, const char *uuid)
{
	struct stand_device *d;

	(void)stand_lock(s);
	d = stand_find(s, uuid);
	if (d && !--d->shown.open_count && d->shown.deferred)
		unlink_device(s, d);
	(void)pthread_cond_broadcast(&s->changed);
	stand_unlock(s);
}

unsigned mapper_stand_in_flight(struct mapper_stand *s, dev_t device)
{
	const struct stand_disk *disk;
	unsigned n;

	(void)stand_lock(s);
	disk = stand_disk_find(s, device);
	n = disk ? disk->in_flight : 0;
	stand_unlock(s);
	return n;
}

/* A request on its way below. The device is unlocked meanwhile. */
static int disk_request(struct mapper_stand *s, struct stand_disk *disk,
			void *data, size_t length, uint64_t offset, bool write)
{
	bool fails;
	ssize_t n = 0;

	disk->in_flight++;
	(void)pthread_cond_broadcast(&s->changed);
	while (disk->state == MAPPER_STAND_SILENT)
		(void)pthread_cond_wait(&s->changed, &s->lock);
	fails = disk->state == MAPPER_STAND_FAILING;
	stand_unlock(s);
	if (!fails)
		n = write ? pwrite(disk->fd, data, length, (off_t)offset)
			  : pread(disk->fd, data, length, (off_t)offset);
	(void)stand_lock(s);
	disk->in_flight--;
	return fails || n != (ssize_t)length ? -EIO : 0;
}

/* One piece of a request; returns its bytes, or -EIO. Locked. */
static ssize_t request_piece(struct mapper_stand *s,
			     const struct mapper_table *t, char *data,
			     size_t length, uint64_t offset, bool write)
{
	const struct mapper_segment *segment = mapper_table_find(t, offset);
	struct mapper_place place;
	struct stand_disk *disk;
	uint64_t most;

	if (!segment || !mapper_segment_place(segment, offset, &place, &most))
		return -EIO;
	if (most > length)
		most = length;
	disk = stand_disk_find(s, place.device);
	if (disk_request(s, disk, data, most, place.offset, write) < 0)
		return -EIO;
	return (ssize_t)most;
}

/* The table stays as it is while the request is in flight. */
static int request(struct mapper_stand *s, const char *uuid, char *data,
		   size_t length, uint64_t offset, bool write)
{
	struct stand_device *d;
	int r = 0;

	(void)stand_lock(s);
	while ((d = stand_find(s, uuid)) && d->shown.suspended)
		(void)pthread_cond_wait(&s->changed, &s->lock);
	if (!d) {
		stand_unlock(s);
		return -ENXIO;
	}
	d->in_flight++;
	while (length && !r) {
		ssize_t n = request_piece(s, &d->live, data, length, offset,
					  write);

		if (n < 0) {
			r = (int)n;
			break;
		}
		data += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	d->in_flight--;
	(void)pthread_cond_broadcast(&s->changed);
	stand_unlock(s);
	return r;
}

int mapper_stand_read(struct mapper_stand *s, const char *uuid, void *data,
		      size_t length, uint64_t offset)
{
	return request(s, uuid, data, length, offset, false);
}

int mapper_stand_write(struct mapper_stand *s, const char *uuid,
		       const void *data, size_t length, uint64_t offset)
{
	return request(s, uuid, (char *)data, length, offset, true);
}
