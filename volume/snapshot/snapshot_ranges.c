/* SPDX-License-Identifier: Apache-2.0 */
/* volume_snapshot_ranges(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/blockdev/segments.h"
#include "base/size.h"
#include "volume/snapshot/snapshot_op.h"

#define RANGES_AT_ONCE 1024

/* One part of the segment whose ranges are being told. */
struct part {
	const struct snapshot_split *split, *older; /* older: NULL: none */
	uint64_t from; /* bytes, in the part: where the next listing begins */
	bool began;    /* an earlier listing ended there */
	bool ended;    /* nothing is left to be listed */
	size_t n, at;  /* ranges, and those told already */
	struct error *err; /* of the listing; borrowed */
	struct snapshot_range ranges[RANGES_AT_ONCE];
};

struct listing {
	struct volume_context *ctx;
	snapshot_ranges_visit visit;
	void *context;
	struct segments segments; /* of the snapshot's splits */
	uint64_t start;           /* bytes, in the device */
	/* The same, in each part; UINT64_MAX: past its end. */
	uint64_t from[SEGMENTS_PARTS_MAX];
	struct part *parts; /* owned; of one segment */
	bool told;
	struct snapshot_range ranges[RANGES_AT_ONCE];
	size_t n;
};

/* ---- ranges of the device ---- */

static int ranges_flush(struct listing *listing)
{
	size_t n = listing->n;

	listing->n = 0;
	listing->told = true;
	return listing->visit(listing->context, listing->segments.size,
			      listing->ranges, n);
}

/* Runs that follow one another are one range. */
static int ranges_add(struct listing *listing, uint64_t offset, uint64_t length)
{
	struct snapshot_range *last;
	int r = 0;

	if (offset + length <= listing->start)
		return 0;
	last = listing->n > 0 ? &listing->ranges[listing->n - 1] : NULL;
	if (last && last->offset + last->length == offset) {
		last->length += length;
		return 0;
	}
	if (listing->n == RANGES_AT_ONCE)
		r = ranges_flush(listing);
	listing->ranges[listing->n++] = (struct snapshot_range){offset, length};
	return r;
}

/* ---- ranges of a part ---- */

static int part_range(void *part_, uint64_t size, uint64_t offset,
		      uint64_t length)
{
	struct part *part = part_;

	if (size != part->split->size)
		return error_set(part->err, EPROTO,
				 "node '%s' has a list of ranges of %llu bytes "
				 "for extent '%s', which has %llu",
				 part->split->node, (unsigned long long)size,
				 part->split->extent,
				 (unsigned long long)part->split->size);
	/* An earlier listing may have told the begin of a range. */
	if (part->began && offset < part->from) {
		length -= part->from - offset;
		offset = part->from;
	}
	part->ranges[part->n++] = (struct snapshot_range){offset, length};
	return part->n == RANGES_AT_ONCE;
}

/* Ask the part's node for its next ranges, if none is left. */
static int part_fill(struct listing *listing, struct part *part,
		     struct error *err)
{
	const struct node_ranges_request request = {
		.name = part->split->extent,
		.id = part->split->extent_id,
		.older = part->older ? part->older->extent : NULL,
		.older_id = part->older ? part->older->extent_id : NULL,
		.start = part->from,
	};
	const struct snapshot_range *last;
	struct node_client *client = NULL;
	int r;

	if (part->at < part->n || part->ended)
		return 0;
	part->n = part->at = 0;
	part->err = err;
	r = context_client(listing->ctx, part->split->node, &client, err);
	if (r == 0)
		r = node_client_list_ranges(client, &request, part_range, part,
					    NULL, err);
	if (r < 0)
		return r;
	part->ended = r == 0;
	part->began = true;
	if (part->n > 0) {
		last = &part->ranges[part->n - 1];
		part->from = last->offset + last->length;
	}
	return 0;
}

/* ---- segments ---- */

/* Tell the run of the part that comes first in the device. 1: none is left. */
static int segment_step(struct listing *listing, const struct segment *segment,
			struct error *err)
{
	struct snapshot_range *range;
	struct part *first = NULL;
	uint64_t place = 0, run = 0;
	int r;

	for (unsigned i = 0; i < segment->width; i++) {
		struct part *part = &listing->parts[i];
		uint64_t at, length;

		r = part_fill(listing, part, err);
		if (r < 0)
			return r;
		if (part->at == part->n)
			continue;
		at = segments_place(&listing->segments, segment->first + i,
				    part->ranges[part->at].offset, &length);
		if (first && at > place)
			continue;
		first = part;
		place = at;
		run = length;
	}
	if (!first)
		return 1;
	range = &first->ranges[first->at];
	if (run > range->length)
		run = range->length;
	range->offset += run;
	range->length -= run;
	first->at += range->length == 0;
	return ranges_add(listing, place, run);
}

