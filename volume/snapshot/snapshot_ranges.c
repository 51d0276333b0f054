/* SPDX-License-Identifier: Apache-2.0 */
/* volume_snapshot_ranges(). */
#include <errno.h>
#include <string.h>

#include "base/size.h"
#include "volume/snapshot/snapshot_op.h"

#define RANGES_AT_ONCE 1024

struct listing {
	snapshot_ranges_visit visit;
	void *context;
	bool told;
	uint64_t size;
	struct snapshot_range ranges[RANGES_AT_ONCE];
	size_t n;
};

static int ranges_flush(struct listing *listing)
{
	size_t n = listing->n;

	listing->n = 0;
	listing->told = true;
	return listing->visit(listing->context, listing->size, listing->ranges,
			      n);
}

static int ranges_each(void *listing_, uint64_t size, uint64_t offset,
		       uint64_t length)
{
	struct listing *listing = listing_;

	listing->size = size;
	listing->ranges[listing->n++] = (struct snapshot_range){offset, length};
	return listing->n == RANGES_AT_ONCE ? ranges_flush(listing) : 0;
}

/* The one split of a snapshot that can be read. */
static int get_ready(struct volume_context *ctx, const char *name,
		     struct snapshot_record **ret, struct error *err)
{
	int r = volume_snapshot_get(ctx, name, ret, err);

	if (r < 0)
		return r;
	if ((*ret)->phase == SNAPSHOT_DELETING)
		return error_set(err, EBUSY, "snapshot '%s' is being deleted",
				 name);
	if ((*ret)->phase != SNAPSHOT_READY)
		return error_set(err, EAGAIN, "snapshot '%s' is not ready",
				 name);
	if ((*ret)->n_splits != 1)
		return error_set(err, EINVAL,
				 "snapshot '%s' has %zu extents; only one of a "
				 "volume of a single extent is a range of "
				 "blocks",
				 name, (*ret)->n_splits);
	return 0;
}

static int check_pair(const struct snapshot_record *newer,
		      const struct snapshot_record *older, uint64_t start,
		      struct error *err)
{
	char text[SIZE_TEXT_MAX];

	if (start > newer->splits[0].size)
		return error_set(err, ERANGE,
				 "snapshot '%s' ends at %s, before the start",
				 newer->name,
				 size_format(text, newer->splits[0].size));
	if (older &&
	    strcmp(newer->splits[0].origin_id, older->splits[0].origin_id) != 0)
		return error_set(err, EINVAL,
				 "snapshots '%s' and '%s' are not of one "
				 "volume",
				 newer->name, older->name);
	return 0;
}

static int ranges_list(struct volume_context *ctx,
		       const struct snapshot_split *split,
		       const struct snapshot_split *older, uint64_t start,
		       struct listing *listing, struct error *err)
{
	const struct node_ranges_request request = {
		.name = split->extent,
		.id = split->extent_id,
		.older = older ? older->extent : NULL,
		.older_id = older ? older->extent_id : NULL,
		.start = start,
	};
	struct node_client *client = NULL;
	int r = context_client(ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_list_ranges(client, &request, ranges_each,
					    listing, &listing->size, err);
	if (r == 0 && (listing->n > 0 || !listing->told))
		r = ranges_flush(listing);
	return r;
}

int volume_snapshot_ranges(struct volume_context *ctx,
			   const struct snapshot_ranges_request *request,
			   snapshot_ranges_visit visit, void *context,
			   struct error *err)
{
	struct listing listing = {.visit = visit, .context = context};
	struct snapshot_record *record = NULL, *older = NULL;
	int r = get_ready(ctx, request->snapshot, &record, err);

	if (r == 0 && request->older)
		r = get_ready(ctx, request->older, &older, err);
	if (r == 0)
		r = check_pair(record, older, request->start, err);
	if (r == 0)
		r = ranges_list(ctx, &record->splits[0],
				older ? &older->splits[0] : NULL,
				request->start, &listing, err);
	snapshot_record_free(record);
	snapshot_record_free(older);
	return r;
}
