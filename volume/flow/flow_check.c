/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_check(): claim the volume as for an attachment, but record none.
 * Remains of a check that was killed go with the next attachment.
 */
#include "volume/mount/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/split_check.h"
#include "volume/op/context.h"
#include "volume/op/split.h"

struct checking {
	struct operation op;
	bool repair;
	struct volume_found *found; /* owned */
};

const char *branch_verdict_name(enum branch_verdict verdict)
{
	static const char *const names[] = {"sound",   "mended",  "unclean",
					    "damaged", "damaged", "unknown"};

	return names[verdict];
}

void volume_found_free(struct volume_found *found)
{
	if (!found)
		return;
	free(found->splits);
	free(found);
}

/* ---- may it be? ---- */

static int check_unattached(const struct operation *op, struct error *err)
{
	const struct volume_record *record = op->record;

	if (!record->spec.fs_type[0])
		return error_set(
			err, EOPNOTSUPP,
			"it is a block device: its user checks its content");
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state != ATTACHMENT_PUBLISHED)
			return error_set(err, EBUSY,
					 "it is attached on node '%s'%s%s; "
					 "unmount it there first",
					 a->node,
					 a->mount_point[0] ? " at " : "",
					 a->mount_point);
	}
	return 0;
}

/* As attach_reserve.c has it. Nobody else is let in from here on. */
static int check_claim(struct operation *op, struct error *err)
{
	uint64_t above = 0;
	int here = local_exists(op->ctx, op->name, err), r = 0;

	if (here > 0)
		r = splits_look(op, 0, NULL, err);
	if (here > 0 && r == 0)
		r = local_remove(op, true, err);
	if (here < 0 || r < 0)
		return here < 0 ? here : r;
	r = splits_look(op, SPLITS_HELD, &above, err);
	if (r == 0)
		r = volume_record_raise(op->record, above, err);
	return r < 0 ? r : operation_save(op, err);
}

/* ---- one split ---- */

static int check_attach(struct operation *op, struct volume_split *split,
			bool repair, struct initiator_device *ret,
			struct error *err)
{
	static const struct mount_options none;
	const struct volume_record *record = op->record;
	const struct split_attach how = {
		.epoch = record->epoch,
		.transport = record->spec.transport,
		.options = &none,
		.n_splits = volume_spec_is_device(&record->spec)
				    ? volume_record_attached(record, !repair)
				    : 0,
		.read_only = !repair,
		.device_only = true,
	};
	char dir[PATH_MAX];
	int r = split_attach(op, split, &how, err);

	context_initiator_dir(op->ctx, dir);
	return r < 0 ? r : initiator_get(dir, split->extent, ret, err);
}

/*
 * Check that the device has the file system of the record. A lost superblock is
 * found again by xfs_repair, and by e2fsck when a person runs it.
 */
static int check_verify(const struct operation *op,
			const struct volume_split *split, const char *device,
			bool *ret_found, struct error *err)
{
	const char *type = op->record->spec.fs_type;
	struct branch_probe probe;
	int r = branch_fs_probe(device, &probe, err);

	if (r < 0)
		return r;
	*ret_found = probe.found;
	if (probe.found && (strcmp(probe.type, type) != 0 ||
			    strcmp(probe.uuid, split->fs_uuid) != 0))
		return error_set(err, EUCLEAN,
				 "extent '%s' on node '%s' should hold %s %s "
				 "but holds %s %s; it was not touched",
				 split->extent, split->node, type,
				 split->fs_uuid, probe.type, probe.uuid);
	return 0;
}

static int check_judge(struct operation *op, const struct volume_split *split,
		       const char *device, bool repair,
		       struct branch_found *ret, struct error *err)
{
	char target[PATH_MAX];
	const struct branch_check check = {
		.device = device,
		.type = op->record->spec.fs_type,
		.target = target,
		.whole = true,
		.cancel_fd = op->ctx->cancel_fd,
	};
	bool xfs = strcmp(check.type, "xfs") == 0, known = false;
	int r = check_verify(op, split, device, &known, err);

	local_branch_dir(op->ctx, op->name,
			 local_branch_number(op->record, split), target);
	if (r < 0)
		return r;
	if (!known && !(xfs && repair)) {
		*ret = (struct branch_found){
			.verdict = BRANCH_DAMAGED,
			.what = "it has no superblock any more"};
		return 0;
	}
	return repair ? branch_check_repair(&check, ret, err)
		      : branch_check_look(&check, ret, err);
}

static int check_save_found(struct operation *op, struct volume_split *split,
			    struct split_found *found, bool repair,
			    struct error *err)
{
	const enum branch_verdict verdict = found->found.verdict;

