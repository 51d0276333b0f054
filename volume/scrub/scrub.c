/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/scrub/scrub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "volume/op/node_states.h"
#include "volume/scrub/orphans.h"

#define LEASE     "scrub"
#define TRIES_MAX 5 /* the node's agent writes the record, too */

/* ---- what one node has ---- */

static bool is_on(const struct orphan *o, const char *node)
{
	return o->kind != ORPHAN_ATTACHMENT && strcmp(o->node, node) == 0;
}

/* Return the result for one node, owned; NULL without memory. */
static struct node_scrub *scrub_of(const struct orphans_found *found,
				   const struct node_record *node,
				   int64_t now_s)
{
	struct node_scrub *scrub = calloc(1, sizeof(*scrub));

	if (scrub)
		scrub->ages = calloc(NODE_SCRUB_AGES_MAX, sizeof(*scrub->ages));
	if (!scrub || !scrub->ages) {
		node_scrub_free(scrub);
		return NULL;
	}
	scrub->at_s = now_s;
	for (size_t i = 0; i < found->n; i++) {
		const struct orphan *o = &found->orphans[i];
		struct node_orphan_age *age = &scrub->ages[scrub->n_ages];

		if (!is_on(o, node->name))
			continue;
		scrub->missing += o->kind == ORPHAN_SPLIT;
		if (o->kind == ORPHAN_SPLIT)
			continue;
		scrub->orphans++;
		scrub->orphan_bytes += o->size;
		if (scrub->n_ages == NODE_SCRUB_AGES_MAX)
			continue;
		memcpy(age->extent, o->name, sizeof(age->extent));
		memcpy(age->extent_id, o->extent_id, sizeof(age->extent_id));
		age->since_s = node_scrub_since(node->scrub, o->extent_id)
				       ?: now_s;
		scrub->n_ages++;
	}
	return scrub;
}

/* ---- events ---- */

/* The record says it, too: an event that cannot be written is no matter. */
static void tell_found(struct volume_context *ctx, const char *node,
		       const struct node_scrub *old,
		       const struct node_scrub *now)
{
	static const struct node_scrub nothing;
	char size[SIZE_TEXT_MAX];

	if (!old)
		old = &nothing;
	if (now->orphans > old->orphans)
		(void)store_tell(ctx->store, RECORD_KIND_NODE, node, true,
				 "OrphansFound", NULL,
				 "extents of %s without a record: %" PRIu64
				 "; `trib volume orphans` names them",
				 size_format(size, now->orphan_bytes),
				 now->orphans);
	if (now->missing > old->missing)
		(void)store_tell(ctx->store, RECORD_KIND_NODE, node, true,
				 "ExtentsMissing", NULL,
				 "extents that records look for here in vain: "
				 "%" PRIu64
				 "; `trib volume orphans` names them",
				 now->missing);
	if (old->orphans + old->missing > 0 && now->orphans + now->missing == 0)
		(void)store_tell(ctx->store, RECORD_KIND_NODE, node, false,
				 "ScrubClean", NULL,
				 "records and extents match again");
}

/* ---- the record of the node ---- */

static int scrub_write_once(struct volume_context *ctx, const char *name,
			    const struct orphans_found *found, int64_t now_s,
			    struct error *err)
{
	struct node_record node = {0};
	struct node_scrub *old;
	auto_free char *json = NULL;
	int r = context_node_load(ctx, name, &node, err);

	if (r < 0)
		return r;
	old = node.scrub;
	node.scrub = scrub_of(found, &node, now_s);
	r = node.scrub ? node_record_encode(&node, &json, err)
		       : error_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = ctx->store->ops->compare_and_swap(
			ctx->store, RECORD_KIND_NODE, name,
			node.resource_version, json, NULL, err);
	if (r == 0)
		tell_found(ctx, name, old, node.scrub);
	node_scrub_free(old);
	node_record_done(&node);
	return r;
}

static int scrub_write(struct volume_context *ctx, const char *name,
		       const struct orphans_found *found, int64_t now_s,
		       struct error *err)
{
	int r = -ESTALE;

	for (int i = 0; i < TRIES_MAX && r == -ESTALE; i++)
		r = scrub_write_once(ctx, name, found, now_s, err);
	return r == -ENOENT ? 0 : r; /* removed meanwhile */
}

/* ---- all ---- */

static int scrub_run(struct volume_context *ctx, struct volume_scrubbed *ret,
		     struct error *err)
{
	struct orphans_found found;
	int r = orphans_find(ctx, &found, err);

	if (r < 0)
		return r;
	*ret = (struct volume_scrubbed){
		.ran = true,
		.at_s = clock_wall_s(),
		.silent = found.unreachable,
	};
	for (size_t i = 0; i < found.n; i++) {
		const struct orphan *o = &found.orphans[i];

		ret->missing += o->kind == ORPHAN_SPLIT;
		ret->orphans += o->kind == ORPHAN_EXTENT;
		ret->orphan_bytes += o->kind == ORPHAN_EXTENT ? o->size : 0;
	}
	for (size_t i = 0; r == 0 && i < found.asked.count; i++)
		r = scrub_write(ctx, found.asked.items[i], &found, ret->at_s,
				err);
	orphans_found_done(&found);
	return r;
}

/* Sum up the last results. False: a node has none so new. */
static bool scrub_is_fresh(const struct node_state *states, size_t n,
			   uint64_t every_s, struct volume_scrubbed *ret)
{
	const int64_t now_s = clock_wall_s();

	*ret = (struct volume_scrubbed){.at_s = now_s};
	for (size_t i = 0; i < n; i++) {
		const struct node_scrub *scrub = states[i].record.scrub;

		/* Without a blockd there is nothing; a lost node can't have. */
		if (!states[i].record.control_address[0] || states[i].lost)
			continue;
		/* A result of the future is by a clock that was wrong. */
		if (!scrub || scrub->at_s > now_s ||
		    (uint64_t)(now_s - scrub->at_s) >= every_s)
			return false;
		if (scrub->at_s < ret->at_s)
			ret->at_s = scrub->at_s;
		ret->orphans += scrub->orphans;
		ret->orphan_bytes += scrub->orphan_bytes;
		ret->missing += scrub->missing;
	}
	return true;
}

int volume_scrub(struct volume_context *ctx, uint64_t every_s,
		 struct volume_scrubbed *ret, struct error *err)
{
	const struct store_ops *ops = ctx->store->ops;
	struct node_state *states = NULL;
	size_t n = 0;
	int r = ops->lease(ctx->store, STORE_LEASE_LEADER, LEASE,
			   "comparing records with extents", err);

	if (r < 0)
		return r;
	r = node_states_load(ctx, &states, &n, err);
	if (r == 0 && !scrub_is_fresh(states, n, every_s, ret))
		r = scrub_run(ctx, ret, err);
	node_states_free(states, n);
	ops->release(ctx->store, STORE_LEASE_LEADER, LEASE);
	return r;
}
