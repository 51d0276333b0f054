/* SPDX-License-Identifier: Apache-2.0 */
/* volume_health_check(): what every record says of its volume's health. */
#include "volume/flow/health_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parallel.h"
#include "volume/extent/extents.h"
#include "volume/op/context.h"
#include "volume/op/volume_walk.h"

#define ASKED_AT_ONCE 16

/* What matters of an extent: a cluster has hundreds of thousands. */
struct seen_extent {
	char name[RECORD_NAME_SIZE];
	char id[UUID_TEXT_SIZE];
	bool ok;
};

struct seen_node {
	struct seen_extent *extents; /* owned, by name */
	size_t n;
	bool answered;
};

struct observation {
	struct volume_context *ctx;
	bool (*go_on)(void *context);
	void *context;
	struct node_state *states; /* owned */
	struct seen_node *nodes;   /* owned, one a state */
	size_t n_nodes;
	struct volume_observation sum;
};

struct health {
	bool well;
	const char *reason;
	char message[RECORD_TEXT_SIZE];
};

/* ---- the nodes ---- */

static int compare_extents(const void *a_, const void *b_)
{
	const struct seen_extent *a = a_, *b = b_;

	return strcmp(a->name, b->name);
}

static bool extent_is_ok(const struct node_extent *extent)
{
	return strcmp(extent->state, "ok") == 0;
}

/* -ENOMEM: as if the node had not answered. */
static int node_see(struct seen_node *node, const struct node_extent *extents,
		    size_t n)
{
	node->extents = calloc(n + 1, sizeof(*node->extents));
	if (!node->extents)
		return -ENOMEM;
	node->n = n;
	for (size_t i = 0; i < n; i++) {
		struct seen_extent *seen = &node->extents[i];

		memcpy(seen->name, extents[i].name, sizeof(seen->name));
		memcpy(seen->id, extents[i].id, sizeof(seen->id));
		seen->ok = extent_is_ok(&extents[i]);
	}
	if (n > 0)
		qsort(node->extents, n, sizeof(*node->extents),
		      compare_extents);
	return 0;
}

static void health_ask(void *o_, size_t index)
{
	struct observation *o = o_;
	struct seen_node *node = &o->nodes[index];
	struct node_extent *extents = NULL;
	size_t n = 0;

	if (!o->states[index].reachable || !o->go_on(o->context))
		return;
	node->answered = volume_extent_list(o->ctx,
					    o->states[index].record.name, NULL,
					    &extents, &n, NULL) == 0 &&
			 node_see(node, extents, n) == 0;
	node_extents_free(extents, n);
}

static int ask_all(struct observation *o, struct error *err)
{
	int r = volume_node_list(o->ctx, &o->states, &o->n_nodes, err);

	if (r < 0)
		return r;
	o->nodes = calloc(o->n_nodes + 1, sizeof(*o->nodes));
	if (!o->nodes)
		return error_set(err, ENOMEM, "out of memory");
	parallel_run(o->n_nodes, ASKED_AT_ONCE, health_ask, o);
	for (size_t i = 0; i < o->n_nodes; i++) {
		if (!o->states[i].record.control_address[0])
			continue; /* it only uses volumes */
		o->sum.nodes++;
		o->sum.silent += !o->nodes[i].answered;
	}
	return 0;
}

static void observation_done(struct observation *o)
{
	for (size_t i = 0; o->nodes && i < o->n_nodes; i++)
		free(o->nodes[i].extents);
	free(o->nodes);
	if (o->states)
		node_states_free(o->states, o->n_nodes);
}

static const struct seen_node *node_of(const struct observation *o,
				       const char *name)
{
	for (size_t i = 0; i < o->n_nodes; i++)
		if (strcmp(o->states[i].record.name, name) == 0)
			return &o->nodes[i];
	return NULL;
}

/* ---- one volume ---- */

