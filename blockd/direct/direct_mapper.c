/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct_mapper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "blockd/local/freeze.h"

#define NOTE_MAX 512 /* bytes */

struct direct_mapper {
	struct direct_system system;
	struct mapper *mapper;
	char *folder; /* owned */
	char *frozen; /* owned; or NULL */
};

struct mapped {
	struct direct_device device;
	struct direct_mapper *system; /* borrowed */
	struct mapper *mapper;
	struct direct_medium medium;
	char uuid[MAPPER_NAME_MAX];
	dev_t slow;
	uint64_t size;
	unsigned flags;        /* enum mapper_flags: MAPPER_READ_ONLY */
	struct freeze *freeze; /* owned; NULL: it is not prepared */
	int frozen_fd;         /* of that one */
	bool frozen;           /* by that one */
};

/* What a note says. */
struct note {
	char pool_id[UUID_TEXT_SIZE], extent_id[UUID_TEXT_SIZE];
	uint64_t epoch;
	dev_t slow;
	uint64_t size; /* bytes */
	bool read_only;
};

/* ---- a device ---- */

static struct mapped *mapped_of(struct direct_device *device)
{
	return container_of(device, struct mapped, device);
}

/* -ENODEV: the device went, or its user was cut off. */
static int check_there(const struct mapped *mapped, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = mapper_read(mapped->mapper, mapped->uuid, false, &table, err);

	if (r == -ENOENT)
		return error_set(err, ENODEV, "there is no device %s any more",
				 mapped->uuid);
	if (r == 0 && mapper_table_is_error(&table))
		return error_set(err, ENODEV, "device %s is fenced",
				 mapped->uuid);
	return r;
}

static int mapped_load(struct direct_device *device,
		       const struct direct_runs *runs, struct error *err)
{
	const struct mapped *mapped = mapped_of(device);
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = check_there(mapped, err);

	if (r < 0)
		return r;
	r = direct_mapper_encode(&mapped->medium, mapped->slow, mapped->size,
				 runs, &table);
	if (r < 0)
		return error_set(err, -r, "make a table of %zu runs: %s",
				 runs->n, strerror(-r));
	r = mapper_load(mapped->mapper, mapped->uuid, &table, mapped->flags,
			MAPPER_LIMIT_MS, err);
	/* A device below is missing: the table in use stays. */
	return r == -ENODEV ? -ENXIO : r;
}

/* True: it lasted until now, if it was frozen. */
static bool mapped_thaw(struct mapped *mapped)
{
	bool lasted = true;

	if (mapped->freeze)
		lasted = freeze_end(mapped->freeze);
	mapped->freeze = NULL;
	mapped->frozen = false;
	fd_close(mapped->frozen_fd);
	mapped->frozen_fd = -1;
	return lasted;
}

static int mapped_prepare(struct direct_device *device, struct error *err)
{
	struct mapped *mapped = mapped_of(device);
	const char *folder = mapped->system->frozen;
	int r;

	if (mapped->freeze || !folder)
		return 0;
	mapped->frozen_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mapped->frozen_fd < 0)
		return error_set(err, errno, "open '%s': %s", folder,
				 strerror(errno));
	r = freeze_prepare_mapper(mapped->uuid, mapped->frozen_fd,
				  &mapped->freeze, err);
	if (r == 0)
		r = freeze_ready(mapped->freeze, clock_ms() + MAPPER_LIMIT_MS,
				 err);
	if (r < 0)
		(void)mapped_thaw(mapped);
	return r;
}

static int mapped_clear(struct direct_device *device, struct error *err)
{
	struct mapped *mapped = mapped_of(device);

	(void)mapped_thaw(mapped); /* only prepared */
	return mapper_clear(mapped->mapper, mapped->uuid, MAPPER_LIMIT_MS, err);
}

static int mapped_suspend(struct direct_device *device, unsigned flags,
			  struct error *err)
{
	struct mapped *mapped = mapped_of(device);
	int r;

	if (!(flags & DIRECT_FREEZE) || !mapped->freeze)
		return mapper_suspend(mapped->mapper, mapped->uuid,
				      flags & DIRECT_FREEZE ? 0
							    : MAPPER_NO_FLUSH,
				      MAPPER_LIMIT_MS, err);
	r = freeze_begin(mapped->freeze, clock_ms() + MAPPER_LIMIT_MS, err);
	mapped->frozen = r == 0;
	if (r < 0)
		(void)mapped_thaw(mapped);
	return r;
}

