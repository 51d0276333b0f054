/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/split.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "volume/branch_fs.h"
#include "volume/local.h"
#include "volume/mounts.h"

/* The extent that has the split's name: is it the split's? */
static bool is_ours(const struct operation *op,
		    const struct volume_split *split,
		    const struct node_extent *extent)
{
	const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);

	if (!uid || strcmp(uid, op->record->uid) != 0)
		return false;
	return !split->extent_id[0] ||
	       strcmp(split->extent_id, extent->id) == 0;
}

int split_create(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct labels labels = {0};
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = operation_step(
		op, err, "extent", "making extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	if (r == 0)
		r = labels_set(&labels, VOLUME_LABEL_UID, op->record->uid, err);
	if (r == 0)
		r = labels_set(&labels, VOLUME_LABEL_NAME, op->name, err);
	if (r == 0)
		r = node_client_create_extent(client, split->pool,
					      split->extent, split->size,
					      &labels, &extent, err);
	labels_done(&labels);
	if (r < 0)
		return r;
	if (extent.size != split->size || strlen(extent.id) != 36)
		r = error_set(err, EPROTO,
			      "node '%s': made another extent than was asked "
			      "for",
			      split->node);
	else
		memcpy(split->extent_id, extent.id, sizeof(split->extent_id));
	if (r == 0)
		split->state = SPLIT_CREATED;
	node_extent_done(&extent);
	return r;
}

int split_delete(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = operation_step(
		op, err, "delete", "deleting extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0 && is_ours(op, split, &extent)) {
		/* Nobody has it by the record; whoever does is cut off. */
		if (extent.has_export && extent.active)
			r = node_client_remove_export(client, split->extent, 0,
						      NULL, err);
		if (r == 0)
			r = node_client_delete_extent(client, split->extent,
						      extent.id, err);
	}
	node_extent_done(&extent);
	if (r < 0 && r != -ENOENT)
		return r;
	split->state = SPLIT_DELETED;
	return 0;
}

/* ---- grow ---- */

/* Is it the split's? Then what it has grown by belongs in the record. */
static int adopt(struct operation *op, struct volume_split *split,
		 const struct node_extent *extent, struct error *err)
{
	if (is_ours(op, split, extent) &&
	    volume_record_grown(op->record, split, extent->size) == 0)
		return 0;
	return error_set(err, EUCLEAN,
			 "extent '%s' on node '%s' is not the one in the "
			 "record of volume '%s'",
			 split->extent, split->node, op->name);
}

static int look(struct operation *op, struct volume_split *split,
		struct node_client **ret, struct error *err)
{
	struct node_extent extent = {0};
	int r = context_client(op->ctx, split->node, ret, err);

	if (r == 0)
		r = node_client_get_extent(*ret, split->extent, &extent, err);
	if (r == 0)
		r = adopt(op, split, &extent, err);
	node_extent_done(&extent);
	return r;
}

int split_grow(struct operation *op, struct volume_split *split,
	       struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	uint64_t before = split->size;
	int r = operation_step(
		op, err, "extent", "growing extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = look(op, split, &client, err);
	if (r == 0 && split->grow_to) {
		r = node_client_resize_extent(client, split->extent,
					      split->grow_to, &extent, err);
		if (r == 0)
			r = adopt(op, split, &extent, err);
		if (r == 0 && split->grow_to)
			r = error_set(err, EPROTO,
				      "node '%s': said that it made extent "
				      "'%s' larger, but did not",
				      split->node, split->extent);
		node_extent_done(&extent);
	}
	return r == 0 && split->size != before ? operation_save(op, err) : r;
}

int split_settle(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct node_client *client = NULL;
	int r = look(op, split, &client, err);

	if (r == 0)
		split->grow_to = 0;
	return r;
}

int split_grow_fs(struct operation *op, struct volume_split *split,
		  const char *device, const char *branch, struct error *err)
{
	int r = operation_step(op, err, "grow",
			       "growing the file system of split %u of %zu",
			       split->index + 1, op->record->n_splits);

	if (r == 0)
		r = branch_fs_grow(device, op->record->spec.fs_type, branch,
				   op->ctx->cancel_fd, err);
	if (r < 0)
		return r;
	split->fs_behind = false;
	return operation_save(op, err);
}

/* ---- attach ---- */

struct work {
	struct operation *op;
	struct volume_split *split;
	const struct split_attach *how;
	struct node_record node;
	struct node_client *client;
	struct node_extent extent;
	char initiators[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	const char *initiator_list[NODE_INITIATORS_MAX];
	size_t n_initiators;
	bool local; /* the extent is on this machine */
	struct initiator_device device;
	char branch[PATH_MAX];
};

static int set_export(struct work *w, struct error *err)
{
	struct node_extent extent = {0};
	int r = node_client_set_export(
		w->client, w->split->extent, w->how->epoch, w->initiator_list,
		w->n_initiators, w->how->read_only, &extent, err);

	if (r < 0)
		return r;
	node_extent_done(&w->extent);
	w->extent = extent;
	return 0;
}

static int check_extent(struct work *w, struct error *err)
{
	struct volume_split *split = w->split;
	struct node_extent *extent = &w->extent;
	uint64_t before = split->size;
	int r = node_client_get_extent(w->client, split->extent, extent, err);

	if (r == 0)
		r = adopt(w->op, split, extent, err);
	if (r == 0 && split->size != before)
		r = operation_save(w->op, err);
	if (r < 0)
		return r;
	if (strcmp(extent->state, "ok") != 0)
		return error_set(err, EIO, "extent '%s' on node '%s' is %s: %s",
				 split->extent, split->node, extent->state,
				 extent->message);
	return 0;
}

static int export_extent(struct work *w, struct error *err)
{
	int r = context_node_load(w->op->ctx, w->split->node, &w->node, err);

	if (r == 0)
		r = context_client_of(w->op->ctx, &w->node, &w->client, err);
	if (r == 0)
		r = check_extent(w, err);
	if (r < 0)
		return r;
	if (!w->local) {
		r = context_initiators(w->op->ctx, w->node.data_address,
				       w->initiators, err);
		if (r < 0)
			return r;
		w->n_initiators = (size_t)r;
		for (size_t i = 0; i < w->n_initiators; i++)
			w->initiator_list[i] = w->initiators[i];
	}
	return set_export(w, err);
}

static int device_attach(struct work *w, struct error *err)
{
	char dir[PATH_MAX];
	const struct initiator_request request = {
		.state_dir = dir,
		.id = w->split->extent,
		/* A local extent never goes through a server. */
		.transport = w->local ? "auto" : w->how->transport,
		.local_path = w->local ? w->extent.path : NULL,
		.address = w->local ? NULL : w->node.data_address,
		.export_name = w->extent.nbd_name,
		.size = w->split->size,
		.read_only = w->how->read_only,
	};
	int r;

	context_initiator_dir(w->op->ctx, dir);
	r = initiator_attach(&request, &w->device, err);
	if (r < 0)
		return r;
	if (!w->local)
		return 0;
	/*
	 * Somebody may have raised the epoch between our export and the
	 * device: then theirs found no device to refuse, and ours must go.
	 */
	r = set_export(w, err);
	if (r < 0)
		(void)initiator_detach(dir, w->split->extent, NULL);
	return r;
}

/* Is the branch mounted, from our device? A mount of another one is removed. */
static int branch_mounted(struct work *w, bool *ret, struct error *err)
{
	struct mount_info info;
	struct stat st;
	int r = mounts_find(w->branch, &info, err);

	*ret = false;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (stat(w->device.device, &st) == 0 && st.st_rdev == info.device) {
		*ret = true;
		return 0;
	}
	return mounts_remove(w->branch, true, err);
}

static int save_state(struct work *w, enum split_state state, struct error *err)
{
	w->split->state = state;
	return operation_save(w->op, err);
}

/*
 * Only what the record says was never formatted, or where formatting was
 * begun; the first time, only what is blank to the eye too.
 */
static int format(struct work *w, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	bool first = w->split->state == SPLIT_CREATED;
	struct branch_probe probe;
	int r;

	if (w->how->read_only)
		return error_set(err, EINVAL,
				 "volume '%s' was never formatted: attach it "
				 "once for writing",
				 w->op->name);
	if (first) {
		r = branch_fs_probe(w->device.device, &probe, err);
		if (r < 0)
			return r;
		if (probe.found)
			return error_set(err, EUCLEAN,
					 "extent '%s' on node '%s' should be "
					 "blank but holds %s; it was not "
					 "touched",
					 w->split->extent, w->split->node,
					 probe.type);
		r = save_state(w, SPLIT_FORMATTING, err);
		if (r < 0)
			return r;
	}
	r = branch_fs_make(w->device.device, spec->fs_type, w->split->fs_uuid,
			   first, w->op->ctx->cancel_fd, err);
	if (r == 0)
		r = branch_fs_mount(w->device.device, spec->fs_type, w->branch,
				    false, err);
	if (r == 0)
		r = branch_fs_make_data(w->branch, err);
	if (r == 0)
		r = save_state(w, SPLIT_READY, err);
	return r;
}

static int verify_and_mount(struct work *w, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	struct branch_probe probe;
	int r = branch_fs_probe(w->device.device, &probe, err);

	if (r < 0)
		return r;
	if (strcmp(probe.type, spec->fs_type) != 0 ||
	    strcmp(probe.uuid, w->split->fs_uuid) != 0)
		return error_set(err, EUCLEAN,
				 "extent '%s' on node '%s' should hold %s %s "
				 "but holds %s %s; it was not touched",
				 w->split->extent, w->split->node,
				 spec->fs_type, w->split->fs_uuid,
				 probe.found ? probe.type : "nothing",
				 probe.uuid);
	if (!w->how->read_only)
		r = branch_fs_check(w->device.device, spec->fs_type,
				    w->op->ctx->cancel_fd, err);
	if (r == 0 && w->split->fs_behind && !w->how->read_only &&
	    !branch_fs_grows_mounted(spec->fs_type))
		r = split_grow_fs(w->op, w->split, w->device.device, NULL, err);
	if (r == 0)
		r = branch_fs_mount(w->device.device, spec->fs_type, w->branch,
				    w->how->read_only, err);
	return r;
}

static int make_branch(struct work *w, struct error *err)
{
	const struct volume_split *split = w->split;
	size_t n = w->op->record->n_splits;
	bool mounted;
	int r = branch_mounted(w, &mounted, err);

	if (r < 0)
		return r;
	if (split->state != SPLIT_READY) {
		/* A branch that was left half made is made again. */
		if (mounted)
			r = mounts_remove(w->branch, false, err);
		if (r == 0)
			r = operation_step(w->op, err, "format",
					   "formatting split %u of %zu on node "
					   "%s",
					   split->index + 1, n, split->node);
		return r < 0 ? r : format(w, err);
	}
	if (!mounted) {
		r = operation_step(w->op, err, "mount",
				   "checking and mounting split %u of %zu",
				   split->index + 1, n);
		if (r == 0)
			r = verify_and_mount(w, err);
	}
	if (r == 0 && split->fs_behind && !w->how->read_only &&
	    branch_fs_grows_mounted(w->op->record->spec.fs_type))
		r = split_grow_fs(w->op, w->split, w->device.device, w->branch,
				  err);
	return r;
}

static int attach(struct work *w, struct error *err)
{
	const struct volume_split *split = w->split;
	size_t n = w->op->record->n_splits;
	int r = operation_step(w->op, err, "export",
			       "exporting split %u of %zu on node %s",
			       split->index + 1, n, split->node);

	if (r == 0)
		r = export_extent(w, err);
	if (r == 0)
		r = operation_step(
			w->op, err, "device",
			"attaching split %u of %zu from %s", split->index + 1,
			n, w->local ? w->extent.path : w->node.data_address);
	if (r == 0)
		r = device_attach(w, err);
	if (r == 0)
		r = make_branch(w, err);
	return r;
}

int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err)
{
	struct work w = {
		.op = op,
		.split = split,
		.how = how,
		.local = strcmp(split->node, op->ctx->node) == 0,
	};
	int r;

	local_branch_dir(op->ctx, op->name, split->index, w.branch);
	r = attach(&w, err);
	node_extent_done(&w.extent);
	node_record_done(&w.node);
	return r;
}

static int unexport(struct operation *op, const struct volume_split *split,
		    uint64_t epoch)
{
	struct node_client *client = NULL;
	int r = operation_step(
		op, NULL, "export", "withdrawing split %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, NULL);
	if (r == 0)
		r = node_client_remove_export(client, split->extent, epoch,
					      NULL, NULL);
	return r == -ENOENT ? 0 : r;
}

void splits_unexport(struct operation *op, uint64_t epoch,
		     struct name_list *ret_silent)
{
	size_t made = volume_record_made(op->record);

	*ret_silent = (struct name_list){0};
	for (size_t i = 0; i < made; i++) {
		const struct volume_split *split = &op->record->splits[i];

		if (!name_list_has(ret_silent, split->node) &&
		    unexport(op, split, epoch) < 0)
			/* Without memory for the list it is asked again. */
			(void)name_list_add(ret_silent, split->node, NULL);
	}
}
