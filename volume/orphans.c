/* SPDX-License-Identifier: Apache-2.0 */
/* volume_orphans(): data without a record, and records without data. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/context.h"
#include "volume/parallel.h"
#include "volume/snapshot_op.h"

#define ASKED_AT_ONCE 32

/* What one node has. */
struct held {
	const char *node; /* borrowed */
	bool has_none;    /* it only uses volumes: there is nothing to ask */
	bool asked;
	struct node_extent *extents;
	size_t n_extents;
};

struct search {
	struct volume_context *ctx;
	struct volume_record **records;
	size_t n_records;
	struct snapshot_record **snapshots;
	size_t n_snapshots;
	struct held *held;
	size_t n_held;
	struct orphan *orphans;
	size_t n_orphans;
	int r;
};

static void ask_one(void *search_, size_t index)
{
	struct search *search = search_;
	struct held *held = &search->held[index];
	struct node_client *client = NULL;

	if (held->has_none)
		return;
	held->asked = context_client(search->ctx, held->node, &client, NULL) ==
			      0 &&
		      node_client_list_extents(client, "", &held->extents,
					       &held->n_extents, NULL) == 0;
}

static struct orphan *add(struct search *search, enum orphan_kind kind,
			  const char *node, const char *volume,
			  const char *name, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

static struct orphan *add(struct search *search, enum orphan_kind kind,
			  const char *node, const char *volume,
			  const char *name, const char *fmt, ...)
{
	struct orphan *o = reallocarray(search->orphans, search->n_orphans + 1,
					sizeof(*o));
	va_list ap;

	if (!o) {
		search->r = -ENOMEM;
		return NULL;
	}
	search->orphans = o;
	o += search->n_orphans++;
	*o = (struct orphan){.kind = kind};
	(void)snprintf(o->node, sizeof(o->node), "%s", node);
	(void)snprintf(o->volume, sizeof(o->volume), "%.63s", volume);
	(void)snprintf(o->name, sizeof(o->name), "%.63s", name);
	va_start(ap, fmt);
	(void)vsnprintf(o->message, sizeof(o->message), fmt, ap);
	va_end(ap);
	return o;
}

static const struct volume_record *record_of(const struct search *search,
					     const char *uid)
{
	for (size_t i = 0; i < search->n_records; i++) {
		if (strcmp(search->records[i]->uid, uid) == 0)
			return search->records[i];
	}
	return NULL;
}

static bool record_has(const struct volume_record *record, const char *node,
		       const char *extent)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		if (strcmp(record->splits[i].node, node) == 0 &&
		    strcmp(record->splits[i].extent, extent) == 0)
			return true;
	}
	return false;
}

static bool snapshot_has(const struct search *search, const char *node,
			 const struct node_extent *extent, const char *uid)
{
	for (size_t i = 0; i < search->n_snapshots; i++) {
		const struct snapshot_record *record = search->snapshots[i];

		if (strcmp(record->uid, uid) != 0)
			continue;
		for (size_t k = 0; k < record->n_splits; k++) {
			if (strcmp(record->splits[k].node, node) == 0 &&
			    strcmp(record->splits[k].extent, extent->name) == 0)
				return true;
		}
	}
	return false;
}

/* An extent that says it is of a snapshot. */
static void find_snapshot_extent(struct search *search, const char *node,
				 const struct node_extent *extent,
				 const char *uid)
{
	const char *name = labels_get(&extent->labels, SNAPSHOT_LABEL_NAME);
	const char *volume = labels_get(&extent->labels, VOLUME_LABEL_NAME);
	struct orphan *o;

	if (snapshot_has(search, node, extent, uid))
		return;
	o = add(search, ORPHAN_EXTENT, node, volume ? volume : "", extent->name,
		"no snapshot has it; `trib extent delete --force %s/%s` frees "
		"it",
		node, extent->name);
	if (!o)
		return;
	o->size = extent->size;
	(void)snprintf(o->snapshot, sizeof(o->snapshot), "%.63s",
		       name ? name : "");
}