/* Its process has ended: if that could not resume it, it is tried here. */
static int mapped_resume_frozen(struct mapped *mapped, struct error *err)
{
	const bool lasted = mapped_thaw(mapped);
	struct mapper_device found;
	int r = mapper_get(mapped->mapper, mapped->uuid, &found, err);

	if (r == 0 && found.suspended)
		r = mapper_resume(mapped->mapper, mapped->uuid, MAPPER_NO_FLUSH,
				  MAPPER_LIMIT_MS, err);
	return r < 0 ? r : !lasted;
}

static int mapped_resume(struct direct_device *device, struct error *err)
{
	struct mapped *mapped = mapped_of(device);

	if (mapped->frozen)
		return mapped_resume_frozen(mapped, err);
	return mapper_resume(mapped->mapper, mapped->uuid, MAPPER_NO_FLUSH,
			     MAPPER_LIMIT_MS, err);
}

static int mapped_look(struct direct_device *device, struct direct_found *ret,
		       struct error *err)
{
	const struct mapped *mapped = mapped_of(device);
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	struct mapper_device found;
	int r = mapper_get(mapped->mapper, mapped->uuid, &found, err);

	if (r == 0)
		r = mapper_read(mapped->mapper, mapped->uuid, false, &table,
				err);
	if (r < 0)
		return r;
	if (mapper_table_is_error(&table))
		return error_set(err, ESTALE, "device '%s' is fenced",
				 found.name);
	ret->suspended = found.suspended;
	r = direct_mapper_decode(&mapped->medium, mapped->slow, &table,
				 &ret->live);
	ret->strange = r == -EBADMSG;
	return r == -EBADMSG ? 0 : r;
}

static bool is_ours(const char *uuid)
{
	return strncmp(uuid, MAPPER_UUID_PREFIX, strlen(MAPPER_UUID_PREFIX)) ==
		       0 &&
	       strncmp(uuid, DIRECT_LOCK_PREFIX, strlen(DIRECT_LOCK_PREFIX)) !=
		       0 &&
	       strlen(uuid) < MAPPER_NAME_MAX && !strchr(uuid, '/');
}

static int notes_open(const struct direct_mapper *system, int *ret,
		      struct error *err)
{
	int fd = open(system->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", system->folder,
				 strerror(errno));
	*ret = fd;
	return 0;
}

static int mapped_forget(struct direct_device *device, struct error *err)
{
	const struct mapped *mapped = mapped_of(device);
	auto_close int fd = -1;

	if (notes_open(mapped->system, &fd, err) < 0)
		return 0; /* there is none */
	return file_remove(fd, mapped->uuid, err);
}

static void mapped_close(struct direct_device *device)
{
	(void)mapped_thaw(mapped_of(device)); /* with a table without runs */
	free(mapped_of(device));
}

static const struct direct_device_ops mapped_ops = {
	.load = mapped_load,
	.clear = mapped_clear,
	.prepare = mapped_prepare,
	.suspend = mapped_suspend,
	.resume = mapped_resume,
	.look = mapped_look,
	.forget = mapped_forget,
	.close = mapped_close,
};

static struct direct_device *mapped_new(struct direct_mapper *system,
					const struct direct_medium *medium,
					const char *uuid,
					const struct note *note,
					struct error *err)
{
	struct mapped *mapped = calloc(1, sizeof(*mapped));

	if (!mapped) {
		(void)error_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	mapped->device.ops = &mapped_ops;
	mapped->frozen_fd = -1;
	mapped->device.clusters = note->size >> medium->shift;
	mapped->device.epoch = note->epoch;
	mapped->system = system;
	mapped->mapper = system->mapper;
	mapped->medium = *medium;
	mapped->slow = note->slow;
	mapped->size = note->size;
	mapped->flags = note->read_only ? MAPPER_READ_ONLY : 0;
	(void)snprintf(mapped->uuid, sizeof(mapped->uuid), "%s", uuid);
	mapped->device.uuid = mapped->uuid;
	return &mapped->device;
}

/* ---- notes ---- */

static int mapper_note_write(struct direct_mapper *system, const char *uuid,
			     const struct note *note, struct error *err)
{
	char text[NOTE_MAX];
	auto_close int fd = -1;
	int r = dir_make(system->folder, 0700, err);

	if (r == 0)
		r = notes_open(system, &fd, err);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%s %s %llu %u:%u %llu %s\n",
		       note->pool_id, note->extent_id,
		       (unsigned long long)note->epoch, major(note->slow),
		       minor(note->slow), (unsigned long long)note->size,
		       note->read_only ? "ro" : "rw");
	return file_replace(fd, uuid, text, strlen(text), 0600, err);
}