static int segment_tell(struct listing *listing, const struct segment *segment,
			const struct snapshot_record *record,
			const struct snapshot_record *older, struct error *err)
{
	int r = 0;

	for (unsigned i = 0; i < segment->width; i++) {
		const unsigned number = segment->first + i;
		struct part *part = &listing->parts[i];

		part->split = &record->splits[number];
		part->older = older && number < older->n_splits
				      ? &older->splits[number]
				      : NULL;
		part->from = listing->from[number];
		part->ended = part->from == UINT64_MAX;
		part->began = false;
		part->n = part->at = 0;
	}
	while (r == 0)
		r = segment_step(listing, segment, err);
	return r > 0 ? 0 : r;
}

/* Find where each part begins that has bytes after the start. */
static void find_start(struct listing *listing)
{
	struct segment_walk walk = {
		.offset = listing->start,
		.length = listing->segments.size - listing->start,
		.no_data = true,
		.piece_max = UINT64_MAX,
	};
	struct segment_piece piece;

	for (size_t i = 0; i < SEGMENTS_PARTS_MAX; i++)
		listing->from[i] = UINT64_MAX;
	while (segments_next(&listing->segments, &walk, &piece))
		listing->from[piece.part] = piece.offset;
}

static int listing_run(struct listing *listing,
		       const struct snapshot_record *record,
		       const struct snapshot_record *older, struct error *err)
{
	int r = 0;

	find_start(listing);
	listing->parts = calloc(SEGMENTS_WIDTH_MAX, sizeof(*listing->parts));
	if (!listing->parts)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < listing->segments.n; i++) {
		const struct segment *s = &listing->segments.items[i];

		if (s->start + s->length > listing->start)
			r = segment_tell(listing, s, record, older, err);
	}
	if (r == 0 && (listing->n > 0 || !listing->told))
		r = ranges_flush(listing);
	free(listing->parts);
	return r;
}

/* ---- the snapshots ---- */

/* A snapshot that can be read, and whose splits are one device. */
static int get_ready(struct volume_context *ctx, const char *name,
		     struct snapshot_record **ret, struct error *err)
{
	int r = volume_snapshot_get(ctx, name, ret, err);

	if (r < 0)
		return r;
	if ((*ret)->phase == SNAPSHOT_DELETING)
		return error_set(err, EBUSY, "snapshot '%s' is being deleted",
				 name);
	r = snapshot_check_whole(*ret, err);
	if (r < 0)
		return r;
	if ((*ret)->phase != SNAPSHOT_READY)
		return error_set(err, EAGAIN, "snapshot '%s' is not ready",
				 name);
	if ((*ret)->n_splits != 1 && !volume_spec_is_device(&(*ret)->spec))
		return error_set(err, EINVAL,
				 "snapshot '%s' is of a union of %zu extents; "
				 "only one of a device, or of a single extent, "
				 "is a range of blocks",
				 name, (*ret)->n_splits);
	return 0;
}

/* @older may have fewer splits: the volume has grown since. */
static int check_pair(const struct snapshot_record *newer,
		      const struct snapshot_record *older, struct error *err)
{
	bool same = older->n_splits <= newer->n_splits;

	for (size_t i = 0; same && i < older->n_splits; i++)
		same = strcmp(newer->splits[i].origin_id,
			      older->splits[i].origin_id) == 0;
	return same ? 0
		    : error_set(err, EINVAL,
				"snapshots '%s' and '%s' are not of one "
				"volume, or not in this order",
				newer->name, older->name);
}

static int read_segments(const struct snapshot_record *record,
			 struct listing *listing, struct error *err)
{
	const struct stripe stripe = {record->spec.stripe_width,
				      record->spec.stripe_unit};
	uint64_t sizes[SEGMENTS_PARTS_MAX] = {0};
	char text[SIZE_TEXT_MAX];
	int r;

	for (size_t i = 0; i < record->n_splits && i < SEGMENTS_PARTS_MAX; i++)
		sizes[i] = record->splits[i].size;
	r = segments_make(&stripe, sizes, record->n_splits, &listing->segments,
			  err);
	if (r == 0 && listing->start > listing->segments.size)
		r = error_set(err, ERANGE,
			      "snapshot '%s' ends at %s, before the start",
			      record->name,
			      size_format(text, listing->segments.size));
	return r;
}

int volume_snapshot_ranges(struct volume_context *ctx,
			   const struct snapshot_ranges_request *request,
			   snapshot_ranges_visit visit, void *context,
			   struct error *err)
{
	struct snapshot_record *record = NULL, *older = NULL;
	struct listing *listing = calloc(1, sizeof(*listing));
	int r = listing ? get_ready(ctx, request->snapshot, &record, err)
			: error_set(err, ENOMEM, "out of memory");

	if (r == 0 && request->older)
		r = get_ready(ctx, request->older, &older, err);
	if (r == 0 && older)
		r = check_pair(record, older, err);
	if (r == 0) {
		listing->ctx = ctx;
		listing->visit = visit;
		listing->context = context;
		listing->start = request->start;
		r = read_segments(record, listing, err);
	}
	if (r == 0)
		r = listing_run(listing, record, older, err);
	free(listing);
	snapshot_record_free(record);
	snapshot_record_free(older);
	return r;
}
