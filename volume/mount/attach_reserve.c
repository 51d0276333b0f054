/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "volume/mount/attach.h"
#include "volume/mount/local.h"
#include "volume/mount/local_fs.h"
#include "volume/mount/local_union.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"
#include "volume/op/split.h"

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
				 "volume '%s' is attached here %s%s; unmount "
				 "it there first",
				 at->op.name, a->mount_point[0] ? "at " : "",
				 a->mount_point[0] ? a->mount_point
						   : "as a device");
	if (a->read_only != at->read_only)
		return error_set(err, EBUSY,
				 "volume '%s' is attached here for %s; unmount "
				 "it first",
				 at->op.name,
				 a->read_only ? "reading only" : "writing");
	if (at->request->mount_options &&
	    strcmp(at->request->mount_options, at->kept_options) != 0)
		return error_set(err, EBUSY,
				 "volume '%s' is attached here with the mount "
				 "options '%.100s'; unmount it first",
				 at->op.name, at->kept_options);
	return 0;
}

static int refuse_attached(const struct attach *at,
			   const struct volume_attachment *a, struct error *err)
{
	if (a->state == ATTACHMENT_PUBLISHED)
		return error_set(err, EBUSY,
				 "volume '%s' is published to node '%s'; `trib "
				 "volume unpublish %s %s` takes that back",
				 at->op.name, a->node, at->op.name, a->node);
	return error_set(err, EBUSY,
			 "volume '%s' is attached on node '%s'%s%s; unmount it "
			 "there, or, if that node is lost, repeat with "
			 "--force: it is then cut off",
			 at->op.name, a->node, a->mount_point[0] ? " at " : "",
			 a->mount_point);
}

static int check_elsewhere(const struct attach *at, struct error *err)
{
	const struct volume_record *record = at->op.record;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (strcmp(a->node, at->op.ctx->node) == 0 ||
		    (at->shared && a->shared) || at->request->force)
			continue;
		return refuse_attached(at, a, err);
	}
	return 0;
}

/* ---- the reserve ---- */

/* Force away all attachments that are not readers beside this one. */
static void drop_others(struct attach *at, struct name_list *ret_dropped)
{
	struct volume_record *record = at->op.record;
	size_t kept = 0;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (strcmp(a->node, at->op.ctx->node) == 0 ||
		    (at->shared && a->shared))
			record->attachments[kept++] = *a;
		else /* without memory one less is told of */
			(void)name_list_add(ret_dropped, a->node, NULL);
	}
	record->n_attachments = kept;
}

/* Each node knows it by its errors; people should, too. */
static void report_fenced(struct attach *at, const struct name_list *dropped)
{
	for (size_t i = 0; i < dropped->count; i++)
		(void)store_tell(
			at->op.ctx->store, RECORD_KIND_VOLUME, at->op.name,
			true, "Fenced", NULL,
			"node %s was cut off: node %s took it by force",
			dropped->items[i], at->op.ctx->node);
}

/* @above: the highest epoch that any extent is at */
static int reserve(struct attach *at, uint64_t above, struct error *err)
{
	struct volume_record *record = at->op.record;
	struct volume_attachment *a = NULL;
	struct name_list dropped = {0};
	int r;

	drop_others(at, &dropped);
	r = volume_record_attach(record, at->op.ctx->node, &a, err);
	if (r == 0 && !at->joins)
		r = volume_record_raise(record, above, err);
	if (r < 0) {
		name_list_done(&dropped);
		return r;
	}
	a->epoch = record->epoch;
	a->state = ATTACHMENT_ATTACHING;
	a->read_only = at->read_only;
	(void)strcpy(a->mount_point, at->mount_point);
	at->epoch = a->epoch;
	r = operation_save(&at->op, err);
	if (r == 0)
		report_fenced(at, &dropped);
	name_list_done(&dropped);
	return r;
}

/*
 * Remove the volume's remains here, if they were cut off, or with @force. Then
 * no device may hold an extent. Called before anybody is fenced, and before the
 * record is changed.
 */
static int remove_obstacles(struct attach *at, uint64_t *ret_above,
			    struct error *err)
{
	const unsigned force = at->request->force ? SPLITS_FORCE : 0;
	int here = local_exists(at->op.ctx, at->op.name, err), r = 0;

