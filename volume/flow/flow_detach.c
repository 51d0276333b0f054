/* SPDX-License-Identifier: Apache-2.0 */
/* volume_detach() and volume_find_mounted(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/mount/local.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"
#include "volume/op/context.h"
#include "volume/op/split.h"

/* Withdraw the exports; which nodes did not answer goes into the record. */
static void detach_withdraw(struct operation *op,
			    const struct volume_attachment *a)
{
	struct name_list silent;
	char text[RECORD_TEXT_SIZE];

	splits_withdraw(op, a, &silent);
	if (silent.count > 0)
		(void)snprintf(text, sizeof(text),
			       "%zu nodes (first '%s') did not take back their "
			       "exports; the next attach fences them",
			       silent.count, silent.items[0]);
	/* No room for it in the record: it is advice only. */
	(void)volume_record_condition(
		op->record, "ExportsWithdrawn", silent.count == 0,
		silent.count ? "NodeSilent" : "Done", silent.count ? text : "");
	name_list_done(&silent);
}

static int detach_attached(struct operation *op, struct volume_attachment *a,
			   bool force, struct error *err)
{
	int r;

	op->total = 2 + 3 * (unsigned)op->record->n_splits;
	a->state = ATTACHMENT_DETACHING;
	r = operation_save(op, err);
	if (r == 0)
		r = local_remove(op, force, err);
	if (r == -EBUSY &&
	    (a->mount_point[0] == '\0' || union_answers(a->mount_point))) {
		a->state = ATTACHMENT_ATTACHED; /* nothing was taken down */
		(void)operation_save(op, NULL); /* else: repaired by attach */
	}
	if (r < 0)
		return r;
	op->undoing = true; /* from here on it is quick: see it through */
	detach_withdraw(op, a);
	operation_unattach(op, a);
	r = operation_save(op, err);
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
		(void)error_prefix(err, "detach volume '%s': ", request->name);
	return r;
}

int volume_find_mounted(struct volume_context *ctx, const char *path,
			char *ret_name, struct error *err)
{
	struct volume_record **records = NULL;
	char canonical[PATH_MAX];
	size_t n = 0;
	int r = mounts_canonical(path, canonical, err);

	if (r == 0)
		r = volume_list(ctx, &records, &n, NULL, err);
	if (r < 0)
		return r;
	r = -ENOENT;
	for (size_t i = 0; i < n && r < 0; i++) {
		const struct volume_attachment *a = volume_record_attachment(
			records[i], ctx->node);

		if (!a || strcmp(a->mount_point, canonical) != 0)
			continue;
		memcpy(ret_name, records[i]->name, RECORD_NAME_SIZE);
		r = 0;
	}
	volume_records_free(records, n);
	if (r < 0)
		return error_set(err, ENOENT,
				 "no volume is mounted at '%s' on this node",
				 canonical);
	return 0;
}
