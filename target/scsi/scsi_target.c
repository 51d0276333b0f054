/* SPDX-License-Identifier: Apache-2.0 */
/* Targets, the sessions with them, and the paths between both. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/scsi/scsi_internal.h"
#include "target/scsi/scsi_pr.h"

int scsi_target_new(const char *name, struct scsi_target **ret,
		    struct error *err)
{
	struct scsi_target *target;

	if (!name[0] || strlen(name) > SCSI_NAME_MAX)
		return error_set(err, EINVAL, "a bad target name");
	target = calloc(1, sizeof(*target));
	if (!target)
		return error_set(err, ENOMEM, "no memory for a target");
	target->refs = 1;
	(void)snprintf(target->name, sizeof(target->name), "%s", name);
	pthread_mutex_init(&target->lock, NULL);
	*ret = target;
	return 0;
}

struct scsi_target *scsi_target_ref(struct scsi_target *target)
{
	atomic_fetch_add(&target->refs, 1);
	return target;
}

void scsi_target_unref(struct scsi_target *target)
{
	if (!target || atomic_fetch_sub(&target->refs, 1) != 1)
		return;
	assert(!target->nexuses);
	for (unsigned i = 0; i < SCSI_LUNS; i++)
		scsi_target_remove(target, i);
	pthread_mutex_destroy(&target->lock);
	free(target);
}

/* ---- the map of units ---- */

/* Tell everybody that REPORT LUNS says something else. @lock is held. */
static void luns_changed(struct scsi_target *target,
			 const struct scsi_unit *but)
{
	for (unsigned i = 0; i < SCSI_LUNS; i++) {
		struct scsi_unit *unit = target->units[i];

		if (!unit || unit == but)
			continue;
		pthread_mutex_lock(&unit->lock);
		scsi_attention_raise_all(unit, NULL, SCSI_UA_LUNS_CHANGED);
		pthread_mutex_unlock(&unit->lock);
	}
}

/* False: it is in a target already. */
static bool unit_claim(struct scsi_unit *unit, struct scsi_target *target)
{
	bool is_free;

	pthread_mutex_lock(&unit->lock);
	is_free = !unit->target && !unit->gone;
	if (is_free)
		unit->target = target;
	pthread_mutex_unlock(&unit->lock);
	return is_free;
}

int scsi_target_add(struct scsi_target *target, unsigned lun,
		    struct scsi_unit *unit, struct error *err)
{
	int r = 0;

	assert(lun < SCSI_LUNS);
	pthread_mutex_lock(&target->lock);
	if (target->units[lun])
		r = error_set(err, EEXIST, "LUN %u is taken", lun);
	else if (!unit_claim(unit, target))
		r = error_set(err, EBUSY, "the unit is in a target");
	else {
		target->units[lun] = scsi_unit_ref(unit);
		luns_changed(target, unit);
	}
	pthread_mutex_unlock(&target->lock);
	return r;
}

void scsi_target_remove(struct scsi_target *target, unsigned lun)
{
	struct scsi_unit *unit;

	assert(lun < SCSI_LUNS);
	pthread_mutex_lock(&target->lock);
	unit = target->units[lun];
	target->units[lun] = NULL;
	if (unit) {
		pthread_mutex_lock(&unit->lock);
		unit->target = NULL;
		atomic_store(&unit->gone, true);
		pthread_mutex_unlock(&unit->lock);
		luns_changed(target, NULL);
	}
	pthread_mutex_unlock(&target->lock);
	scsi_unit_unref(unit);
}

struct scsi_unit *scsi_target_unit(struct scsi_target *target, unsigned lun)
{
	struct scsi_unit *unit;

	if (lun >= SCSI_LUNS)
		return NULL;
	pthread_mutex_lock(&target->lock);
	unit = target->units[lun];
	if (unit)
		scsi_unit_ref(unit);
	pthread_mutex_unlock(&target->lock);
	return unit;
}

/* ---- nexuses ---- */

int scsi_nexus_new(struct scsi_target *target, struct loop *loop,
		   const char *initiator, const uint8_t isid[6],
		   struct scsi_nexus **ret)
{
	struct scsi_nexus *nexus;

	if (strlen(initiator) > SCSI_NAME_MAX)
		return -EINVAL;
	nexus = calloc(1, sizeof(*nexus));
	if (!nexus)
		return -ENOMEM;
	nexus->target = scsi_target_ref(target);
	nexus->loop = loop;
	(void)snprintf(nexus->initiator, sizeof(nexus->initiator), "%s",
		       initiator);
	memcpy(nexus->isid, isid, sizeof(nexus->isid));
	nexus->id_length = scsi_transport_id(initiator, isid, nexus->id);
	pthread_mutex_lock(&target->lock);
	nexus->next = target->nexuses;
	target->nexuses = nexus;
	pthread_mutex_unlock(&target->lock);
	*ret = nexus;
	return 0;
}

