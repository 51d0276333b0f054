/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

#define AT_ONCE 64 /* nodes: while one waits, the others hold */

/*
 * To freeze, ms. A node that can't in that time says so within three seconds
 * more, and so within the ten that a call may take.
 */
#define FREEZE_MS 6000

void cut_init(struct cut *cut, struct volume_context *ctx, const char *id)
{
	*cut = (struct cut){.ctx = ctx};
	(void)snprintf(cut->id, sizeof(cut->id), "%s", id);
}

void cut_done(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_parts; i++) {
		struct cut_part *part = cut->parts[i];

		if (part->made)
			node_extents_free(part->made, part->n);
		free(part);
	}
	free(cut->parts);
	free(cut->freezes);
}

/* ---- who does what ---- */

static int part_new(struct cut *cut, const char *node, struct cut_part **ret,
		    struct error *err)
{
	struct cut_part **parts = realloc(
		cut->parts, (cut->n_parts + 1) * sizeof(struct cut_part *));
	struct cut_part *part;
	int r;

	if (!parts)
		return error_set(err, ENOMEM, "out of memory");
	cut->parts = parts;
	part = calloc(1, sizeof(*part));
	if (!part)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(part->node, sizeof(part->node), "%s", node);
	r = context_client(cut->ctx, node, &part->client, err);
	if (r < 0) {
		free(part);
		return r;
	}
	cut->parts[cut->n_parts++] = part;
	*ret = part;
	return 0;
}

static int cut_part_of(struct cut *cut, const char *node, struct cut_part **ret,
		       struct error *err)
{
	for (size_t i = 0; i < cut->n_parts; i++) {
		if (strcmp(cut->parts[i]->node, node) == 0) {
			*ret = cut->parts[i];
			return 0;
		}
	}
	return part_new(cut, node, ret, err);
}

int cut_add(struct cut *cut, const char *node,
	    const struct node_snapshot_request *request, void *owner,
	    struct error *err)
{
	struct cut_part *part = NULL;
	int r = cut_part_of(cut, node, &part, err);

	if (r < 0)
		return r;
	if (part->n == NODE_CUT_MAX)
		return error_set(err, E2BIG,
				 "more than %d extents on node '%s' can't be "
				 "cut at one instant",
				 NODE_CUT_MAX, node);
	part->owners[part->n] = owner;
	part->requests[part->n++] = *request;
	return 0;
}

int cut_add_freeze(struct cut *cut, const char *node, const char *device,
		   void *owner, struct error *err)
{
	struct cut_freeze *all = realloc(
		cut->freezes, (cut->n_freezes + 1) * sizeof(*cut->freezes));
	struct cut_freeze *one;

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	cut->freezes = all;
	one = &all[cut->n_freezes++];
	*one = (struct cut_freeze){
		.owner = owner, .node = node, .device = device};
	(void)uuid_make(one->id);
	one->r = context_client(cut->ctx, node, &one->client, &one->err);
	return 0;
}

int cut_each(struct cut *cut, void (*each)(void *cut, size_t part),
	     struct error *err)
{
	parallel_run(cut->n_parts, AT_ONCE, each, cut);
	for (size_t i = 0; i < cut->n_parts; i++) {
		if (cut->parts[i]->r < 0) {
			if (err)
				*err = cut->parts[i]->err;
			return cut->parts[i]->r;
		}
	}
	return 0;
}

/* ---- hold, cut, release ---- */

static void hold_part(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];
	const char *names[NODE_CUT_MAX];

	for (size_t i = 0; i < part->n; i++)
		names[i] = part->requests[i].extent;
	part->r = node_client_hold_writes(part->client, cut->id, names, part->n,
					  NULL, NODE_HOLD_MS_MAX, &part->err);
}

static int check_made(const struct cut_part *part, struct error *err)
{
	for (size_t i = 0; i < part->n; i++) {
		const struct node_extent *made = &part->made[i];

		if (!made->snapshot || strlen(made->id) != UUID_TEXT_SIZE - 1 ||
		    strcmp(made->name, part->requests[i].name) != 0)
			return error_set(err, EPROTO,
					 "node '%s': made another snapshot "
					 "than was asked for",
					 part->node);
	}
	return 0;
}

static void cut_part(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];

	part->asked = true;
	part->r = node_client_create_snapshots(
		part->client, cut->id, cut->n_parts > 1 ? cut->id : NULL,
		part->requests, part->n, &part->made, &part->err);
	if (part->r == 0)
		part->r = check_made(part, &part->err);
}

static void release_part(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];
	bool held = false;

	part->r = node_client_release_writes(part->client, cut->id, &held,
					     &part->err);
	if (part->r == 0 && !held)
		part->r = error_set(&part->err, ESTALE,
				    "node '%s' could not hold the writes for "
				    "as long as the others took",
				    part->node);
}

/*
 * Run the cut. A node refuses a late request, after it let go. So only a node
 * that does not answer to the release may yet cut.
 */
static int run_held(struct cut *cut, struct error *err)
{
	struct error why = {0};
	int e, r;

	if (cut->n_parts == 1)
		return cut_each(cut, cut_part, err);
	r = cut_each(cut, hold_part, err);
	if (r == 0)
		r = cut_each(cut, cut_part, err);
	e = cut_each(cut, release_part, &why);
	if (r < 0 || e == 0)
		return r;
	if (err)
		*err = why;
	return e;
}

static void freeze_one(void *cut_, size_t index)
{
	struct cut_freeze *one = &((struct cut *)cut_)->freezes[index];

	if (one->client)
		one->r = node_client_hold_writes(one->client, one->id, NULL, 0,
						 one->device, FREEZE_MS,
						 &one->err);
	/* From now on it has the time of the other holds. */
	if (one->r == 0)
		one->r = node_client_hold_writes(one->client, one->id, NULL, 0,
						 one->device, NODE_HOLD_MS_MAX,
						 &one->err);
}

/* Also one whose call failed: the node may be at it yet. */
static void thaw_one(void *cut_, size_t index)
{
	struct cut_freeze *one = &((struct cut *)cut_)->freezes[index];
	struct error err = {0};
	bool held = false;
	int r = 0;

	if (one->client)
		r = node_client_release_writes(one->client, one->id, &held,
					       &err);
	if (one->r < 0 || (r == 0 && held))
		return;
	one->r = error_set(&one->err, ESTALE, "%s",
			   r < 0 ? error_text(&err)
				 : "it was let go before the cut was done");
}

int cut_run(struct cut *cut, struct error *err)
{
	int r;

	parallel_run(cut->n_freezes, AT_ONCE, freeze_one, cut);
	r = run_held(cut, err);
	parallel_run(cut->n_freezes, AT_ONCE, thaw_one, cut);
	return r;
}
