/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_attach(): first the claim in the record (a new epoch, this node),
 * then every split, then the union.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/context.h"
#include "volume/local.h"
#include "volume/local_union.h"
#include "volume/mounts.h"
#include "volume/split.h"

struct attach {
	struct operation op;
	const struct volume_attach_request *request;
	char mount_point[PATH_MAX];
	uint64_t epoch;
	bool fresh; /* not attached here before this call */
};

/* ---- may it be attached here? ---- */

static int check_mount_point(const char *path, struct error *err)
{
	struct mount_info info;
	struct dirent *entry;
	bool empty = true;
	DIR *dir;
	int r = mounts_find(path, &info, err);

	if (r == 0)
		return error_set(err, EBUSY,
				 "'%s' is a mount point already, of %s", path,
				 info.source);
	if (r != -ENOENT)
		return r;
	dir = opendir(path);
	if (!dir)
		return error_set(err, errno, "mount point '%s': %s", path,
				 strerror(errno));
	while (empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0;
	(void)closedir(dir);
	if (!empty)
		return error_set(err, EBUSY,
				 "the mount point '%s' is not empty", path);
	return 0;
}

/* An attachment that is here already has to be the one asked for. */
static int check_here(struct attach *at, const struct volume_attachment *a,
		      struct error *err)
{
	if (strcmp(a->mount_point, at->mount_point) != 0)
		return error_set(err, EBUSY,
				 "volume '%s' is attached here at %s; unmount "
				 "it there first",
				 at->op.name, a->mount_point);
	if (a->read_only != at->request->read_only)
		return error_set(err, EBUSY,
				 "volume '%s' is attached here for %s; unmount "
				 "it first",
				 at->op.name,
				 a->read_only ? "reading only" : "writing");
	return 0;
}

/*
 * A device on the extent's own node cannot be taken away from there by the
 * node's server. Find that out before anybody is fenced.
 */
static int check_local_holders(struct attach *at, struct error *err)
{
	const struct volume_record *record = at->op.record;
	size_t made = volume_record_made(record);

	for (size_t i = 0; i < made; i++) {
		const struct volume_split *split = &record->splits[i];
		struct node_extent extent = {0};
		struct node_client *client = NULL;
		int r;

		if (strcmp(split->node, at->op.ctx->node) == 0)
			continue;
		r = context_client(at->op.ctx, split->node, &client, err);
		if (r == 0)
			r = node_client_get_extent(client, split->extent,
						   &extent, err);
		if (r == 0 && extent.local_device[0])
			r = error_set(err, EBUSY,
				      "node '%s' is up and itself holds split "
				      "%zu of volume '%s' by %s: unmount the "
				      "volume there",
				      split->node, i, at->op.name,
				      extent.local_device);
		node_extent_done(&extent);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_elsewhere(struct attach *at, struct error *err)
{
	const struct volume_record *record = at->op.record;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (strcmp(a->node, at->op.ctx->node) == 0)
			continue;
		if (!at->request->force)
			return error_set(
				err, EBUSY,
				"volume '%s' is attached on node '%s' "
				"at %s; unmount it there, or, if that "
				"node is lost, repeat with --force: it "
				"is then cut off",
				at->op.name, a->node, a->mount_point);
		return check_local_holders(at, err);
	}
	return 0;
}

/* ---- the claim ---- */

static int claim(struct attach *at, struct error *err)
{
	struct volume_record *record = at->op.record;
	struct volume_attachment *a = NULL;
	int r;

	/* Those that are left are elsewhere, and forced away. */
	record->n_attachments = 0;
	r = volume_record_attach(record, at->op.ctx->node, &a, err);
	if (r < 0)
		return r;
	a->epoch = ++record->epoch;
	a->state = ATTACHMENT_ATTACHING;
	a->read_only = at->request->read_only;
	(void)strcpy(a->mount_point, at->mount_point);
	at->epoch = a->epoch;
	return operation_save(&at->op, err);
}

static int claim_fresh(struct attach *at, struct error *err)
{
	int r = check_elsewhere(at, err);

	if (r == 0)
		r = check_mount_point(at->mount_point, err);
	if (r < 0)
		return r;
	/* What an attachment that was cut off has left here. */
	r = local_exists(at->op.ctx, at->op.name, err);
	if (r > 0)
		r = local_remove(&at->op, true, err);
	return r < 0 ? r : claim(at, err);
}

/* ---- what is here already ---- */

static bool branch_healthy(struct attach *at, unsigned index)
{
	char dir[PATH_MAX], branch[PATH_MAX];
	const struct volume_split *split = &at->op.record->splits[index];
	struct initiator_device device;
	struct mount_info info;
	struct stat st;

	context_initiator_dir(at->op.ctx, dir);
	local_branch_dir(at->op.ctx, at->op.name, index, branch);
	/* A new one, not formatted yet, is not in the union: it can wait. */
	return split->state != SPLIT_READY ||
	       (initiator_get(dir, split->extent, &device, NULL) == 0 &&
		device.healthy && mounts_find(branch, &info, NULL) == 0 &&
		!info.failed && stat(device.device, &st) == 0 &&
		st.st_rdev == info.device);
}

/*
 * Prepare an attachment that is here for being completed. Branches that work
 * are kept; when a mounted one does not, everything is taken down, since the
 * union has files of it open. @ret_whole: nothing is left to do.
 */
static int repair(struct attach *at, struct volume_attachment *a,
		  bool *ret_whole, struct error *err)
{
	size_t n = volume_record_attached(at->op.record, a->read_only);
	bool healthy = true;
	int r;

	for (unsigned i = 0; i < n; i++)
		healthy = healthy && branch_healthy(at, i);
	*ret_whole = healthy && a->state == ATTACHMENT_ATTACHED &&
		     (a->read_only ||
		      !volume_record_fs_behind(at->op.record)) &&
		     union_answers(at->mount_point) &&
		     local_union_has(at->mount_point, n);
	if (*ret_whole)
		return 0;
	if (!healthy) {
		r = local_remove(&at->op, true, err);
		if (r < 0)
			return r;
	}
	at->epoch = a->epoch;
	a->state = ATTACHMENT_ATTACHING;
	return operation_save(&at->op, err);
}

/* ---- the work ---- */

/* The branches of the union, in the order of the splits. Returned owned. */
static int union_branches(const struct attach *at, struct union_branch **ret,
			  struct error *err)
{
	const struct volume_record *record = at->op.record;
	struct union_branch *branches = calloc(record->n_splits + 1,
					       sizeof(*branches));

	if (!branches)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < record->n_splits; i++)
		local_union_branch(at->op.ctx, at->op.name, &record->splits[i],
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
		.name = at->op.name,
		.policy = at->op.record->spec.policy,
		.n_branches = volume_record_attached(at->op.record,
						     at->request->read_only),
		.mount_point = at->mount_point,
		.log_path = log,
		.control = control,
		.read_only = at->request->read_only,
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
	r = union_wait_end(union_find(at->mount_point), 0, true, err);
	return r < 0 ? r : mounts_remove(at->mount_point, true, err);
}

/* Branches that came while it was mounted. */
static int follow_union(struct attach *at, struct error *err)
{
	struct error why = {0};
	int r = at->request->read_only
			? 0
			: local_union_follow(&at->op, at->mount_point, &why);

	/* It is mounted all the same; volume_status_get() tells. */
	if (r == 0 || r == -EOPNOTSUPP)
		return 0;
	if (err)
		*err = why;
	return r;
}

static int attach_parts(struct attach *at, struct error *err)
{
	struct volume_record *record = at->op.record;
	const struct split_attach how = {
		.epoch = at->epoch,
		.transport = at->request->transport ? at->request->transport
						    : record->spec.transport,
		.read_only = at->request->read_only,
	};
	size_t n = volume_record_attached(record, how.read_only);
	bool answers = false;
	int r = 0;

	at->op.total = at->op.done + (unsigned)n * (SPLIT_ATTACH_STEPS - 1) + 2;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = split_attach(&at->op, &record->splits[i], &how, err);
	if (r == 0)
		r = settle_union(at, &answers, err);
	if (r == 0)
		r = answers ? follow_union(at, err) : start_union(at, err);
	return r;
}

static int mark_attached(struct attach *at, struct error *err)
{
	struct volume_attachment *a = volume_record_attachment(
		at->op.record, at->op.ctx->node);
	int r = operation_step(&at->op, err, "record", "writing the record");

	if (r < 0)
		return r;
	a->state = ATTACHMENT_ATTACHED;
	a->since_s = clock_wall_s();
	r = operation_save(&at->op, err);
	if (r == 0)
		operation_finish(&at->op, "volume %s is mounted at %s",
				 at->op.name, at->mount_point);
	return r;
}

/* Leave nothing of a first attach that failed. @err has the cause. */
static void undo(struct attach *at, struct error *err)
{
	struct name_list silent;
	struct error why = {0};
	int r;

	at->op.undoing = true;
	r = local_remove(&at->op, true, &why);
	if (r == 0) {
		splits_unexport(&at->op, at->epoch, &silent);
		name_list_done(&silent);
		volume_record_unattach(at->op.record, at->op.ctx->node);
		r = operation_save(&at->op, &why);
	}
	at->op.undoing = false;
	if (r < 0)
		(void)error_prefix(
			err, "%s; and to undo it failed: ", error_text(&why));
}

static int attach(struct attach *at, struct error *err)
{
	struct volume_attachment *a;
	bool whole = false;
	int r = operation_check_ready(&at->op, err);

	if (r < 0)
		return r;
	a = volume_record_attachment(at->op.record, at->op.ctx->node);
	at->fresh = !a;
	if (a) {
		r = check_here(at, a, err);
		if (r == 0)
			r = repair(at, a, &whole, err);
	} else {
		r = claim_fresh(at, err);
	}
	if (r < 0 || whole)
		return r;
	r = attach_parts(at, err);
	if (r == 0)
		r = mark_attached(at, err);
	if (r < 0 && at->fresh)
		undo(at, err);
	return r;
}

int volume_attach(struct volume_context *ctx,
		  const struct volume_attach_request *request,
		  struct error *err)
{
	struct attach at = {.request = request};
	int r = mounts_canonical(request->mount_point, at.mount_point, err);

	if (r < 0) {
		(void)error_prefix(err, "mount point: ");
		return r;
	}
	r = operation_begin(&at.op, ctx, request->name, "attaching volume",
			    err);
	if (r < 0)
		return r;
	r = attach(&at, err);
	operation_end(&at.op);
	if (r < 0)
		(void)error_prefix(err, "attach volume '%s': ", request->name);
	return r;
}
