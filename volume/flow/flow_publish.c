/* SPDX-License-Identifier: Apache-2.0 */
/* volume_publish() and volume_unpublish(): who may attach a volume. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/op/context.h"
#include "volume/op/split.h"
#include "volume/op/volume_walk.h"

/* ---- publish ---- */

static int check_request(const struct volume_publish_request *request,
			 struct error *err)
{
	if (request->shared && !request->read_only)
		return error_set(err, EINVAL,
				 "only readers can share a volume");
	if (request->note && strlen(request->note) >= RECORD_TEXT_SIZE)
		return error_set(err, EINVAL, "the note has more than %d bytes",
				 RECORD_TEXT_SIZE - 1);
	return name_check("node", request->node, err);
}

static int check_node(struct operation *op, const char *node,
		      unsigned *ret_limit, bool *ret_no_node, struct error *err)
{
	struct node_record record = {0};
	int r = context_node_load(op->ctx, node, &record, err);

	*ret_limit = record.max_volumes;
	node_record_done(&record);
	if (ret_no_node)
		*ret_no_node = r == -ENOENT;
	return r;
}

/* Another node has it, unless both only read. */
static int check_others(const struct operation *op,
			const struct volume_publish_request *request,
			struct error *err)
{
	for (size_t i = 0; i < op->record->n_attachments; i++) {
		const struct volume_attachment *a = &op->record->attachments[i];

		if (strcmp(a->node, request->node) == 0 ||
		    (a->shared && request->shared))
			continue;
		return error_set(
			err, EBUSY, "volume '%s' is %s node '%s'%s%s", op->name,
			a->published ? "published to" : "attached on", a->node,
			a->mount_point[0] ? " at " : "", a->mount_point);
	}
	return 0;
}

struct published {
	const char *node;
	unsigned count;
};

static int published_add(void *published_, const struct volume_record *record,
			 struct error *err)
{
	struct published *published = published_;
	const struct volume_attachment *a = volume_record_attachment(
		record, published->node);

	(void)err;
	published->count += a && a->published;
	return 0;
}

/* Check that there is room for one more volume on the node. */
static int check_limit(const struct operation *op, const char *node,
		       unsigned limit, struct error *err)
{
	struct published published = {.node = node};
	int r = limit ? volume_walk(op->ctx, NULL, published_add, &published,
				    NULL, err)
		      : 0;

	if (r < 0 || published.count < limit || !limit)
		return r;
	return error_set(err, EDQUOT,
			 "node '%s' has %u volumes, and takes at most %u", node,
			 published.count, limit);
}

/*
 * Check that a publication that is there already, by an earlier call or by
 * hand, is the one asked for.
 */
static int publish_check_same(const struct operation *op,
			      const struct volume_attachment *a,
			      const struct volume_publish_request *request,
			      struct error *err)
{
	const char *note = request->note ? request->note : "";

	if (a->read_only == request->read_only &&
	    (!a->published ||
	     (a->shared == request->shared && strcmp(a->note, note) == 0)))
		return 0;
	return error_set(err, EEXIST,
			 "volume '%s' is %s node '%s' already, in another way "
			 "(%s%s%s%s)",
			 op->name,
			 a->published ? "published to" : "attached on", a->node,
			 a->read_only ? "reading only" : "writing",
			 a->shared ? " beside others" : "",
			 a->note[0] ? ", " : "", a->note);
}

/* Into the record: one more on its node. @a NULL: it has nothing of it yet. */
static int publish_new(struct operation *op,
		       const struct volume_publish_request *request,
		       unsigned limit, struct volume_attachment *a,
		       struct error *err)
{
	int r = check_limit(op, request->node, limit, err);

	if (r == 0 && !a)
		r = operation_check_staying(op, err);
	if (r == 0)
		r = check_others(op, request, err);
	if (r == 0)
		r = volume_record_attach(op->record, request->node, &a, err);
	if (r < 0)
		return r;
	r = operation_step(op, err, "record", "publishing to node %s",
			   request->node);
	if (r < 0)
		return r;
	if (!a->epoch)
		a->state = ATTACHMENT_PUBLISHED;
	a->published = true;
	a->read_only = request->read_only;
	a->shared = request->shared;
	(void)snprintf(a->note, sizeof(a->note), "%s",
		       request->note ? request->note : "");
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s is published to node %s",
				 op->name, request->node);
	return r;
}