	if (here > 0 && !at->joins)
		r = splits_look(&at->op, force, ret_above, err);
	if (here > 0 && r == 0)
		r = local_remove(&at->op, true, err);
	if (here < 0 || r < 0)
		return here < 0 ? here : r;
	return at->joins ? 0
			 : splits_look(&at->op, force | SPLITS_HELD, ret_above,
				       err);
}

static int reserve_fresh(struct attach *at, struct error *err)
{
	const struct volume_attachment *a = volume_record_attachment(
		at->op.record, at->op.ctx->node);
	uint64_t above = 0;
	int r = check_elsewhere(at, err);

	/* Published before: who waits for it gets it still. */
	if (r == 0 && !a && !at->read_only)
		r = operation_check_staying(&at->op, err);
	if (r < 0)
		return r;
	r = remove_obstacles(at, &above, err);
	if (r == 0 && at->tree)
		r = check_mount_point(at->mount_point, err);
	return r < 0 ? r : reserve(at, above, err);
}

/* ---- an attachment that is here already ---- */

/*
 * Tell whether a move has taken the split down here, which the union had
 * emptied, and was killed before its record said so. The others work on.
 */
static bool split_was_emptied(const struct attach *at,
			      const struct volume_split *split, const char *dir)
{
	const struct volume_record *record = at->op.record;
	struct initiator_device device;

	return volume_record_leaving(record) &&
	       (split == volume_record_leaving(record) ||
		split == volume_record_successor(record)) &&
	       initiator_get(dir, split->extent, &device, NULL) == -ENOENT;
}

static bool split_healthy(struct attach *at, unsigned index)
{
	char dir[PATH_MAX], branch[PATH_MAX];
	const struct volume_split *split = &at->op.record->splits[index];
	struct initiator_device device;
	struct mount_info info;
	struct stat st;

	/* The first split has the device. A lost one has none. */
	if ((at->device && index > 0) || split->lost)
		return true;
	context_initiator_dir(at->op.ctx, dir);
	local_branch_dir(at->op.ctx, at->op.name,
			 local_branch_number(at->op.record, split), branch);
	/* A new one, not formatted yet, is not in the union: it can wait. */
	if (split->state != SPLIT_READY)
		return !at->device;
	if (split_was_emptied(at, split, dir))
		return true;
	if (initiator_get(dir, split->extent, &device, NULL) < 0 ||
	    !device.healthy || device.read_only != at->read_only)
		return false;
	return !at->tree ||
	       (mounts_find(branch, &info, NULL) == 0 && !info.failed &&
		stat(device.device, &st) == 0 && st.st_rdev == info.device);
}

/*
 * Tell whether the split works again when what is below its device is made
 * anew. Users of the device keep it then.
 */
static bool split_keeps(struct attach *at, unsigned index)
{
	char dir[PATH_MAX], branch[PATH_MAX];
	const struct volume_split *split = &at->op.record->splits[index];
	struct initiator_device device;
	struct mount_info info;
	struct stat st;

	context_initiator_dir(at->op.ctx, dir);
	local_branch_dir(at->op.ctx, at->op.name,
			 local_branch_number(at->op.record, split), branch);
	return initiator_get(dir, split->extent, &device, NULL) == 0 &&
	       device.keeps && device.read_only == at->read_only &&
	       (!at->tree ||
		(mounts_find(branch, &info, NULL) == 0 && !info.failed &&
		 stat(device.device, &st) == 0 && st.st_rdev == info.device));
}

/*
 * Tell whether the split works, if its device may find its server again for a
 * moment. The device does where the server is back.
 */
static bool split_reconnects(struct attach *at, unsigned index)
{
	const struct volume_split *split = &at->op.record->splits[index];
	struct initiator_device device;
	char dir[PATH_MAX];

	context_initiator_dir(at->op.ctx, dir);
	(void)initiator_get_reconnected(dir, split->extent, &device, NULL);
	return split_healthy(at, index);
}