	if (verdict == BRANCH_MENDED)
		split_check_tell(op, split, &found->found);
	if (verdict == BRANCH_DAMAGED || verdict == BRANCH_DAMAGED_LOG) {
		(void)split_check_refuse(op, split, &found->found, NULL);
		split_check_advice(op, split, verdict, found->advice,
				   sizeof(found->advice));
		return 0;
	}
	/* Nothing new is known of a file system that was not unmounted. */
	return verdict == BRANCH_UNCLEAN && !repair
		       ? 0
		       : split_suspect_set(op, split, false, NULL, err);
}

static int check_look_at(const struct checking *c, struct operation *op,
			 struct volume_split *split, struct split_found *found,
			 struct error *err)
{
	struct initiator_device device;
	int r = check_attach(op, split, c->repair, &device, err);

	if (r == 0)
		r = operation_step(op, err, "check",
				   "checking the file system of split %u of "
				   "%zu",
				   split->index + 1, op->record->n_splits);
	/* Killed in the midst of it, it is looked at before it is used. */
	if (r == 0 && c->repair)
		r = split_suspect_set(op, split, true, NULL, err);
	if (r == 0)
		r = check_judge(op, split, device.device, c->repair,
				&found->found, err);
	return r < 0 ? r : check_save_found(op, split, found, c->repair, err);
}

/*
 * Check one split. A split that can't be looked at keeps no other from its
 * check.
 */
static int check_split_fs(struct operation *op, struct volume_split *split,
			  const void *c_, struct error *err)
{
	const struct checking *c = *(struct checking *const *)c_;
	struct split_found *found = &c->found->splits[split->index];
	int r;

	if (split->index >= c->found->n_splits || split->state != SPLIT_READY)
		return 0;
	found->looked = true;
	r = check_look_at(c, op, split, found, err);
	if (r == 0 || r == -ECANCELED)
		return r;
	found->found.verdict = BRANCH_UNKNOWN;
	(void)snprintf(found->advice, sizeof(found->advice), "%s",
		       error_text(err));
	return 0;
}

/* ---- all ---- */

static void check_leave(struct operation *op)
{
	struct volume_attachment a = {.epoch = op->record->epoch};
	struct name_list silent = {0};

	(void)snprintf(a.node, sizeof(a.node), "%s", op->ctx->node);
	op->undoing = true;
	/* The next attach takes down what is left here. */
	(void)local_remove(op, true, NULL);
	splits_withdraw(op, &a, &silent);
	name_list_done(&silent);
}

static int sum_up(struct checking *c, struct error *err)
{
	struct volume_found *found = c->found;
	bool all = true;

	found->sound = true;
	for (size_t i = 0; i < found->n_splits; i++) {
		const struct split_found *s = &found->splits[i];

		all = all && s->looked;
		found->sound = found->sound &&
			       (!s->looked ||
				s->found.verdict <= BRANCH_MENDED);
	}
	if (all) /* none was left out, so each is at this epoch */
		volume_record_granted(c->op.record);
	if (found->sound)
		split_check_sound(c->op.record);
	return operation_save(&c->op, err);
}

static int check_run(struct checking *c, struct error *err)
{
	struct checking *const one = c;
	const struct split_work work = {.each = check_split_fs,
					.context = &one};
	struct operation *op = &c->op;
	int r = operation_check_ready(op, err);

	if (r == 0)
		r = check_unattached(op, err);
	if (r == 0)
		r = check_claim(op, err);
	if (r < 0)
		return r;
	c->found = calloc(1, sizeof(*c->found));
	if (c->found)
		c->found->splits = calloc(op->record->n_splits + 1,
					  sizeof(*c->found->splits));
	if (!c->found || !c->found->splits)
		return error_set(err, ENOMEM, "out of memory");
	c->found->n_splits = volume_spec_file_systems(
		&op->record->spec, volume_record_made(op->record));
	for (size_t i = 0; i < c->found->n_splits; i++)
		c->found->splits[i].split = op->record->splits[i];
	op->total = 4 * (unsigned)c->found->n_splits;
	r = split_foreach(op, &work, NULL, err);
	check_leave(op);
	return r < 0 ? r : sum_up(c, err);
}

int volume_check(struct volume_context *ctx, const char *name, bool repair,
		 struct volume_found **ret, struct error *err)
{
	struct checking c = {.repair = repair};
	int r = operation_begin(&c.op, ctx, name, "checking volume", err);

	if (r < 0)
		return r;
	r = check_run(&c, err);
	operation_end(&c.op);
	if (r == 0)
		*ret = take_ptr(c.found);
	volume_found_free(c.found);
	return r < 0 ? error_prefix(err, r, "check volume '%s': ", name) : 0;
}