static int publish_run(struct operation *op,
		       const struct volume_publish_request *request,
		       bool *ret_no_node, struct error *err)
{
	struct volume_attachment *a;
	unsigned limit = 0;
	int r = operation_check_usable(op, err);

	if (r == 0 && volume_record_lost(op->record) > 0)
		r = operation_refuse_lost(op, err);
	if (r == 0)
		r = check_node(op, request->node, &limit, ret_no_node, err);
	if (r < 0)
		return r;
	a = volume_record_attachment(op->record, request->node);
	if (a)
		r = publish_check_same(op, a, request, err);
	if (r < 0 || (a && a->published))
		return r;
	(void)pthread_mutex_lock(&op->ctx->publish_lock);
	r = publish_new(op, request, limit, a, err);
	(void)pthread_mutex_unlock(&op->ctx->publish_lock);
	return r;
}

int volume_publish(struct volume_context *ctx,
		   const struct volume_publish_request *request,
		   bool *ret_no_node, struct error *err)
{
	struct operation op;
	int r = check_request(request, err);

	if (ret_no_node)
		*ret_no_node = false;
	if (r == 0)
		r = operation_begin_id(&op, ctx, request->name,
				       "publishing volume", err);
	if (r < 0)
		return r;
	op.total = 1;
	r = publish_run(&op, request, ret_no_node, err);
	operation_end(&op);
	if (r < 0)
		(void)error_prefix(err, r, "publish volume '%s': ", op.name);
	return r;
}

/* ---- unpublish ---- */

/* Check the node's own extents: a silent node holds nothing that matters. */
static int check_own_extents(struct operation *op, const char *node,
			     struct error *err)
{
	size_t made = volume_record_made(op->record);

	for (size_t i = 0; i < made; i++) {
		const struct volume_split *split = &op->record->splits[i];

		if (strcmp(split->node, node) == 0 && !split->lost &&
		    split_check_held(op, split, err) == -EBUSY)
			return -EBUSY;
	}
	return 0;
}

static void condition_set_silent(struct operation *op,
				 const struct name_list *silent)
{
	char text[RECORD_TEXT_SIZE];

	if (silent->count == 0)
		return;
	(void)snprintf(text, sizeof(text),
		       "%zu nodes (first '%s') did not take back their "
		       "exports; the next attach fences them",
		       silent->count, silent->items[0]);
	/* No room for it in the record: it is advice only. */
	(void)volume_record_condition(op->record, "ExportsWithdrawn", false,
				      "NodeSilent", text);
}

/* The node has it attached, and is not to be waited for. */
static int cut_off(struct operation *op, struct volume_attachment *a,
		   struct error *err)
{
	struct name_list silent = {0};
	int r = check_own_extents(op, a->node, err);

	if (r < 0)
		return r;
	op->total = op->done + (unsigned)op->record->n_splits + 1;
	if (splits_are_shared(op, a)) {
		splits_withdraw(op, a, &silent); /* the others read on */
	} else {
		/* First in the record: nobody gets that epoch again. */
		r = volume_record_raise(op->record, 0, err);
		if (r == 0)
			r = operation_save(op, err);
		if (r == 0)
			r = splits_fence(op, op->record->epoch, &silent, err);
	}
	if (r == 0)
		condition_set_silent(op, &silent);
	name_list_done(&silent);
	return r;
}

static int unpublish_one(struct operation *op, struct volume_attachment *a,
			 struct error *err)
{
	bool attached = a->state != ATTACHMENT_PUBLISHED;
	char node[RECORD_NAME_SIZE];
	int r = attached ? cut_off(op, a, err) : 0;

	memcpy(node, a->node, sizeof(node));
	if (r == 0)
		r = operation_step(op, err, "record", "writing the record");
	if (r == 0) {
		volume_record_unattach(op->record, node);
		r = operation_save(op, err);
	}
	if (r == 0 && attached) /* people should know; that is all */
		(void)store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name,
				 true, "Fenced", NULL,
				 "node %s was cut off: the volume was taken "
				 "back while it was attached there",
				 node);
	return r;
}

static int unpublish_run(struct operation *op, const char *node,
			 struct error *err)
{
	size_t i = 0;
	int r = 0;

	while (r == 0 && i < op->record->n_attachments) {
		struct volume_attachment *a = &op->record->attachments[i];

		if (a->published && (!node || strcmp(a->node, node) == 0))
			r = unpublish_one(op, a, err); /* it is gone */
		else
			i++;
	}
	if (r == 0)
		operation_finish(op, "volume %s is not published to %s",
				 op->name, node ? node : "any node");
	return r;
}

int volume_unpublish(struct volume_context *ctx, const char *name,
		     const char *node, struct error *err)
{
	struct operation op;
	int r = operation_begin_id(&op, ctx, name, "unpublishing volume", err);

	if (r < 0)
		return r;
	op.total = 1;
	if (op.record)
		r = unpublish_run(&op, node, err);
	operation_end(&op);
	if (r < 0)
		(void)error_prefix(err, r, "unpublish volume '%s': ", op.name);
	return r;
}
