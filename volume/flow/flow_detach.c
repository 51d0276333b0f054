/* SPDX-License-Identifier: Apache-2.0 */
/* volume_detach() and volume_find_mounted(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parallel.h"
#include "volume/mount/local.h"
#include "volume/mount/local_fs.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"
#include "volume/op/context.h"
#include "volume/op/split.h"
#include "volume/op/volume_walk.h"

/* Withdraw the exports; which nodes did not answer goes into the record. */
static void detach_withdraw(struct operation *op,
			    const struct volume_attachment *a,
			    struct name_list *silent)
{
	char text[RECORD_TEXT_SIZE];

	splits_withdraw(op, a, silent);
	if (silent->count > 0)
		(void)snprintf(text, sizeof(text),
			       "%zu nodes (first '%s') did not take back their "
			       "exports; the next attach fences them",
			       silent->count, silent->items[0]);
	/* No room for it in the record: it is advice only. */
	(void)volume_record_condition(op->record, "ExportsWithdrawn",
				      silent->count == 0,
				      silent->count ? "NodeSilent" : "Done",
				      silent->count ? text : "");
}

struct detach {
	struct operation *op;
	bool force;
	struct name_list silent; /* nodes */
	struct error *err;       /* of @r */
	int r;                   /* of local_remove() */
};

static void detach_part(void *detach_, size_t index)
{
	struct detach *d = detach_;

	if (index == 0)
		d->r = local_remove(d->op, d->force, d->err);
	else
		splits_find_silent(d->op, &d->silent);
}

/*
 * Take down the devices and mounts here. With force a node is expected to be
 * silent: while writes to it wait, another thread waits for its answer.
 */
static int detach_local(struct detach *d)
{
	parallel_run(d->force ? 2 : 1, 2, detach_part, d);
	return d->r;
}

static int detach_attached(struct operation *op, struct volume_attachment *a,
			   bool force, struct error *err)
{
	struct detach detach = {.op = op, .force = force, .err = err};
	int r;

	op->total = 2 + 3 * (unsigned)op->record->n_splits;
	a->state = ATTACHMENT_DETACHING;
	r = operation_save(op, err);
	if (r == 0)
		r = detach_local(&detach);
	if (r == -EBUSY &&
	    (a->mount_point[0] == '\0' ||
	     local_tree_answers(op->ctx, op->record, a->mount_point))) {
		a->state = ATTACHMENT_ATTACHED; /* nothing was taken down */
		(void)operation_save(op, NULL); /* else: repaired by attach */
	}
	if (r == 0) {
		op->undoing = true; /* it is quick from here: see it through */
		detach_withdraw(op, a, &detach.silent);
		operation_unattach(op, a);
		r = operation_save(op, err);
	}
	name_list_done(&detach.silent);
	if (r == 0)
		operation_finish(op, "volume %s is not attached here any more",
				 op->name);
	return r;
}

int volume_detach(struct volume_context *ctx,
		  const struct volume_detach_request *request,
		  struct error *err)
{
	struct volume_attachment *a = NULL;
	struct operation op;
	int r = operation_begin(&op, ctx, request->name, "detaching volume",
				err);

	if (r < 0)
		return r;
	if (op.record)
		a = volume_record_attachment(op.record, ctx->node);
	if (a && request->asks_elsewhere && !request->force)
		r = local_check_elsewhere(&op, a->mount_point, err);
	if (r < 0) {
		operation_end(&op);
		return error_prefix(err, r,
				    "detach volume '%s': ", request->name);
	}
	if (a && a->state != ATTACHMENT_PUBLISHED) {
		r = detach_attached(&op, a, request->force, err);
	} else {
		/* Cut off, or without a record: the remains here go. */
		r = local_exists(ctx, request->name, err);
		if (r > 0)
			r = local_remove(&op, true, err);
		else if (r == 0 && request->known && !op.record)
			r = error_set(err, ENOENT, "there is no such volume");
	}
	operation_end(&op);
	if (r < 0)
		(void)error_prefix(err, r,
				   "detach volume '%s': ", request->name);
	return r;
}

struct finding {
	const char *node, *path;
	char name[RECORD_NAME_SIZE]; /* "": not found */
};

#define FOUND 1 /* ends the walk */

static int mounted_at(void *finding_, const struct volume_record *record,
		      struct error *err)
{
	struct finding *finding = finding_;
	const struct volume_attachment *a = volume_record_attachment(
		record, finding->node);

	(void)err;
	if (!a || strcmp(a->mount_point, finding->path) != 0)
		return 0;
	memcpy(finding->name, record->name, sizeof(finding->name));
	return FOUND;
}

int volume_find_mounted(struct volume_context *ctx, const char *path,
			char *ret_name, struct error *err)
{
	char canonical[PATH_MAX];
	struct finding finding = {.node = ctx->node, .path = canonical};
	int r = mounts_canonical(path, canonical, err);

	if (r == 0)
		r = volume_walk(ctx, NULL, mounted_at, &finding, NULL, err);
	if (r < 0)
		return r;
	if (r != FOUND)
		return error_set(err, ENOENT,
				 "no volume is mounted at '%s' on this node",
				 canonical);
	memcpy(ret_name, finding.name, sizeof(finding.name));
	return 0;
}