/* Return the split's pool, if it is ill; NULL: it is well, or not known. */
static const struct node_pool *ill_pool(const struct observation *o,
					const struct volume_split *split)
{
	for (size_t i = 0; i < o->n_nodes; i++) {
		const struct node_state *state = &o->states[i];

		if (strcmp(state->record.name, split->node) != 0)
			continue;
		for (size_t p = 0; p < state->n_pools; p++)
			if (strcmp(state->pools[p].name, split->pool) == 0 &&
			    !node_pool_is_online(&state->pools[p]))
				return &state->pools[p];
	}
	return NULL;
}

static bool judge_pool(const struct observation *o,
		       const struct volume_split *split, struct health *ret)
{
	const struct node_pool *pool = ill_pool(o, split);

	if (!pool)
		return true;
	ret->reason = "PoolNotWell";
	(void)snprintf(ret->message, sizeof(ret->message),
		       "split %u: pool '%s' of node %s is %s: %.80s",
		       split->index, pool->name, split->node, pool->state,
		       pool->message);
	return false;
}

/*
 * Ask for an extent that is not as the record has it. The record may be newer
 * than the node's list.
 */
static bool split_is_ok_now(const struct observation *o,
			    const struct volume_split *split)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	bool ok = context_client(o->ctx, split->node, &client, NULL) == 0 &&
		  node_client_get_extent(client, split->extent, &extent,
					 NULL) == 0 &&
		  strcmp(extent.id, split->extent_id) == 0 &&
		  extent_is_ok(&extent);

	node_extent_done(&extent);
	return ok;
}

/*
 * Words that stay the same as long as the problem does: a record is written
 * when they change.
 */
static bool judge_split(const struct observation *o,
			const struct volume_split *split, struct health *ret)
{
	const struct seen_node *node = node_of(o, split->node);
	struct seen_extent key = {0}, *extent = NULL;
	const char *what = NULL;

	(void)snprintf(key.name, sizeof(key.name), "%s", split->extent);
	if (split->lost)
		node = NULL;
	if (node && node->answered && node->n > 0)
		extent = bsearch(&key, node->extents, node->n, sizeof(key),
				 compare_extents);
	if (split->lost) {
		ret->reason = "SplitLost";
		what = "was removed as lost for good";
	} else if (!node) {
		ret->reason = "NodeGone";
		what = "is not known any more";
	} else if (!node->answered) {
		ret->reason = "NodeSilent";
		what = "does not answer";
	} else if (!judge_pool(o, split, ret)) {
		return false;
	} else if (!extent || strcmp(extent->id, split->extent_id) != 0) {
		ret->reason = "SplitMissing";
		what = "does not have its extent";
	} else if (!extent->ok) {
		ret->reason = "SplitDamaged";
		what = "says that its extent is damaged";
	}
	if (what && !split->lost && (!node || node->answered) &&
	    split_is_ok_now(o, split))
		what = NULL;
	if (what)
		(void)snprintf(ret->message, sizeof(ret->message),
			       "split %u: node %s %s", split->index,
			       split->node, what);
	return !what;
}

/* Splits that are planned, or given up, are not there and need not be. */
static bool is_used(const struct volume_split *split)
{
	return split->state != SPLIT_PLANNED && split->state != SPLIT_DELETED;
}

static void health_judge(const struct observation *o,
			 const struct volume_record *record, struct health *ret)
{
	*ret = (struct health){.well = true, .reason = "Complete"};
	for (size_t i = 0; ret->well && i < record->n_splits; i++)
		if (is_used(&record->splits[i]))
			ret->well = judge_split(o, &record->splits[i], ret);
	if (ret->well)
		(void)snprintf(ret->message, sizeof(ret->message),
			       "every extent is there");
}

static bool is_health(const struct volume_condition *c)
{
	return strcmp(c->type, VOLUME_CONDITION_HEALTHY) == 0;
}