static int note_read(int folder, const char *uuid, struct note *ret,
		     struct error *err)
{
	auto_free char *text = NULL;
	unsigned long long epoch, size;
	unsigned slow[2];
	size_t length;
	char how[3];
	int r = file_read(folder, uuid, NOTE_MAX, &text, &length, err);

	if (r < 0)
		return r;
	if (sscanf(text, "%36s %36s %llu %u:%u %llu %2s", ret->pool_id,
		   ret->extent_id, &epoch, &slow[0], &slow[1], &size, how) != 7)
		return error_set(err, EBADMSG, "the note of '%s' is damaged",
				 uuid);
	ret->epoch = epoch;
	ret->slow = makedev(slow[0], slow[1]);
	ret->size = size;
	ret->read_only = strcmp(how, "ro") == 0;
	return 0;
}

int direct_mapper_open(struct direct_mapper *system,
		       const struct direct_medium *medium,
		       const struct direct_mapper_device *which,
		       struct direct_device **ret, struct error *err)
{
	struct note note = {.epoch = which->epoch,
			    .slow = which->slow,
			    .size = which->size,
			    .read_only = which->read_only};
	struct mapper_device found;
	int r;

	if (!is_ours(which->uuid) || strlen(which->extent_id) >= UUID_TEXT_SIZE)
		return error_set(err, EINVAL, "device '%.64s' is not ours",
				 which->uuid);
	(void)snprintf(note.pool_id, sizeof(note.pool_id), "%s",
		       medium->pool_id);
	(void)snprintf(note.extent_id, sizeof(note.extent_id), "%s",
		       which->extent_id);
	r = mapper_get(system->mapper, which->uuid, &found, err);
	if (r == 0)
		r = mapper_note_write(system, which->uuid, &note, err);
	if (r < 0)
		return r;
	*ret = mapped_new(system, medium, which->uuid, &note, err);
	return *ret ? 0 : -ENOMEM;
}

/* A table that is all of one device, from its beginning on. */
static bool lies_on_one(const struct mapper_table *table)
{
	return table->count == 1 && table->segments[0].kind == MAPPER_LINEAR &&
	       table->segments[0].place.offset == 0;
}

static int mapper_open(struct direct_system *of,
		       const struct direct_medium *medium, const char *uuid,
		       const char *extent_id, uint64_t epoch,
		       struct direct_device **ret, struct error *err)
{
	struct direct_mapper *system = container_of(of, struct direct_mapper,
						    system);
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	struct mapper_device found;
	int r = mapper_get(system->mapper, uuid, &found, err);

	if (r == 0)
		r = mapper_read(system->mapper, uuid, false, &table, err);
	if (r < 0)
		return r;
	if (!lies_on_one(&table) ||
	    table.segments[0].place.device == medium->device)
		return error_set(err, EINVAL,
				 "device '%s' is not all of one device of an "
				 "attachment",
				 found.name);
	return direct_mapper_open(
		system, medium,
		&(struct direct_mapper_device){
			.uuid = uuid,
			.extent_id = extent_id,
			.epoch = epoch,
			.slow = table.segments[0].place.device,
			.size = table.size,
			.read_only = found.read_only,
		},
		ret, err);
}

/* ---- what an earlier blockd left ---- */

struct search {
	struct direct_mapper *system;
	const struct direct_medium *medium;
	int notes; /* the folder, or -1 */
	void (*visit)(void *context, const char *extent_id,
		      struct direct_device *device);
	void *context;
};

/*
 * A table in use, or one that waits, has places on the medium: 1. 2: its
 * requests fail, and none waits.
 */
