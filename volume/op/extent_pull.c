/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/extent_pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define GRANT_PULL      "pull" /* of the exports that extents pull */
#define PULL_RANGES_MAX 4096   /* proto/blockd.proto, PullExtentRequest */
#define FAILURES_MAX    5      /* steps in a row without any progress */

/* ---- the snapshot's export ---- */

struct pull_from {
	struct node_record node;    /* owned members */
	struct node_client *client; /* borrowed */
	struct node_extent extent;  /* owned members */
	/* Addresses that the extent's node has. */
	char own[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	size_t n_own;
};

static void from_done(struct pull_from *from)
{
	node_record_done(&from->node);
	node_extent_done(&from->extent);
}

static int from_find(struct volume_context *ctx, const struct extent_pull *pull,
		     struct pull_from *from, struct error *err)
{
	int r = context_node_load(ctx, pull->from_node, &from->node, err);

	if (r == 0)
		r = context_client_of(ctx, &from->node, &from->client, err);
	if (r == 0)
		r = node_client_get_extent(from->client, pull->from,
					   &from->extent, err);
	if (r == 0 && pull->from_id[0] &&
	    strcmp(pull->from_id, from->extent.id) != 0)
		r = error_set(err, ENOENT,
			      "snapshot extent '%s' of node '%s' is another "
			      "one than it was",
			      pull->from, pull->from_node);
	if (r < 0)
		return r;
	r = context_initiators(ctx, pull->to_node, from->node.data_address,
			       from->own, err);
	if (r < 0)
		return r;
	from->n_own = (size_t)r;
	return 0;
}

static bool from_is_ours(const struct node_extent *extent)
{
	return extent->active && strcmp(extent->grant, GRANT_PULL) == 0;
}

static bool from_owns(const struct pull_from *from, const char *address)
{
	for (size_t i = 0; i < from->n_own; i++) {
		if (strcmp(from->own[i], address) == 0)
			return true;
	}
	return false;
}

/* List others that pull it, too. Returns how many. */
static size_t others_list(const struct pull_from *from, const char **list)
{
	const struct node_extent *now = &from->extent;
	size_t n = 0;

	for (size_t i = 0; from_is_ours(now) && i < now->n_initiators; i++) {
		if (!from_owns(from, now->initiators[i]))
			list[n++] = now->initiators[i];
	}
	return n;
}

static int from_set(struct pull_from *from, const char *const *list, size_t n,
		    struct error *err)
{
	const struct node_extent *now = &from->extent;
	const char *over = now->grant;
	struct node_extent extent = {0};
	int r = node_client_set_export(
		from->client,
		&(struct node_export_request){
			.name = now->name,
			.epoch = now->epoch + !from_is_ours(now),
			.grant = GRANT_PULL,
			.over = &over,
			.n_over = now->connections == 0,
			.initiators = list,
			.n_initiators = n,
			.read_only = true,
		},
		&extent, err);

	if (r == -ESTALE)
		r = error_set(err, EBUSY,
			      "extent '%s' of node '%s', which is to be "
			      "copied, is in use by another attachment: detach "
			      "it first",
			      now->name, from->node.name);
	if (r < 0)
		return r;
	node_extent_done(&from->extent);
	from->extent = extent;
	return 0;
}

/* Let the extent's node in, beside others that pull from there. */
static int from_allow(struct pull_from *from, struct error *err)
{
	const char *list[EXPORT_INITIATORS_MAX + NODE_INITIATORS_MAX];
	size_t n = others_list(from, list);

	if (from_is_ours(&from->extent) &&
	    from->extent.n_initiators == n + from->n_own)
		return 0;
	if (n + from->n_own > EXPORT_INITIATORS_MAX)
		return error_set(err, EAGAIN,
				 "%zu nodes copy extent '%s' already", n,
				 from->extent.name);
	for (size_t i = 0; i < from->n_own; i++)
		list[n++] = from->own[i];
	return from_set(from, list, n, err);
}

/* ---- ranges ---- */

struct pull_ranges {
	uint64_t start; /* bytes */
	struct node_piece *items;
	size_t n;
};

/* Other than 0: no more are wanted. Whole blocks, joined where they meet. */
static int range_take(void *context, uint64_t size, uint64_t offset,
		      uint64_t length)
{
	struct pull_ranges *ranges = context;
	struct node_piece *last;
	uint64_t end = offset + length;

	offset -= offset % RECORD_SIZE_UNIT;
	if (offset < ranges->start)
		offset = ranges->start;
	if (end % RECORD_SIZE_UNIT)
		end += RECORD_SIZE_UNIT - end % RECORD_SIZE_UNIT;
	if (end > size)
		end = size;
	last = ranges->n ? &ranges->items[ranges->n - 1] : NULL;
	if (last && offset <= last->offset + last->length) {
		last->length = end - last->offset;
		return 0;
	}
	if (ranges->n == PULL_RANGES_MAX)
		return 1;
	if (offset < end)
		ranges->items[ranges->n++] = (struct node_piece){
			.offset = offset,
			.length = end - offset,
		};
	return 0;
}

static int pull_ranges_list(const struct extent_pull *pull,
			    struct pull_from *from, struct pull_ranges *ret,
			    struct error *err)
{
	const struct node_ranges_request request = {
		.name = pull->from,
		.id = from->extent.id,
		.older = pull->older,
		.older_id = pull->older_id,
		.start = pull->position,
	};
	int r;

