/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_attach(): first the claim in the record (a new epoch, this node),
 * then every split, then the union.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/mount/attach.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/local_fs.h"
#include "volume/mount/local_union.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_check.h"
#include "volume/mount/union_process.h"
#include "volume/op/flow.h"
#include "volume/op/split.h"

/* ---- the work ---- */

/* The branches of the union, in the order of the splits. Returned owned. */
static int union_branches(const struct attach *at, struct union_branch **ret,
			  struct error *err)
{
	const struct volume_record *record = at->op.record;
	struct union_branch *branches = calloc(at->n_splits + 1,
					       sizeof(*branches));

	if (!branches)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < at->n_splits; i++)
		local_union_branch(at->op.ctx, record, &record->splits[i],
				   &branches[i]);
	*ret = branches;
	return 0;
}

static int start_union(struct attach *at, struct error *err)
{
	struct union_branch *branches = NULL;
	char log[PATH_MAX], dir[PATH_MAX], control[PATH_MAX];
	struct union_request request = {
		.bin_dir = at->op.ctx->bin_dir,
		.launcher = at->op.ctx->launcher,
		.name = at->op.name,
		.policy = at->op.record->spec.policy,
		.n_branches = at->n_splits,
		.mount_point = at->mount_point,
		.log_path = log,
		.control = control,
		.read_only = at->read_only,
		.options = at->options.view,
	};
	int r = operation_step(&at->op, err, "union",
			       "starting the union at %s", at->mount_point);

	if (r == 0)
		r = union_branches(at, &branches, err);
	if (r == 0)
		r = local_mount_point_save(at->op.ctx, at->op.name,
					   at->mount_point, err);
	if (r == 0) {
		local_volume_dir(at->op.ctx, at->op.name, dir);
		(void)snprintf(log, sizeof(log), "%.4000s/union.log", dir);
		local_union_control(at->op.ctx, at->op.name, control);
		request.branches = branches;
		r = union_start(&request, err);
	}
	free(branches);
	return r;
}

/* A union that is dead, or was just being started when we were killed. */
static int settle_union(struct attach *at, bool *ret_answers, struct error *err)
{
	int r;

	*ret_answers = union_answers(at->mount_point);
	if (*ret_answers)
		return 0;
	r = union_wait_end(union_find(at->mount_point), at->mount_point, 0,
			   true, err);
	return r < 0 ? r : mounts_remove(at->mount_point, true, err);
}

static int attach_split(struct operation *op, struct volume_split *split,
			const void *at_, struct error *err)
{
	const struct attach *at = at_;
	const struct split_attach how = {
		.epoch = at->epoch,
		.transport = at->request->transport
				     ? at->request->transport
				     : op->record->spec.transport,
		.options = &at->options,
		.read_only = at->read_only,
		.joins = at->joins,
		.bare = !at->tree,
		.n_splits = at->device ? at->n_splits : 0,
	};
	/* The first split of a device stands for all. */
	const size_t n = at->device ? 1 : at->n_splits;

	return split->index < n ? split_attach(op, split, &how, err) : 0;
}

static int attach_splits(struct operation *op, struct error *err)
{
	struct attach *at = container_of(op, struct attach, op);
	const struct split_work work = {
		.each = attach_split, .context = at, .stop_at_first = true};
	int r;

	op->total = op->done +
		    (unsigned)at->n_splits * (SPLIT_ATTACH_STEPS - 1) + 2;
	r = local_options_save(at->op.ctx, at->op.name, at->option_text, err);

	return r < 0 ? r : split_foreach(&at->op, &work, NULL, err);
}

/* Branches that came while it was mounted. */
static int follow_union(struct attach *at, struct error *err)
{
	struct error why = {0};
	int r = at->read_only
			? 0
			: local_union_follow(&at->op, at->mount_point, &why);

	/*
	 * A union that cannot follow is mounted all the same;
	 * volume_status_get() tells.
	 */
	if (r == 0 || r == -EOPNOTSUPP)
		return 0;
	if (err)
		*err = why;
	return r;
}

static int attach_tree(struct operation *op, struct error *err)
{
	struct attach *at = container_of(op, struct attach, op);
	bool answers = false;
	int r;

	if (!at->tree)
		return 0;
	if (at->device)
		return local_fs_show(op, at->mount_point, err);
	r = settle_union(at, &answers, err);
	if (r < 0)
		return r;
	return answers ? follow_union(at, err) : start_union(at, err);
}

static int attach_finish(struct operation *op, struct error *err)
{
	const struct attach *at = container_of(op, struct attach, op);
	struct volume_attachment *a = volume_record_attachment(op->record,
							       op->ctx->node);
	int r = operation_step(op, err, "record", "writing the record");

	if (r < 0)
		return r;
	a->state = ATTACHMENT_ATTACHED;
	if (at->n_splits == volume_record_made(op->record)) {
		volume_record_granted(op->record);
		split_check_sound(op->record);
	}
	a->since_s = clock_wall_s();
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s is %s%s", op->name,
				 at->tree ? "mounted at " : "a device here",
				 at->mount_point);
	return r;
}