static int access_of(struct direct_mapper *system, const char *uuid,
		     dev_t medium, struct error *err)
{
	bool has = false, fenced = false;

	for (int inactive = 0; inactive < 2; inactive++) {
		auto_cleanup(mapper_table_done) struct mapper_table table = {
			.count = 0};
		int r = mapper_read(system->mapper, uuid, inactive, &table,
				    err);

		if (r < 0 && r != -ENOENT)
			return r;
		has = has ||
		      (r == 0 && mapper_table_has_device(&table, medium));
		if (inactive)
			fenced = fenced && (r < 0 || !table.count);
		else
			fenced = r == 0 && mapper_table_is_error(&table);
	}
	return fenced ? 2 : has;
}

/*
 * A device that was made anew since may lie on another slow device than the
 * note says.
 */
static int note_follow(const struct search *search, const char *uuid,
		       struct note *note, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = mapper_read(search->system->mapper, uuid, false, &table, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < table.count; i++) {
		const struct mapper_segment *segment = &table.segments[i];

		if (segment->kind == MAPPER_LINEAR &&
		    segment->place.device != search->medium->device)
			note->slow = segment->place.device;
	}
	note->size = table.size;
	return 0;
}

static int visit_noted(const struct search *search, const char *uuid,
		       struct note *note, struct error *err)
{
	struct direct_device *device;
	int r = note_follow(search, uuid, note, err);

	if (r < 0)
		return r;
	device = mapped_new(search->system, search->medium, uuid, note, err);
	if (!device)
		return -ENOMEM;
	search->visit(search->context, note->extent_id, device);
	return 0;
}

static int visit_device(const struct search *search,
			const struct mapper_device *found, struct error *err)
{
	struct direct_mapper *system = search->system;
	struct note note;
	struct error why;
	int access = access_of(system, found->uuid, search->medium->device,
			       err);
	bool noted = search->notes >= 0 &&
		     note_read(search->notes, found->uuid, &note, &why) == 0;

	if (access < 0)
		return access;
	if (noted && access != 2 &&
	    strcmp(note.pool_id, search->medium->pool_id) == 0)
		return visit_noted(search, found->uuid, &note, err);
	if (access != 1)
		return 0; /* another pool's, or nobody's any more */
	log_warning("device '%s' has access to the medium of a pool, and "
		    "nothing says why: its requests fail from now on",
		    found->name);
	return mapper_fence(system->mapper, found->uuid, MAPPER_LIMIT_MS, err);
}

static int mapper_each(struct direct_system *of,
		       const struct direct_medium *medium,
		       void (*visit)(void *context, const char *extent_id,
				     struct direct_device *device),
		       void *context, struct error *err)
{
	struct direct_mapper *system = container_of(of, struct direct_mapper,
						    system);
	struct search search = {system, medium, -1, visit, context};
	auto_free struct mapper_device *found = NULL;
	auto_close int notes = -1;
	struct error other;
	size_t n = 0;
	int r;

	if (!medium->device)
		return 0; /* a file: no device can be over it */
	r = mapper_list(system->mapper, MAPPER_UUID_PREFIX, &found, &n, err);
	if (r == 0 && notes_open(system, &notes, &other) == 0)
		search.notes = notes;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (is_ours(found[i].uuid))
			r = visit_device(&search, &found[i], err);
	return r;
}

/* ---- life ---- */

int direct_mapper_new(struct mapper *mapper, const char *folder,
		      const char *frozen, bool enabled,
		      struct direct_mapper **ret, struct error *err)
{
	struct direct_mapper *system = calloc(1, sizeof(*system));

	if (system) {
		system->folder = strdup(folder);
		system->frozen = frozen ? strdup(frozen) : NULL;
	}
	if (!system || !system->folder || (frozen && !system->frozen)) {
		direct_mapper_free(system);
		return error_set(err, ENOMEM, "out of memory");
	}
	system->system = (struct direct_system){
		.enabled = enabled,
		.each = mapper_each,
		.open = mapper_open,
	};
	system->mapper = mapper;
	*ret = system;
	return 0;
}

void direct_mapper_free(struct direct_mapper *system)
{
	if (system) {
		free(system->folder);
		free(system->frozen);
	}
	free(system);
}

struct direct_system *direct_mapper_system(struct direct_mapper *system)
{
	return &system->system;
}