static bool is_said(const struct volume_record *record,
		    const struct health *health)
{
	for (size_t i = 0; i < record->n_conditions; i++) {
		const struct volume_condition *c = &record->conditions[i];

		if (is_health(c))
			return c->status == health->well &&
			       strcmp(c->reason, health->reason) == 0 &&
			       strcmp(c->message, health->message) == 0;
	}
	return false;
}

/* Of an operation that did not end well. */
static bool has_other_problem(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_conditions; i++)
		if (!is_health(&record->conditions[i]) &&
		    !record->conditions[i].status)
			return true;
	return false;
}

static bool was_ill(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_conditions; i++)
		if (is_health(&record->conditions[i]))
			return !record->conditions[i].status;
	return false;
}

/* Tell people of a volume that is ill, or is well again. */
static void health_tell(struct observation *o,
			const struct volume_record *judged,
			const struct health *health)
{
	if (health->well && !was_ill(judged))
		return;
	(void)store_tell(o->ctx->store, RECORD_KIND_VOLUME, judged->name,
			 !health->well,
			 health->well ? "VolumeWell" : health->reason, NULL,
			 "%s", health->message);
}

/* Write the health, only if the record is still the one that was judged. */
static int health_say(struct observation *o, const struct volume_record *judged,
		      const struct health *health, struct error *err)
{
	struct operation op;
	int r = operation_begin_condition(&op, o->ctx, judged->name,
					  "noting the health of", err);

	if (r == -EAGAIN) /* somebody works on it: the next time */
		return 0;
	if (r < 0)
		return r;
	if (op.record && strcmp(op.record->resource_version,
				judged->resource_version) == 0) {
		r = volume_record_condition(op.record, VOLUME_CONDITION_HEALTHY,
					    health->well, health->reason,
					    health->message);
		if (r == 0)
			r = operation_save(&op, err);
		if (r == 0)
			health_tell(o, judged, health);
		o->sum.changed += r == 0;
	}
	operation_end_condition(&op);
	return r == -EAGAIN || r == -E2BIG ? 0 : r;
}

static int health_look(void *o_, const struct volume_record *record,
		       struct error *err)
{
	struct observation *o = o_;
	struct health health;

	if (!o->go_on(o->context))
		return error_set(err, ECANCELED, "stopped");
	o->sum.volumes++;
	o->sum.capacity += record->spec.capacity;
	if (record->phase != VOLUME_READY) {
		o->sum.abnormal++;
		return 0;
	}
	health_judge(o, record, &health);
	o->sum.abnormal += !health.well || has_other_problem(record);
	return is_said(record, &health) ? 0
					: health_say(o, record, &health, err);
}

/* ---- all ---- */

static bool always(void *context)
{
	(void)context;
	return true;
}

int volume_health_check(struct volume_context *ctx,
			bool (*go_on)(void *context), void *context,
			struct volume_observation *ret, struct error *err)
{
	struct observation o = {.ctx = ctx,
				.go_on = go_on ? go_on : always,
				.context = context};
	int r = ask_all(&o, err);

	if (r == 0)
		r = volume_walk(ctx, NULL, health_look, &o, NULL, err);
	observation_done(&o);
	if (r == 0)
		*ret = o.sum;
	return r;
}

const char *volume_record_problem(const struct volume_record *record, char *ret)
{
	ret[0] = '\0';
	if (record->phase != VOLUME_READY)
		(void)snprintf(
			ret, RECORD_TEXT_SIZE, "the volume is %s",
			record->phase == VOLUME_CREATING    ? "not finished"
			: record->phase == VOLUME_REVERTING ? "being reverted"
			: record->phase == VOLUME_MOVING    ? "being moved"
							    : "being deleted");
	for (size_t i = 0; i < record->n_conditions && !ret[0]; i++)
		if (!record->conditions[i].status)
			(void)snprintf(ret, RECORD_TEXT_SIZE, "%s",
				       record->conditions[i].message);
	return ret;
}