	ret->start = pull->position;
	ret->items = calloc(PULL_RANGES_MAX, sizeof(*ret->items));
	if (!ret->items)
		return error_set(err, ENOMEM, "out of memory");
	r = node_client_list_ranges(from->client, &request, range_take, ret,
				    NULL, err);
	/* The pool does not know them: all of it. */
	if (r == -EOPNOTSUPP && !pull->older &&
	    pull->position < from->extent.size) {
		ret->n = 0;
		r = range_take(ret, from->extent.size, pull->position,
			       from->extent.size - pull->position);
	}
	return r < 0 ? r : 0;
}

/* ---- the pull ---- */

static int pull_call(struct node_client *to, const struct extent_pull *pull,
		     const struct pull_from *from,
		     const struct pull_ranges *ranges, struct node_pulled *ret,
		     struct error *err)
{
	const struct node_pull_request request = {
		.name = pull->to,
		.id = pull->to_id,
		.address = from->node.data_address,
		.export = from->extent.nbd_name,
		.ranges = ranges->items,
		.n_ranges = ranges->n,
	};

	return node_client_pull(to, &request, ret, err);
}

/* Name the next ranges, or find that there are none. */
static int pull_begin(struct node_client *to, struct extent_pull *pull,
		      struct pull_from *from, struct error *err)
{
	struct pull_ranges ranges = {0};
	struct node_pulled answer;
	int r = pull_ranges_list(pull, from, &ranges, err);

	if (r == 0 && ranges.n == 0)
		pull->done = true;
	else if (r == 0)
		r = pull_call(to, pull, from, &ranges, &answer, err);
	free(ranges.items);
	return r;
}

static int pull_step(struct volume_context *ctx, struct extent_pull *pull,
		     struct pull_from *from, struct error *err)
{
	static const struct pull_ranges none;
	struct node_pulled answer = {0};
	struct node_client *to = NULL;
	int r = context_client(ctx, pull->to_node, &to, err);

	if (r == 0)
		r = from_allow(from, err);
	if (r == 0)
		r = pull_call(to, pull, from, &none, &answer, err);
	if (r < 0)
		return r;
	if (answer.position > pull->position) {
		pull->position = answer.position;
		pull->failures = 0;
	}
	return answer.runs ? 0 : pull_begin(to, pull, from, err);
}

/* May be over the next time: a server was away, or had not let us in yet. */
static bool pull_may_pass(int r)
{
	return error_is_open(r) || r == -EACCES || r == -EPROTO;
}

int extent_pull_step(struct volume_context *ctx, struct extent_pull *pull,
		     struct error *err)
{
	struct pull_from from = {0};
	int r = from_find(ctx, pull, &from, err);

	if (r == 0)
		r = pull_step(ctx, pull, &from, err);
	from_done(&from);
	if (r == 0 || !pull_may_pass(r))
		return r;
	if (++pull->failures < FAILURES_MAX)
		return 0;
	return error_is_open(r) ? r : -EHOSTUNREACH;
}

int extent_pull_end(struct volume_context *ctx, const struct extent_pull *pull,
		    struct error *err)
{
	static const char *const grants[] = {GRANT_PULL};
	const char *list[EXPORT_INITIATORS_MAX];
	struct pull_from from = {0};
	int r = from_find(ctx, pull, &from, err);
	size_t n;

	if (r == 0 && from_is_ours(&from.extent)) {
		n = others_list(&from, list);
		r = n > 0 ? from_set(&from, list, n, err)
			  : node_client_remove_export(from.client, pull->from,
						      from.extent.epoch, grants,
						      array_size(grants), err);
	}
	from_done(&from);
	return r == -ENOENT ? 0 : r;
}
