/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on snapshots, and the limits: blockd/copy/extent_cut.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/copy/extent_cut.h"
#include "blockd/extent/extent_internal.h"

/* ---- two at a time ---- */

static int begin_two(struct extent *a, struct extent *b, struct error *err)
{
	struct extent *both[] = {a, b};

	if (strcmp(a->record.name, b->record.name) > 0) {
		both[0] = b;
		both[1] = a;
	}
	return extents_begin(both, a == b ? 1 : 2, err);
}

static void end_two(struct extent *a, struct extent *b)
{
	extent_end(a);
	if (a != b)
		extent_end(b);
}

static int check_snapshot(const struct extent *extent, struct error *err)
{
	if (extent->record.kind != EXTENT_KIND_SNAPSHOT)
		return error_set(err, EINVAL, "extent '%s' is no snapshot",
				 extent->record.name);
	return 0;
}

/* ---- revert ---- */

static int check_revert(struct extent *extent, const char *id,
			const struct extent *snapshot, struct error *err)
{
	const struct extent_users *users = &extent->node->users;
	const struct extent_record *record = &extent->record;
	const struct pool *pool = extent->pool->pool;
	int r = extent_check_id(extent, id, err);

	if (r == 0)
		r = check_snapshot(snapshot, err);
	if (r < 0)
		return r;
	if (strcmp(snapshot->record.origin.id, record->id) != 0)
		return error_set(
			err, EINVAL,
			"'%s' is a snapshot of '%s' (id %s), not of "
			"'%s' (id %s)",
			snapshot->record.name, snapshot->record.origin.name,
			snapshot->record.origin.id, record->name, record->id);
	if (!pool->ops->revert)
		return error_set(
			err, EOPNOTSUPP,
			"pool '%s' is of kind '%s', which can't revert",
			extent->pool->known.name, pool->record.kind);
	if (record->export.active)
		return error_set(err, EBUSY,
				 "extent '%s' is exported: remove its export "
				 "before it is reverted",
				 record->name);
	r = extent_check_not_copied(extent, "it is reverted", err);
	if (r == 0 && users->check_idle)
		r = users->check_idle(users->context, extent, "it is reverted",
				      err);
	return r;
}

static int revert(struct extent *extent, const struct extent *snapshot,
		  struct error *err)
{
	struct pool *pool = extent->pool->pool;
	struct extent_record record;
	int r;

	if (extent_copy_record(extent, &record) < 0)
		return error_set(err, ENOMEM, "out of memory");
	record.blank = snapshot->record.blank;
	r = pool->ops->revert(pool, &record, snapshot->record.name, err);
	if (r < 0) {
		extent_record_done(&record);
		return r;
	}
	extent_publish(extent, &record);
	return 0;
}

static int revert_to(struct extent *extent, const char *id,
		     struct extent *snapshot, struct error *err)
{
	int r = begin_two(extent, snapshot, err);

	if (r < 0)
		return r;
	r = check_revert(extent, id, snapshot, err);
	if (r == 0)
		r = revert(extent, snapshot, err);
	end_two(extent, snapshot);
	return r;
}

int extent_revert(struct node *node, const char *name, const char *id,
		  const char *snapshot, struct error *err)
{
	struct extent *extent = NULL, *to = NULL;
	int r = extent_find(node, name, &extent, err);

	if (r == 0)
		r = extent_find(node, snapshot, &to, err);
	if (r == 0)
		r = revert_to(extent, id, to, err);
	extent_unref(extent);
	extent_unref(to);
	return r;
}

/* ---- limits ---- */

int extent_set_limits(struct extent *extent, const struct extent_limits *limits,
		      struct error *err)
{
	struct extent_record record;
	int r = extent_limits_check(limits, err);

	if (r == 0)
		r = extent_begin(extent, err);
	if (r < 0)
		return r;
	if (limits->iops || limits->bytes_per_second)
		r = extent_direct_end(extent, err);
	if (r == 0 && extent_record_copy(&record, &extent->record) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	if (r == 0) {
		record.limits = *limits;
		r = extent_save(extent, &record, err);
	}
	if (r == 0)
		gate_set_limits(&extent->gate, limits);
	extent_end(extent);
	return r;
}

/* ---- ranges ---- */

struct listing {
	uint64_t start, size; /* bytes; outside is cut off */
	struct extent_range *ranges;
	size_t n, max;
};

/* 1: no more fit. */
static int list_range(void *context, uint64_t offset, uint64_t length)
{
	struct listing *listing = context;
	uint64_t end = offset + length;

	if (offset < listing->start)
		offset = listing->start;
	if (end > listing->size)
		end = listing->size;
	if (offset >= end)
		return 0;
	if (listing->n == listing->max)
		return 1;
	listing->ranges[listing->n++] = (struct extent_range){
		.offset = offset,
		.length = end - offset,
	};
	return 0;
}

/* Check that nobody writes to it while its ranges are listed. */
static int check_still(struct extent *extent, struct error *err)
{
	const struct extent_users *users = &extent->node->users;
	const struct extent_record *record = &extent->record;

	if (record->kind == EXTENT_KIND_SNAPSHOT)
		return 0;
	if (record->export.active && !record->export.read_only)
		return error_set(err, EBUSY,
				 "extent '%s' is exported to a writer: list "
				 "a snapshot of it",
				 record->name);
	if (record->export.active || !users->check_idle)
		return 0;
	return users->check_idle(users->context, extent,
				 "its ranges are listed", err);
}

static int check_ranges(struct extent *snapshot, const struct extent *older,
			uint64_t start, struct error *err)
{
	const struct pool *pool = snapshot->pool->pool;
	int r = older ? check_snapshot(snapshot, err)
		      : check_still(snapshot, err);

	if (r == 0 && older)
		r = check_snapshot(older, err);
	if (r < 0)
		return r;
	if (older &&
	    (older->pool != snapshot->pool ||
	     strcmp(older->record.origin.id, snapshot->record.origin.id) != 0))
		return error_set(err, EINVAL,
				 "'%s' and '%s' are not snapshots of one "
				 "extent",
				 older->record.name, snapshot->record.name);
	if (start > snapshot->record.size)
		return error_set(
			err, ERANGE,
			"extent '%s' ends at %" PRIu64 ", before %" PRIu64,
			snapshot->record.name, snapshot->record.size, start);
	if (!pool->ops->ranges)
		return error_set(
			err, EOPNOTSUPP,
			"pool '%s' is of kind '%s', which has no list of allocated "
			"ranges",
			snapshot->pool->known.name, pool->record.kind);
	return 0;
}

int extent_ranges(struct extent *snapshot, struct extent *older, uint64_t start,
		  struct extent_range *ret, size_t max, size_t *ret_n,
		  uint64_t *ret_end, struct error *err)
{
	struct extent *second = older ? older : snapshot;
	struct listing listing = {.start = start, .ranges = ret, .max = max};
	int r = begin_two(snapshot, second, err);

	if (r < 0)
		return r;
	r = check_ranges(snapshot, older, start, err);
	if (r == 0) {
		struct pool *pool = snapshot->pool->pool;

		listing.size = snapshot->record.size;
		r = pool->ops->ranges(pool, snapshot->record.name,
				      older ? older->record.name : NULL, start,
				      list_range, &listing, err);
	}
	end_two(snapshot, second);
	if (r < 0)
		return r;
	*ret_n = listing.n;
	*ret_end = r == 1 ? ret[max - 1].offset + ret[max - 1].length
			  : listing.size;
	return 0;
}
