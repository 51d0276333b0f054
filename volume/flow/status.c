/* SPDX-License-Identifier: Apache-2.0 */
/* volume_status_get(): the record beside the real state. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parallel.h"
#include "base/size.h"
#include "volume/mount/local.h"
#include "volume/mount/local_fs.h"
#include "volume/mount/local_union.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"
#include "volume/op/context.h"

#define ASKED_AT_ONCE 16

struct look {
	struct volume_context *ctx;
	struct volume_status *status;
};

/* ---- a split ---- */

static void set_state(struct volume_split_status *s, const char *state,
		      const char *problem)
{
	(void)snprintf(s->state, sizeof(s->state), "%s", state);
	(void)snprintf(s->problem, sizeof(s->problem), "%s", problem);
}

static void set_pool_state(struct volume_split_status *s, const char *state,
			   const char *message)
{
	char problem[sizeof(s->problem)];

	(void)snprintf(problem, sizeof(problem), "pool '%s': %s", s->split.pool,
		       message);
	set_state(s, state, problem);
}

/* An extent that is not there may be so with all of its pool. */
static void ask_pool(struct node_client *client, struct volume_split_status *s)
{
	struct node_pool *pools = NULL;
	size_t n = 0;

	if (node_client_list_pools(client, &pools, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (strcmp(pools[i].name, s->split.pool) == 0 &&
		    !node_pool_is_online(&pools[i]))
			set_pool_state(s, pools[i].state, pools[i].message);
	free(pools);
}

static void read_extent(const struct volume_record *record,
			struct volume_split_status *s,
			const struct node_extent *extent)
{
	const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);

	if (!uid || strcmp(uid, record->uid) != 0 ||
	    (s->split.extent_id[0] &&
	     strcmp(s->split.extent_id, extent->id) != 0)) {
		set_state(s, "missing",
			  "an extent of that name is there, but it is not "
			  "this volume's");
		return;
	}
	s->found = true;
	s->allocated = extent->allocated;
	s->epoch = extent->epoch;
	s->connections = extent->connections;
	set_state(s, extent->state, extent->message);
	if (extent->pool_state[0] && strcmp(extent->state, "ok") == 0)
		set_pool_state(s, extent->pool_state, extent->pool_message);
	if (extent->epoch > record->epoch)
		set_state(
			s, "fenced",
			"its epoch is above the record's: it was attached without "
			"this record");
}

static void ask_node(struct look *look, struct volume_split_status *s)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	struct error err = {0};
	int r = context_client(look->ctx, s->split.node, &client, &err);

	if (r == 0)
		r = node_client_get_extent(client, s->split.extent, &extent,
					   &err);
	s->reachable = r == 0 || r == -ENOENT;
	if (r == 0)
		read_extent(look->status->record, s, &extent);
	else if (r == -ENOENT)
		set_state(s,
			  s->split.state == SPLIT_PLANNED ? "planned"
							  : "missing",
			  s->split.state == SPLIT_PLANNED ? "" : err.msg);
	else
		set_state(s, "unreachable", error_text(&err));
	/* There is no pool to ask where the node itself is not known. */
	if (r == -ENOENT && client && s->split.state != SPLIT_PLANNED)
		ask_pool(client, s);
	node_extent_done(&extent);
}

/* Tell the state of a split by the device that it is a part of. */
static void tell_part(struct volume_split_status *s,
		      const struct initiator_device *device)
{
	const unsigned part = s->split.index;

	if (part > 0 && part >= device->n_parts)
		set_state(s, "detached",
			  "it joins the device here at the next attach");
	else if (!device->healthy && (device->bad_part == (int)part ||
				      (device->bad_part < 0 && part == 0)))
		set_state(s, "broken", device->problem);
}

/* Tell the state of the file system that is mounted as the split's branch. */
static void tell_mount(const struct look *look, struct volume_split_status *s)
{
	struct mount_info info;

	local_branch_dir(look->ctx, look->status->record->name,
			 local_branch_number(look->status->record, &s->split),
			 s->branch);
	if (mounts_find(s->branch, &info, NULL) < 0) {
		set_state(s, "detached", "its file system is not mounted");
		return;
	}
	s->mounted = true;
	(void)mounts_space(s->branch, &s->fs_size, &s->fs_free, &s->fs_used);
	if (info.failed)
		set_state(s, "broken",
			  "its file system gave up after an error of its "
			  "device");
}