/* Extents that say they are of a volume which does not have them. */
static void find_extents(struct search *search, const struct held *held)
{
	for (size_t i = 0; i < held->n_extents; i++) {
		const struct node_extent *extent = &held->extents[i];
		const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);
		const char *name = labels_get(&extent->labels,
					      VOLUME_LABEL_NAME);
		const char *cut = labels_get(&extent->labels,
					     SNAPSHOT_LABEL_UID);
		const struct volume_record *record;
		struct orphan *o;

		if (cut)
			find_snapshot_extent(search, held->node, extent, cut);
		if (cut || !uid)
			continue;
		record = record_of(search, uid);
		if (record && record_has(record, held->node, extent->name))
			continue;
		o = add(search, ORPHAN_EXTENT, held->node, name ? name : "",
			extent->name,
			"no volume has it; `trib extent delete --force %s/%s` "
			"frees it",
			held->node, extent->name);
		if (o)
			o->size = extent->size;
	}
}

static bool held_has(const struct held *held, const struct volume_split *split,
		     const char *uid)
{
	for (size_t i = 0; i < held->n_extents; i++) {
		const char *has = labels_get(&held->extents[i].labels,
					     VOLUME_LABEL_UID);

		if (strcmp(held->extents[i].name, split->extent) == 0 && has &&
		    strcmp(has, uid) == 0)
			return true;
	}
	return false;
}

/* Splits of records whose node answered, but has no such extent. */
static void find_splits(struct search *search,
			const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];
		struct orphan *o;

		if (split->state == SPLIT_PLANNED ||
		    split->state == SPLIT_DELETED)
			continue;
		for (size_t k = 0; k < search->n_held; k++) {
			const struct held *held = &search->held[k];

			if (strcmp(held->node, split->node) != 0 ||
			    !held->asked || held_has(held, split, record->uid))
				continue;
			o = add(search, ORPHAN_SPLIT, split->node, record->name,
				split->extent,
				"the extent of split %zu of volume %s is "
				"gone, with its files",
				i, record->name);
			if (o)
				o->size = split->size;
		}
	}
}

static bool held_has_snapshot(const struct held *held,
			      const struct snapshot_record *record,
			      const struct snapshot_split *split)
{
	for (size_t i = 0; i < held->n_extents; i++) {
		if (strcmp(held->extents[i].name, split->extent) == 0 &&
		    snapshot_split_is(record, split, &held->extents[i]))
			return true;
	}
	return false;
}

/* Those of snapshots, in the same way. */
static void find_snapshot_splits(struct search *search,
				 const struct snapshot_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct snapshot_split *split = &record->splits[i];
		struct orphan *o;

		if (split->state == SNAPSHOT_SPLIT_PLANNED ||
		    split->state == SNAPSHOT_SPLIT_DELETED)
			continue;
		for (size_t k = 0; k < search->n_held; k++) {
			const struct held *held = &search->held[k];

			if (strcmp(held->node, split->node) != 0 ||
			    !held->asked ||
			    held_has_snapshot(held, record, split))
				continue;
			o = add(search, ORPHAN_SPLIT, split->node,
				record->volume, split->extent,
				"extent %zu of snapshot %s is gone, with its "
				"files",
				i, record->name);
			if (!o)
				continue;
			o->size = split->size;
			memcpy(o->snapshot, record->name, sizeof(o->snapshot));
		}
	}
}

