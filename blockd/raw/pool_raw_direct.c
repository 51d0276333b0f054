/* SPDX-License-Identifier: Apache-2.0 */
/* Direct runs of a pool's extents: devices by name, and holds for changes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "blockd/raw/pool_raw_internal.h"

#define BATCH_MS      200u
#define BATCH_CHANGES 256u

/* 0: there is none that is exported at that epoch. */
static uint32_t find_by_id(struct pool_raw *raw, const char *extent_id,
			   uint64_t epoch)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	uint32_t id = 0;

	for (uint32_t i = 1; !id && i <= state->n_slots; i++) {
		const struct raw_object *object = raw_state_object(state, i);
		struct extent_record record;

		if (!object || !strstr(object->text, extent_id) ||
		    pool_raw_record(object, &record, NULL) < 0)
			continue;
		if (strcmp(record.id, extent_id) == 0 &&
		    record.export.epoch == epoch)
			id = i;
		extent_record_done(&record);
	}
	raw_store_unlock(raw->store);
	return id;
}

struct adoption {
	struct pool_raw *raw;
	int result;
	struct error *err;
};

static void adopt_device(void *context, const char *extent_id,
			 struct direct_device *device)
{
	struct adoption *adoption = context;
	struct pool_raw *raw = adoption->raw;
	struct error err = {0};
	uint32_t id = direct_system()->enabled
			      ? find_by_id(raw, extent_id, device->epoch)
			      : 0;
	int r = id ? direct_attach(raw->direct, id, device, &err)
		   : direct_reject(device, &err);

	if (r == 0 && id)
		log_info("pool %s: extent %s goes on with direct runs",
			 raw->pool.record.name, extent_id);
	else if (r < 0 && adoption->result == 0)
		adoption->result = error_set(adoption->err, -r,
					     "the device of extent %s: %s",
					     extent_id, error_text(&err));
}

static struct direct_medium medium_of(const struct pool_raw *raw)
{
	const struct raw_super *super = raw_store_super(raw->store);
	struct direct_medium medium = {
		.pool_id = raw->pool.record.id,
		.data_start = super->data_start,
		.shift = super->cluster_shift,
	};
	struct stat st;

	if (fstat(raw->fd, &st) == 0 && S_ISBLK(st.st_mode))
		medium.device = st.st_rdev;
	return medium;
}

int pool_raw_direct_begin(struct pool_raw *raw, struct error *err)
{
	struct utsname kernel = {.release = ""};
	struct direct_options options = {
		.store = raw->store,
		.users = raw->users,
		.name = raw->pool.record.name,
		.batch_ms = BATCH_MS,
		.batch_changes = BATCH_CHANGES,
	};
	const struct direct_medium medium = medium_of(raw);
	struct adoption adoption = {.raw = raw, .err = err};
	struct direct_system *system = direct_system();
	int r;

	if (!system)
		return 0;
	(void)uname(&kernel); /* then few */
	options.runs_max = direct_runs_max(kernel.release);
	r = direct_new(&options, &raw->direct, err);
	if (r == 0)
		r = system->each(system, &medium, adopt_device, &adoption, err);
	return r < 0 ? r : adoption.result;
}

/* -EOPNOTSUPP: why there are no direct runs. */
static int check_possible(const struct pool_raw *raw,
			  const struct direct_medium *medium, struct error *err)
{
	const struct direct_system *system = direct_system();

	if (!raw->direct || !system->open)
		return error_set(err, EOPNOTSUPP, "there is no device mapper");
	if (!system->enabled)
		return error_set(err, EOPNOTSUPP, "blockd runs without direct");
	if (!medium->device || !raw->uncached)
		return error_set(err, EOPNOTSUPP,
				 "pool '%s' is on a file, not on a disk",
				 raw->pool.record.name);
	if (raw->read_only)
		return error_set(err, EOPNOTSUPP,
				 "the disk of pool '%s' is read-only",
				 raw->pool.record.name);
	return 0;
}

static int record_id(struct pool_raw *raw, uint32_t id,
		     char ret[static UUID_TEXT_SIZE], struct error *err)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	struct extent_record record;
	int r = object ? pool_raw_record(object, &record, err)
		       : error_set(err, ENOENT, "it is gone");

	raw_store_unlock(raw->store);
	if (r < 0)
		return r;
	(void)snprintf(ret, UUID_TEXT_SIZE, "%s", record.id);
	extent_record_done(&record);
	return 0;
}

int pool_raw_direct_attach(struct pool *pool, const char *name,
			   const char *uuid, uint64_t epoch, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const struct direct_medium medium = medium_of(raw);
	struct direct_system *system = direct_system();
	struct direct_device *device = NULL;
	char extent_id[UUID_TEXT_SIZE];
	uint32_t id = 0;
	int r = check_possible(raw, &medium, err);

	if (r == 0)
		r = pool_raw_need(raw, name, &id, NULL, err);
	if (r == 0)
		r = record_id(raw, id, extent_id, err);
	if (r == 0)
		r = direct_detach(raw->direct, id, false, err);
	if (r == 0)
		r = system->open(system, &medium, uuid, extent_id, epoch,
				 &device, err);
	if (r == 0)
		r = direct_attach(raw->direct, id, device, err);
	return r;
}

int pool_raw_direct_add(struct pool *pool, const char *name,
			struct direct_device *device, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id = 0;
	int r = raw->direct ? pool_raw_need(raw, name, &id, NULL, err)
			    : error_set(err, EOPNOTSUPP,
					"there is no device mapper");

	if (r == 0)
		return direct_attach(raw->direct, id, device, err);
	device->ops->close(device);
	return r;
}

int pool_raw_direct_detach(struct pool *pool, const char *name,
			   struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id = pool_raw_find(raw, name, NULL);

	return id && raw->direct ? direct_detach(raw->direct, id, false, err)
				 : 0;
}

int pool_raw_direct_count(struct pool *pool, const char *name,
			  struct pool_direct *ret, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct direct_counts counts = {0};
	uint32_t id = 0;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	if (r < 0)
		return r;
	if (raw->direct)
		counts = direct_count(raw->direct, id);
	*ret = (struct pool_direct){
		.runs = counts.runs,
		.bytes = counts.clusters * pool_raw_cluster(raw),
	};
	(void)snprintf(ret->device, sizeof(ret->device), "%s", counts.device);
	return 0;
}

int pool_raw_direct_hold(struct pool_raw *raw, uint32_t id, struct error *err)
{
	return raw->direct ? direct_hold(raw->direct, id, err) : 0;
}

void pool_raw_direct_release(struct pool_raw *raw, uint32_t id)
{
	if (raw->direct)
		(void)direct_release(raw->direct, id); /* ours */
}

int pool_raw_prepare(struct pool *pool, const char *name, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	if (r < 0 || !raw->direct || !direct_has(raw->direct, id))
		return r;
	r = direct_prepare(raw->direct, id, err);
	return r < 0 ? r : 1;
}

int pool_raw_hold(struct pool *pool, const char *name, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id = 0;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	/* Without direct: the pool was opened anew since. */
	return r == 0 && raw->direct ? direct_freeze(raw->direct, id, err) : r;
}

int pool_raw_release(struct pool *pool, const char *name)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id = pool_raw_find(raw, name, NULL);

	return raw->direct ? direct_release(raw->direct, id) : 0;
}