static void status_look_here(struct look *look, struct volume_split_status *s)
{
	const struct volume_record *record = look->status->record;
	const bool joined = volume_spec_is_device(&record->spec);
	struct initiator_device device;
	char dir[PATH_MAX];

	context_initiator_dir(look->ctx, dir);
	if (initiator_get(dir,
			  record->splits[joined ? 0 : s->split.index].extent,
			  &device, NULL) < 0) {
		set_state(s, "detached", "it has no device on this machine");
		return;
	}
	(void)snprintf(s->transport, sizeof(s->transport), "%s",
		       device.transport);
	(void)snprintf(s->device, sizeof(s->device), "%s", device.device);
	if (joined)
		tell_part(s, &device);
	else if (!device.healthy)
		set_state(s, "broken", device.problem);
	/* Of a device that works the first split has what is mounted. */
	if (joined ? look->status->mount_point[0] && s->split.index == 0 &&
			     (device.healthy || device.bad_part > 0)
		   : device.healthy)
		tell_mount(look, s);
}

/*
 * A split that nobody formatted is no part of an attachment that only reads:
 * it is not missing there.
 */
static bool belongs_here(const struct look *look, size_t index)
{
	const struct volume_record *record = look->status->record;
	const struct volume_attachment *a = volume_record_attachment(
		record, look->ctx->node);

	return look->status->attached_here && a &&
	       !record->splits[index].lost &&
	       record->splits[index].state != SPLIT_PLANNED &&
	       index < volume_record_attached(record, a->read_only);
}

static void look_at_split(void *look_, size_t index)
{
	struct look *look = look_;
	struct volume_split_status *s = &look->status->splits[index];

	s->split = look->status->record->splits[index];
	if (s->split.lost)
		set_state(s, "lost",
			  "its node was removed as lost for good, with its "
			  "files");
	else
		ask_node(look, s);
	if (belongs_here(look, index))
		status_look_here(look, s);
}

/* ---- the whole ---- */