/* Devices here whose volume is not attached here. */
static void find_attachments(struct search *search)
{
	auto_free struct initiator_device *devices = NULL;
	char dir[PATH_MAX];
	size_t n = 0;

	context_initiator_dir(search->ctx, dir);
	if (initiator_list(dir, &devices, &n, NULL) < 0)
		return; /* no such directory: nothing was ever attached */
	for (size_t i = 0; i < n; i++) {
		const struct volume_record *owner = NULL;
		const struct volume_attachment *a;
		const struct initiator_device *d = &devices[i];

		if (strncmp(d->id, EXTENT_ATTACHMENT_PREFIX,
			    strlen(EXTENT_ATTACHMENT_PREFIX)) == 0)
			continue; /* a person's own: `trib attach` */
		for (size_t k = 0; k < search->n_records && !owner; k++) {
			const struct volume_record *record = search->records[k];

			for (size_t s = 0; s < record->n_splits; s++) {
				if (strcmp(record->splits[s].extent, d->id) ==
				    0)
					owner = record;
			}
		}
		a = owner ? volume_record_attachment(owner, search->ctx->node)
			  : NULL;
		if (a && a->state != ATTACHMENT_PUBLISHED)
			continue;
		(void)add(search, ORPHAN_ATTACHMENT, search->ctx->node,
			  owner ? owner->name : "", d->id,
			  "%s is a device of a volume that is not attached "
			  "here; `trib umount %s` takes it down",
			  d->device, owner ? owner->name : "VOLUME");
	}
}

static bool has_no_blockd(const struct store_object *object)
{
	struct node_record node = {0};
	bool none;

	if (node_record_decode(object->json, object->length, &node, NULL) < 0)
		return false;
	none = !node.control_address[0];
	node_record_done(&node);
	return none;
}

static int ask_all(struct search *search, size_t *ret_unreachable,
		   struct error *err)
{
	struct store_object *objects = NULL;
	size_t n = 0;
	int r = search->ctx->store->ops->list(
		search->ctx->store, STORE_KIND_NODE, &objects, &n, err);

	if (r < 0)
		return r;
	search->held = calloc(n + 1, sizeof(*search->held));
	if (search->held) {
		search->n_held = n;
		for (size_t i = 0; i < n; i++) {
			search->held[i].node = objects[i].name;
			search->held[i].has_none = has_no_blockd(&objects[i]);
		}
		parallel_run(n, ASKED_AT_ONCE, ask_one, search);
		*ret_unreachable = 0;
		for (size_t i = 0; i < n; i++) {
			*ret_unreachable += !search->held[i].asked &&
					    !search->held[i].has_none;
			find_extents(search, &search->held[i]);
		}
		for (size_t i = 0; i < search->n_records; i++)
			find_splits(search, search->records[i]);
		for (size_t i = 0; i < search->n_snapshots; i++)
			find_snapshot_splits(search, search->snapshots[i]);
		for (size_t i = 0; i < n; i++)
			node_extents_free(search->held[i].extents,
					  search->held[i].n_extents);
		free(search->held);
	} else {
		r = error_set(err, ENOMEM, "out of memory");
	}
	store_objects_free(objects, n);
	return r;
}

int volume_orphans(struct volume_context *ctx, struct orphan **ret,
		   size_t *ret_count, size_t *ret_unreachable,
		   struct error *err)
{
	const struct snapshot_filter all = {.temporary = true};
	struct search search = {.ctx = ctx};
	char problem[RECORD_TEXT_SIZE], other[RECORD_TEXT_SIZE] = "";
	int r = volume_list(ctx, &search.records, &search.n_records, problem,
			    err);

	if (r < 0)
		return r;
	r = volume_snapshot_list(ctx, &all, &search.snapshots,
				 &search.n_snapshots, NULL, other, err);
	/* Without all records, extents in use would be called orphans. */
	if (r == 0 && (problem[0] || other[0]))
		r = error_set(err, EUCLEAN, "%s", problem[0] ? problem : other);
	if (r == 0)
		r = ask_all(&search, ret_unreachable, err);
	if (r == 0) {
		find_attachments(&search);
		if (search.r < 0)
			r = error_set(err, ENOMEM, "out of memory");
	}
	volume_records_free(search.records, search.n_records);
	snapshot_records_free(search.snapshots, search.n_snapshots);
	if (r < 0) {
		free(search.orphans);
		return r;
	}
	*ret = search.orphans;
	*ret_count = search.n_orphans;
	return 0;
}
