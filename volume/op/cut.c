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

/* The first problem of a part. */
static int first_problem(const struct cut *cut, struct error *err)
{
	for (size_t i = 0; i < cut->n_parts; i++) {
		if (cut->parts[i]->r < 0) {
			if (err)
				*err = cut->parts[i]->err;
			return cut->parts[i]->r;
		}
	}
	return 0;
}

int cut_each(struct cut *cut, void (*each)(void *cut, size_t part),
	     struct error *err)
{
	parallel_run(cut->n_parts, AT_ONCE, each, cut);
	return first_problem(cut, err);
}

/* ---- hold, cut, release ---- */

static int part_hold(const struct cut *cut, struct cut_part *part, bool prepare)
{
	const char *names[NODE_CUT_MAX];

	for (size_t i = 0; i < part->n; i++)
		names[i] = part->requests[i].extent;
	return node_client_hold_writes(part->client, cut->id, names, part->n,
				       NULL, NODE_HOLD_MS_MAX, prepare,
				       &part->err);
}

static void freeze_hold(struct cut_freeze *one, unsigned ms, bool prepare)
{
	if (one->r == 0)
		one->r = node_client_hold_writes(one->client, one->id, NULL, 0,
						 one->device, ms, prepare,
						 &one->err);
}

/* Devices to be frozen come behind the parts. */
static struct cut_freeze *freeze_at(const struct cut *cut, size_t index)
{
	return index < cut->n_parts ? NULL
				    : &cut->freezes[index - cut->n_parts];
}

static void prepare_one(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_freeze *freeze = freeze_at(cut, index);

	if (freeze)
		freeze_hold(freeze, FREEZE_MS, true);
	else
		cut->parts[index]->r = part_hold(cut, cut->parts[index], true);
}

static void freeze_one(void *cut_, size_t index)
{
	freeze_hold(&((struct cut *)cut_)->freezes[index], FREEZE_MS, false);
}

/* From now on a frozen device has the time of the other holds. */
static void hold_one(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_freeze *freeze = freeze_at(cut, index);

	if (freeze)
		freeze_hold(freeze, NODE_HOLD_MS_MAX, false);
	else
		cut->parts[index]->r = part_hold(cut, cut->parts[index], false);
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

/* One node alone holds its extents itself. */
static bool cut_is_held(const struct cut *cut)
{
	return cut->n_parts + cut->n_freezes > 1;
}

static void cut_part(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];

	part->asked = true;
	part->r = node_client_create_snapshots(
		part->client, cut->id, cut_is_held(cut) ? cut->id : NULL,
		part->requests, part->n, &part->made, &part->err);
	if (part->r == 0)
		part->r = check_made(part, &part->err);
}

static void part_release(const struct cut *cut, struct cut_part *part)
{
	bool held = false;

	part->r = node_client_release_writes(part->client, cut->id, &held,
					     &part->err);
	if (part->r == 0 && !held)
		part->r = error_set(&part->err, ESTALE,
				    "node '%s' could not hold the writes for "
				    "as long as the others took",
				    part->node);
}

/* Also one whose call failed: the node may be at it yet. */
static void freeze_release(struct cut_freeze *one)
{
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

static void release_one(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_freeze *freeze = freeze_at(cut, index);

	if (freeze)
		freeze_release(freeze);
	else
		part_release(cut, cut->parts[index]);
}

/* Do it for all parts and devices at the same time. */
static int each_of_all(struct cut *cut, void (*each)(void *cut, size_t index),
		       struct error *err)
{
	parallel_run(cut->n_parts + cut->n_freezes, AT_ONCE, each, cut);
	return first_problem(cut, err);
}

/*
 * A node refuses a late request, after it let go. So only a node that does not
 * answer to the release may yet cut.
 */
int cut_run(struct cut *cut, struct error *err)
{
	struct error why = {0};
	int e, r;

	if (!cut_is_held(cut))
		return cut_each(cut, cut_part, err);
	r = each_of_all(cut, prepare_one, err);
	if (r == 0) {
		parallel_run(cut->n_freezes, AT_ONCE, freeze_one, cut);
		r = each_of_all(cut, hold_one, err);
	}
	if (r == 0)
		r = cut_each(cut, cut_part, err);
	e = each_of_all(cut, release_one, &why);
	if (r < 0 || e == 0)
		return r;
	if (err)
		*err = why;
	return e;
}