static void add_condition(struct volume_status *status, const char *type,
			  bool good, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Without memory it is left out: the splits say the same. */
static void add_condition(struct volume_status *status, const char *type,
			  bool good, const char *reason, const char *fmt, ...)
{
	struct volume_condition *c = reallocarray(status->conditions,
						  status->n_conditions + 1,
						  sizeof(*status->conditions));
	va_list ap;

	if (!c)
		return;
	status->conditions = c;
	c += status->n_conditions++;
	*c = (struct volume_condition){.status = good};
	(void)snprintf(c->type, sizeof(c->type), "%s", type);
	(void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
	va_start(ap, fmt);
	(void)vsnprintf(c->message, sizeof(c->message), fmt, ap);
	va_end(ap);
}

/*
 * Return this node's attachment; NULL while the volume is at most published
 * here.
 */
static const struct volume_attachment *attachment_of(
	const struct volume_record *record, const struct volume_context *ctx)
{
	const struct volume_attachment *a = volume_record_attachment(record,
								     ctx->node);

	return a && a->state != ATTACHMENT_PUBLISHED ? a : NULL;
}

static void tell_of_tree(struct volume_context *ctx,
			 struct volume_status *status)
{
	const struct volume_record *record = status->record;
	const struct volume_attachment *a = attachment_of(record, ctx);

	if (!a) {
		if (local_exists(ctx, record->name, NULL) > 0)
			add_condition(
				status, "Attached", false, "CutOff",
				"this node was cut off; the rest of the mount here does "
				"nothing: `trib umount %s` removes it",
				record->name);
		return;
	}
	if (a->state != ATTACHMENT_ATTACHED)
		add_condition(status, "Attached", false, "Unfinished",
			      "%s%s%s was interrupted; repeat it, or do the "
			      "opposite",
			      a->state == ATTACHMENT_ATTACHING ? "mounting"
							       : "unmounting",
			      a->mount_point[0] ? " at " : "", a->mount_point);
	else if (!status->mounted && a->mount_point[0])
		add_condition(
			status, "Attached", false,
			volume_spec_is_device(&record->spec) ? "NotMounted"
							     : "UnionDead",
			"the %s at %s does not answer; `trib mount %s "
			"%s` repairs it",
			volume_spec_is_device(&record->spec) ? "file system"
							     : "union",
			a->mount_point, record->name, a->mount_point);
}

/* Tell the state of branches, as the union found it by using them. */
static void tell_of_branches(struct volume_status *status)
{
	struct union_state state;

	if (!status->mounted ||
	    union_state_get(status->mount_point, &state) < 0)
		return;
	if (state.failed)
		add_condition(
			status, "Attached", false, "BranchFailed",
			"%zu of %zu branches of the union at %s failed: files on "
			"them give errors; `trib union status %s` names them",
			state.failed, state.branches, status->mount_point,
			status->mount_point);
	if (state.read_only)
		add_condition(status, "Attached", false, "BranchReadOnly",
			      "%zu of %zu branches of the union at %s turned "
			      "read-only; `trib union status %s` names them",
			      state.read_only, state.branches,
			      status->mount_point, status->mount_point);
}

static void tell_of_growth(const struct volume_context *ctx,
			   struct volume_status *status)
{
	const struct volume_record *record = status->record;
	const struct volume_attachment *a = attachment_of(record, ctx);
	uint64_t target = volume_record_target(record);
	char size[SIZE_TEXT_MAX];

	if (target > record->spec.capacity)
		add_condition(status, "Resized", false, "Unfinished",
			      "growing it to %s was interrupted; repeat `trib "
			      "volume resize %s --size %llu`",
			      size_format(size, target), record->name,
			      (unsigned long long)target);
	else if (a && !a->read_only && volume_record_fs_behind(record) &&
		 (a->mount_point[0] || !volume_spec_is_tree(&record->spec)))
		add_condition(
			status, "Resized", false, "FileSystemBehind",
			"its extents have grown or are new, its file "
			"systems are not; here `trib volume resize %s --size %llu` "
			"does that",
			record->name, (unsigned long long)target);
	else if (a && !a->read_only && status->mounted &&
		 !volume_spec_is_device(&record->spec) &&
		 !local_union_has(ctx, status->mount_point, record,
				  volume_record_attached(record, false)))
		add_condition(status, "Resized", false, "BranchesWaiting",
			      "it has new extents that its union does not have "
			      "yet; here `trib volume resize %s --size %llu` "
			      "adds them, or the next mount",
			      record->name, (unsigned long long)target);
}

static void tell_of_move(struct volume_status *status,
			 const struct volume_split *split)
{
	const struct split_move *move = &split->move;
	char text[2][SIZE_TEXT_MAX];

	if (!move->node[0])
		return;
	if (split->lost && !move->left)
		add_condition(
			status, "Moved", false, "Replacing",
			"the new extent in the place of split %u, on node %s, is not the volume's yet; `trib volume repair --forget-lost %s` goes on",
			split->index, move->node, status->record->name);
	else if (move->left)
		add_condition(
			status, "Moved", false, "ExtentLeft",
			"a move of split %u has left extent %s on node %s, which is not deleted yet; `trib volume move %s` does that",
			split->index, move->extent, move->node,
			status->record->name);
	else if (move->way == SPLIT_MOVE_UNION)
		add_condition(
			status, "Moved", false,
			move->back ? "ComingBack" : "Draining",
			"split %u %s %s/%s, file by file by its union: %s so far%s",
			split->index,
			move->back ? "comes back from" : "goes to", move->node,
			move->pool, size_format(text[0], move->copied),
			status->record->n_attachments
				? ""
				: "; it is mounted nowhere, and goes on once it is");
	else
		add_condition(status, "Moved", false, "Copying",
			      "split %u moves to %s/%s, copied by block up to "
			      "%s of %s",
			      split->index, move->node, move->pool,
			      size_format(text[0], move->copied),
			      size_format(text[1], split->size));
}

static void tell_of_lost(struct volume_status *status)
{
	const struct volume_record *record = status->record;
	const size_t lost = volume_record_lost(record);

	if (lost == 0)
		return;
	if (volume_spec_is_device(&record->spec) || lost == record->n_splits)
		add_condition(status, "Whole", false, "Lost",
			      "%zu of %zu splits are lost, and the volume is "
			      "nothing without them: delete it",
			      lost, record->n_splits);
	else
		add_condition(
			status, "Whole", false, "Degraded",
			"it is degraded: %zu of %zu splits are lost, with their files. `trib mount -o degraded` mounts the rest; `trib volume repair --forget-lost %s` makes new splits in their place",
			lost, record->n_splits, record->name);
}

static const char *status_unfinished(enum volume_phase phase)
{
	switch (phase) {
	case VOLUME_CREATING:
		return "creating it was interrupted; repeat the command, or "
		       "delete the volume";
	case VOLUME_REVERTING:
		return "reverting it was interrupted; repeat `trib snapshot "
		       "revert`";
	case VOLUME_MOVING:
		return "a split is being moved; if no command is at it, "
		       "`trib volume move` goes on, with --cancel it takes "
		       "that back";
	default:
		return "deleting it was interrupted; repeat `trib volume "
		       "delete`";
	}
}

static void status_tell(struct volume_context *ctx,
			struct volume_status *status)
{
	const struct volume_record *record = status->record;

	if (record->phase != VOLUME_READY)
		add_condition(status, "Ready", false,
			      volume_phase_name(record->phase), "%s",
			      status_unfinished(record->phase));
	if (record->deleting && record->phase == VOLUME_READY)
		add_condition(status, "Ready", false, "DeletionWaits",
			      "its record is being deleted, and waits for its "
			      "extents to be: delete its claim, or repeat by "
			      "`trib volume delete %s`",
			      record->name);
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split_status *s = &status->splits[i];

		if (strcmp(s->state, "ok") != 0 &&
		    strcmp(s->state, "planned") != 0)
			add_condition(status, "SplitHealthy", false, "Split",
				      "split %zu on node %s is %s: %.150s", i,
				      s->split.node, s->state, s->problem);
	}
	for (size_t i = 0; i < record->n_splits; i++)
		tell_of_move(status, &record->splits[i]);
	tell_of_lost(status);
	tell_of_tree(ctx, status);
	tell_of_branches(status);
	tell_of_growth(ctx, status);
	for (size_t i = 0; i < record->n_conditions; i++) {
		const struct volume_condition *c = &record->conditions[i];

		if (!c->status)
			add_condition(status, c->type, false, c->reason, "%s",
				      c->message);
	}
}

static void look_at_tree(struct volume_context *ctx,
			 struct volume_status *status)
{
	const struct volume_attachment *a = attachment_of(status->record, ctx);

	status->attached_here = a;
	if (!a || !a->mount_point[0])
		return;
	memcpy(status->mount_point, a->mount_point,
	       sizeof(status->mount_point));
	status->union_pid = union_find(a->mount_point);
	status->mounted = local_tree_answers(ctx, status->record,
					     a->mount_point);
	if (status->mounted)
		(void)mounts_space(a->mount_point, &status->fs_size,
				   &status->fs_free, &status->fs_used);
}

int volume_status_get(struct volume_context *ctx, const char *name,
		      struct volume_status **ret, struct error *err)
{
	struct volume_status *status = calloc(1, sizeof(*status));
	struct look look = {.ctx = ctx, .status = status};
	int r;

	if (!status)
		return error_set(err, ENOMEM, "out of memory");
	r = volume_get(ctx, name, &status->record, err);
	if (r == 0) {
		status->splits = calloc(status->record->n_splits + 1,
					sizeof(*status->splits));
		if (!status->splits)
			r = error_set(err, ENOMEM, "out of memory");
	}
	if (r < 0) {
		volume_status_free(status);
		return r;
	}
	look_at_tree(ctx, status);
	parallel_run(status->record->n_splits, ASKED_AT_ONCE, look_at_split,
		     &look);
	status_tell(ctx, status);
	*ret = status;
	return 0;
}

void volume_status_free(struct volume_status *status)
{
	if (!status)
		return;
	volume_record_free(status->record);
	free(status->splits);
	free(status->conditions);
	free(status);
}