static void path_forget_copies(struct scsi_path *path)
{
	while (path->copied) {
		struct scsi_copy_result *r = path->copied;

		path->copied = r->next;
		free(r);
	}
}

static void path_free(struct scsi_path *path)
{
	struct scsi_unit *unit = path->unit;
	struct scsi_path **at = &unit->paths;

	pthread_mutex_lock(&unit->lock);
	assert(path->plain == 0 && path->granted == 0);
	while (*at != path)
		at = &(*at)->next_of_unit;
	*at = path->next_of_unit;
	scsi_path_ended(path);
	pthread_mutex_unlock(&unit->lock);
	path_forget_copies(path);
	scsi_unit_unref(unit);
	free(path);
}

void scsi_nexus_free(struct scsi_nexus *nexus)
{
	struct scsi_nexus **at;

	if (!nexus)
		return;
	pthread_mutex_lock(&nexus->target->lock);
	for (at = &nexus->target->nexuses; *at != nexus;)
		at = &(*at)->next;
	*at = nexus->next;
	pthread_mutex_unlock(&nexus->target->lock);
	while (nexus->first) {
		struct scsi_path *path = nexus->first;

		nexus->first = path->next_of_nexus;
		path_free(path);
	}
	scsi_target_unref(nexus->target);
	free(nexus);
}

static struct scsi_path *path_new(struct scsi_nexus *nexus, unsigned lun,
				  struct scsi_unit *unit)
{
	struct scsi_path *path = calloc(1, sizeof(*path));

	if (!path) {
		scsi_unit_unref(unit);
		return NULL;
	}
	path->unit = unit;
	path->nexus = nexus;
	path->lun = lun;
	path->next_of_nexus = nexus->first;
	nexus->first = path;
	nexus->paths[lun] = path;
	scsi_attention_raise(path, SCSI_UA_POWER_ON);
	pthread_mutex_lock(&unit->lock);
	path->next_of_unit = unit->paths;
	unit->paths = path;
	pthread_mutex_unlock(&unit->lock);
	return path;
}

struct scsi_path *scsi_nexus_path(struct scsi_nexus *nexus, unsigned lun)
{
	struct scsi_path *path = nexus->paths[lun];
	struct scsi_unit *unit;

	if (path &&
	    !atomic_load_explicit(&path->unit->gone, memory_order_acquire))
		return path;
	nexus->paths[lun] = NULL;
	unit = scsi_nexus_unit(nexus, lun);
	return unit ? path_new(nexus, lun, unit) : NULL;
}

void scsi_nexus_set_ops(struct scsi_nexus *nexus,
			const struct scsi_nexus_ops *ops, void *context)
{
	nexus->ops = *ops;
	nexus->context = context;
}

bool scsi_nexus_sees(struct scsi_nexus *nexus, unsigned lun)
{
	return !nexus->ops.admits || nexus->ops.admits(lun, nexus->context);
}

struct scsi_unit *scsi_nexus_unit(struct scsi_nexus *nexus, unsigned lun)
{
	struct scsi_unit *unit = scsi_target_unit(nexus->target, lun);

	if (!unit || scsi_nexus_sees(nexus, lun))
		return unit;
	scsi_unit_unref(unit);
	return NULL;
}

bool scsi_path_ready(struct scsi_path *path)
{
	const struct scsi_nexus *nexus = path->nexus;

	if (atomic_load(&path->unit->ejected))
		return false;
	if (!path->dev && nexus->ops.open &&
	    nexus->ops.open(path, nexus->context) < 0)
		return false;
	return path->dev && path->dev->size >= scsi_unit_size(path->unit);
}

void scsi_nexus_each_path(struct scsi_nexus *nexus,
			  void (*visit)(struct scsi_path *path, void *context),
			  void *context)
{
	for (struct scsi_path *p = nexus->first; p; p = p->next_of_nexus)
		visit(p, context);
}

/* ---- numbers of units ---- */

int scsi_lun_decode(const uint8_t lun[8])
{
	for (unsigned i = 2; i < 8; i++)
		if (lun[i])
			return -1;
	switch (lun[0] >> 6) {
	case 0: /* peripheral device addressing, bus 0; SAM-5 4.7.7.2 */
		return lun[0] == 0 ? lun[1] : -1;
	case 1: /* flat space addressing; SAM-5 4.7.7.3 */
		return (lun[0] & 0x3f) == 0 ? lun[1] : -1;
	default: return -1;
	}
}

void scsi_lun_encode(unsigned lun, uint8_t ret[8])
{
	assert(lun < SCSI_LUNS);
	memset(ret, 0, 8);
	ret[1] = (uint8_t)lun;
}