/* Does the split's node answer, and have its extent? */
static int check_one_served(struct attach *at, unsigned index,
			    struct error *err)
{
	const struct volume_split *split = &at->op.record->splits[index];
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = context_client(at->op.ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	node_extent_done(&extent);
	return r;
}

/* The device of several splits needs each of them. */
static int check_served(struct attach *at, unsigned index, struct error *err)
{
	int r = check_one_served(at, index, err);

	for (unsigned i = 1; r == 0 && at->device && i < at->n_splits; i++)
		r = check_one_served(at, i, err);
	return r;
}

enum splits_state {
	SPLITS_BROKEN, /* one has to be made anew */
	SPLITS_KEEP,   /* what is below one has to be made anew */
	SPLITS_WORK,
};

/*
 * Look at all splits: a splits_state. An error: a node does not serve its split
 * now, so nothing could be made. Then the attachment stays as it is: the other
 * branches work, and the missing one may come back.
 */
static int splits_look_here(struct attach *at, struct error *err)
{
	int state = SPLITS_WORK;

	for (unsigned i = 0; i < at->n_splits; i++) {
		int r;

		if (split_healthy(at, i))
			continue;
		r = check_served(at, i, err);
		if (r < 0)
			return r;
		if (split_reconnects(at, i))
			continue;
		if (!split_keeps(at, i))
			state = SPLITS_BROKEN;
		else if (state == SPLITS_WORK)
			state = SPLITS_KEEP;
	}
	return state;
}

/* Tell whether the volume is mounted where it should be, with all of it. */
static bool tree_works(const struct attach *at)
{
	return !at->tree ||
	       (local_tree_answers(at->op.ctx, at->op.record,
				   at->mount_point) &&
		(at->device || local_union_has(at->op.ctx, at->mount_point,
					       at->op.record, at->n_splits)));
}

/* Whether a bare device's file system is behind is not its user's concern. */
static bool is_behind(const struct attach *at)
{
	const struct volume_record *record = at->op.record;

	return (at->tree || !volume_spec_is_tree(&record->spec)) &&
	       volume_record_fs_behind(record);
}

/*
 * Prepare an attachment that is here for being completed. Branches that work
 * are kept. When a mounted one does not, and its device can't be kept,
 * everything is taken down, since the union has files of it open. 1: it is
 * whole.
 */
static int attachment_repair(struct attach *at, struct volume_attachment *a,
			     struct error *err)
{
	int state = splits_look_here(at, err), r;

	if (state < 0)
		return state;
	if (state == SPLITS_WORK && a->state == ATTACHMENT_ATTACHED &&
	    (a->read_only || !is_behind(at)) && tree_works(at))
		return 1;
	if (state == SPLITS_BROKEN) {
		r = local_remove(&at->op, true, err);
		if (r < 0)
			return r;
	}
	at->epoch = a->epoch;
	a->state = ATTACHMENT_ATTACHING;
	return operation_save(&at->op, err);
}

/*
 * Tell whether an attachment is over: its epoch is, as somebody cut it off. Or
 * its preparation of the volume for readers may have been killed. Then its
 * exports may be writable, and nobody may join it.
 */
static bool attachment_is_over(const struct attach *at,
			       const struct volume_attachment *a)
{
	return a->epoch != at->op.record->epoch ||
	       (at->shared && !at->joins && a->state != ATTACHMENT_ATTACHED);
}

/* Others that read, and whose preparations are over. */
static bool has_other_readers(const struct attach *at)
{
	const struct volume_record *record = at->op.record;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->shared && a->state == ATTACHMENT_ATTACHED &&
		    a->epoch == record->epoch &&
		    strcmp(a->node, at->op.ctx->node) != 0)
			return true;
	}
	return false;
}

int attach_reserve(struct operation *op, struct error *err)
{
	struct attach *at = container_of(op, struct attach, op);
	struct volume_attachment *a = volume_record_attachment(op->record,
							       op->ctx->node);
	int r;

	at->read_only = at->request->read_only ||
			(a && a->published && a->read_only);
	at->n_splits = volume_record_attached(at->op.record, at->read_only);
	at->shared = a && a->shared;
	at->joins = at->shared && has_other_readers(at);
	at->fresh = !a || a->state == ATTACHMENT_PUBLISHED;
	if (at->fresh)
		return reserve_fresh(at, err);
	r = check_here(at, a, err);
	if (r < 0)
		return r;
	return attachment_is_over(at, a) ? reserve_fresh(at, err)
					 : attachment_repair(at, a, err);
}