/* Leave nothing of a first attach that failed. */
static int attach_undo(struct operation *op, int failed, struct error *err)
{
	struct volume_attachment *a = volume_record_attachment(op->record,
							       op->ctx->node);
	struct name_list silent = {0};
	int r;

	(void)failed;
	if (!container_of(op, struct attach, op)->fresh)
		return 0;
	r = local_remove(op, true, err);
	if (r < 0)
		return r;
	splits_withdraw(op, a, &silent);
	name_list_done(&silent);
	operation_unattach(op, a);
	return operation_save(op, err);
}

/*
 * Read the mount options. Without any in the request, the kept options of an
 * attachment that is here hold.
 */
static int read_options(struct attach *at, struct error *err)
{
	const struct volume_attachment *a = volume_record_attachment(
		at->op.record, at->op.ctx->node);

	if (at->tree && a && a->state != ATTACHMENT_PUBLISHED)
		local_options_load(at->op.ctx, at->op.name, at->kept_options);
	at->option_text = at->request->mount_options
				  ? at->request->mount_options
				  : at->kept_options;
	if (!at->tree && at->option_text[0])
		return error_set(err, EINVAL,
				 "volume '%s' is not mounted but a block "
				 "device: it takes no mount options",
				 at->op.name);
	return mount_options_parse(at->option_text, at->op.record->spec.fs_type,
				   &at->options, err);
}

/* A tree is mounted somewhere, a device is not. */
static int read_mount_point(struct attach *at, struct error *err)
{
	const char *path = at->request->mount_point;
	int r = 0;

	at->device = volume_spec_is_device(&at->op.record->spec);
	at->tree = path != NULL;
	if (path && !volume_spec_is_tree(&at->op.record->spec))
		return error_set(err, EINVAL,
				 "volume '%s' is a block device and has no "
				 "mount point",
				 at->op.name);
	if (!path && !at->device)
		return error_set(err, EINVAL,
				 "volume '%s' is a tree: say where to mount it",
				 at->op.name);
	if (path)
		r = mounts_canonical(path, at->mount_point, err);
	return r < 0 ? error_prefix(err, r, "mount point: ") : 0;
}

/* Only the rest of a union is of use. */
static int attach_check_lost(const struct attach *at, struct error *err)
{
	const size_t lost = volume_record_lost(at->op.record);

	if (lost == 0 || (at->options.degraded && !at->device &&
			  lost < volume_record_made(at->op.record)))
		return 0;
	return operation_refuse_lost(&at->op, err);
}

static int attach_check(struct operation *op, struct error *err)
{
	struct attach *at = container_of(op, struct attach, op);
	int r = operation_check_usable(op, err);

	if (r == 0)
		r = read_mount_point(at, err);
	if (r == 0)
		r = read_options(at, err);
	return r < 0 ? r : attach_check_lost(at, err);
}

static const struct flow_phase attach_phases[] = {
	{attach_check, FLOW_LEAVE}, {attach_reserve, FLOW_LEAVE},
	{attach_splits, FLOW_UNDO}, {attach_tree, FLOW_UNDO},
	{attach_finish, FLOW_UNDO}, {NULL, FLOW_LEAVE},
};
static const struct flow attach_flow = {.phases = attach_phases,
					.undo = attach_undo};

int volume_attach(struct volume_context *ctx,
		  const struct volume_attach_request *request,
		  struct error *err)
{
	struct attach at = {.request = request};
	int r = operation_begin(&at.op, ctx, request->name, "attaching volume",
				err);

	if (r < 0)
		return r;
	r = flow_run(&attach_flow, &at.op, err);
	operation_end(&at.op);
	if (r < 0)
		(void)error_prefix(err, r,
				   "attach volume '%s': ", request->name);
	return r;
}

int volume_device(struct volume_context *ctx, const char *name, char *ret,
		  struct error *err)
{
	const struct volume_attachment *a;
	struct volume_record *record;
	struct initiator_device device;
	char dir[PATH_MAX];
	int r = volume_get(ctx, name, &record, err);

	if (r < 0)
		return r;
	context_initiator_dir(ctx, dir);
	a = volume_record_attachment(record, ctx->node);
	if (!volume_spec_is_device(&record->spec))
		r = error_set(err, EINVAL,
			      "volume '%s' is a tree, no block device", name);
	else if (!a || a->state == ATTACHMENT_PUBLISHED ||
		 record->n_splits == 0 ||
		 initiator_get(dir, record->splits[0].extent, &device, NULL) <
			 0)
		r = error_set(err, ENOENT, "volume '%s' is not attached here",
			      name);
	else
		memcpy(ret, device.device, sizeof(device.device));
	volume_record_free(record);
	return r;
}
