/* SPDX-License-Identifier: Apache-2.0 */
/* split_attach(): from an extent on its node to a branch on this machine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "initiator/device/device.h"
#include "volume/mount/attach.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_check.h"
#include "volume/op/split.h"

struct work {
	struct operation *op;
	struct volume_split *split;
	const struct split_attach *how;
	struct node_record node;
	struct node_client *client;
	struct node_extent extent;
	char own[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	size_t n_own; /* 0 when local */
	bool here;    /* the extent is on this machine */
	bool written; /* somebody could write to it before, and did */
	bool local;   /* and a loop device goes over its file */
	char dir[PATH_MAX];
	struct initiator_device device;
	char branch[PATH_MAX];
};

/* ---- export ---- */

struct initiator_list {
	const char *items[EXPORT_INITIATORS_MAX]; /* borrowed */
	size_t n;
};

static int list_add(struct initiator_list *list, const char *address,
		    struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->items[i], address) == 0)
			return 0;
	}
	if (list->n == EXPORT_INITIATORS_MAX)
		return error_set(err, E2BIG,
				 "more than %d addresses read one extent; give "
				 "the nodes' records a prefix for many",
				 EXPORT_INITIATORS_MAX);
	list->items[list->n++] = address;
	return 0;
}

/* List the initiators: this machine, and present readers at this epoch. */
static int list_fill(struct work *w, struct initiator_list *list,
		     struct error *err)
{
	const struct node_extent *now = &w->extent;
	int r = 0;

	if (w->how->joins && now->active && now->read_only &&
	    now->epoch == w->how->epoch) {
		for (size_t i = 0; r == 0 && i < now->n_initiators; i++)
			r = list_add(list, now->initiators[i], err);
	}
	for (size_t i = 0; r == 0 && i < w->n_own; i++)
		r = list_add(list, w->own[i], err);
	return r;
}

static int set_export(struct work *w, bool read_only, struct error *err)
{
	const struct volume_record *record = w->op->record;
	struct initiator_list list = {.n = 0};
	struct node_extent extent = {0};
	struct split_grants grants;
	int r = list_fill(w, &list, err);

	split_grants_of(record, &grants);
	if (r == 0)
		r = node_client_set_export(
			w->client,
			&(struct node_export_request){
				.name = w->split->extent,
				.epoch = w->how->epoch,
				.initiators = list.items,
				.n_initiators = list.n,
				.read_only = read_only,
				.block_size = DEVICE_BLOCK_SIZE,
				.grant = volume_record_grant(record),
				.over = grants.items,
				.n_over = grants.n,
			},
			&extent, err);
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
		r = split_adopt(w->op, split, extent, err);
	if (r == 0 && split->size != before)
		r = operation_save(w->op, err);
	if (r < 0)
		return r;
	w->written = !extent->blank && extent->allocated > 0;
	if (strcmp(extent->state, "ok") != 0)
		return error_set(err, EIO, "extent '%s' on node '%s' is %s: %s",
				 split->extent, split->node, extent->state,
				 extent->message);
	return 0;
}

/* Find the extent, and who we are to its server. */
static int split_prepare(struct work *w, struct error *err)
{
	int r = context_node_load(w->op->ctx, w->split->node, &w->node, err);

	if (r == 0)
		r = context_client_of(w->op->ctx, &w->node, &w->client, err);
	if (r == 0)
		r = check_extent(w, err);
	w->local = w->here &&
		   local_goes_by_file(w->dir, w->split->extent, &w->extent);
	if (r < 0 || w->local)
		return r;
	r = context_initiators(w->op->ctx, w->op->ctx->node,
			       w->node.data_address, w->own, err);
	if (r < 0)
		return r;
	w->n_own = (size_t)r;
	return 0;
}

/* ---- device ---- */

/*
 * A local extent that goes through a server (of a raw pool, or with limits)
 * does not go through the kernel's NBD client, which could wait for memory
 * that only our own server can free.
 */
static const char *transport_of(const struct work *w)
{
	if (w->local)
		return "auto";
	return w->here ? "fuse" : w->how->transport;
}

static int device_attach(struct work *w, bool read_only, struct error *err)
{
	struct initiator_request request = {
		.dead_timeout_ms = w->op->ctx->dead_timeout_ms,
		.state_dir = w->dir,
		.id = w->split->extent,
		.transport = transport_of(w),
		.local_path = w->local ? w->extent.path : NULL,
		.address = w->local ? NULL : w->node.data_address,
		.export_name = w->extent.nbd_name,
		.size = w->split->size,
		.read_only = read_only,
		.launcher = w->op->ctx->launcher,
	};
	struct iscsi_route route;
	int r;

	if (!w->local) {
		context_iscsi_route(w->op->ctx, &w->extent,
				    w->node.data_address, &route);
		iscsi_route_fill(&route, &w->extent, &request);
	}
	r = initiator_attach(&request, &w->device, err);
	/* A program that a killed call had started may be at work on it. */
	if (r == 0)
		r = device_settle(w->device.device, err);
	if (r < 0 || !w->local)
		return r;
	/*
	 * Somebody may have raised the epoch between our export and the
	 * device: then theirs found no device to refuse, and ours must go.
	 */
	r = set_export(w, read_only, err);
	if (r < 0)
		(void)initiator_detach(w->dir, w->split->extent, NULL);
	return r;
}

static int attach_device(struct work *w, bool read_only, struct error *err)
{
	int r = set_export(w, read_only, err);

	return r < 0 ? r : device_attach(w, read_only, err);
}

/* ---- branch ---- */

/* Tell whether our device is mounted as branch. Remove another one's mount. */
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
	int r;

	operation_lock(w->op);
	w->split->state = state;
	r = operation_save(w->op, err);
	operation_unlock(w->op);
	return r;
}

static int branch_mount(struct work *w, bool read_only, struct error *err)
{
	int r = branch_fs_mount(w->device.device, w->op->record->spec.fs_type,
				w->branch, read_only, w->how->options, err);

	return r < 0 && w->split->state == SPLIT_READY
		       ? split_check_unmountable(w->op, w->split,
						 w->device.device, r, err)
		       : r;
}

static bool is_own(const struct work *w, const struct branch_probe *probe)
{
	return strcmp(probe->type, w->op->record->spec.fs_type) == 0 &&
	       strcmp(probe->uuid, w->split->fs_uuid) == 0;
}

static int refuse_to_format(const struct work *w,
			    const struct branch_probe *probe, struct error *err)
{
	const struct volume_split *split = w->split;

	if (probe->found)
		return error_set(err, EUCLEAN,
				 "extent '%s' on node '%s' should be blank but "
				 "holds %s; it was not touched",
				 split->extent, split->node, probe->type);
	return error_set(err, EUCLEAN,
			 "extent '%s' on node '%s' should be blank but was "
			 "written to, whatever it is; it was not touched. If "
			 "that may be lost: `blkdiscard -f \"$(trib attach "
			 "--force %s/%s)\"`, then `trib detach %s/%s`",
			 split->extent, split->node, split->node, split->extent,
			 split->node, split->extent);
}

/*
 * Format a split that is not formatted, or not to its end, by the record. The
 * record may be old: the device decides. Its own file system is kept.
 */
static int format_device(struct work *w, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	bool first = w->split->state == SPLIT_CREATED;
	struct branch_probe probe;
	int r;

	if (first) {
		r = branch_fs_probe(w->device.device, &probe, err);
		if (r < 0)
			return r;
		if (!is_own(w, &probe) && (probe.found || w->written))
			return refuse_to_format(w, &probe, err);
		r = save_state(w, SPLIT_FORMATTING, err);
		if (r < 0)
			return r;
	}
	r = branch_fs_make(w->device.device, spec->fs_type, w->split->fs_uuid,
			   first, w->op->ctx->cancel_fd, err);
	if (r == -EUCLEAN)
		(void)error_prefix(err, "extent '%s' on node '%s': ",
				   w->split->extent, w->split->node);
	return r;
}

static int split_format(struct work *w, struct error *err)
{
	int r = format_device(w, err);

	if (r == 0)
		r = branch_mount(w, false, err);
	if (r == 0)
		r = branch_fs_make_data(w->branch, err);
	if (r == 0)
		r = save_state(w, SPLIT_READY, err);
	return r;
}

static int split_verify(struct work *w, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	struct branch_probe probe;
	int r = branch_fs_probe(w->device.device, &probe, err);

	if (r < 0)
		return r;
	if (!probe.found)
		return split_check_refuse(
			w->op, w->split,
			&(struct branch_found){
				.verdict = BRANCH_DAMAGED,
				.what = "it has no superblock any more"},
			err);
	if (!is_own(w, &probe))
		return error_set(err, EUCLEAN,
				 "extent '%s' on node '%s' should hold %s %s "
				 "but holds %s %s; it was not touched",
				 w->split->extent, w->split->node,
				 spec->fs_type, w->split->fs_uuid, probe.type,
				 probe.uuid);
	return 0;
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
	return r < 0 ? r : split_set_behind(op, split, false, err);
}

/* A device that may be written: whatever is on it becomes a branch. */
static int make_writable(struct work *w, struct error *err)
{
	const struct volume_split *split = w->split;
	const char *fs_type = w->op->record->spec.fs_type;
	size_t n = w->op->record->n_splits;
	bool grow;
	int r;

	if (split->state != SPLIT_READY) {
		r = operation_step(w->op, err, "format",
				   "formatting split %u of %zu on node %s",
				   split->index + 1, n, split->node);
		return r < 0 ? r : split_format(w, err);
	}
	r = operation_step(
		w->op, err, "mount", "checking%s and mounting split %u of %zu",
		split->suspect ? " all of" : "", split->index + 1, n);
	if (r == 0)
		r = split_verify(w, err);
	grow = split->fs_behind && !branch_fs_grows_mounted(fs_type);
	/* resize2fs(8) wants to see it checked whole, too. */
	if (r == 0)
		r = split_check(w->op, w->split, grow || split->suspect,
				w->device.device, w->branch, err);
	if (r == 0 && grow)
		r = split_grow_fs(w->op, w->split, w->device.device, NULL, err);
	return r < 0 ? r : branch_mount(w, false, err);
}

/*
 * A device whose server was away for too long has failed requests: its file
 * system may find that out only now, and give up.
 */
static int grow_mounted(struct work *w, struct error *err)
{
	struct mount_info info;
	int r = split_grow_fs(w->op, w->split, w->device.device, w->branch,
			      err);

	if (r != -EIO || mounts_find(w->branch, &info, NULL) < 0 ||
	    !info.failed)
		return r;
	return error_set(err, EAGAIN,
			 "the file system of split %u failed meanwhile, after "
			 "errors of its device; repeat: it is mounted anew",
			 w->split->index);
}

static int mount_for_writing(struct work *w, struct error *err)
{
	const struct volume_split *split = w->split;
	bool mounted;
	int r = branch_mounted(w, &mounted, err);

	/* A branch that was left half made is made again. */
	if (r == 0 && mounted && split->state != SPLIT_READY) {
		r = mounts_remove(w->branch, false, err);
		mounted = false;
	}
	if (r == 0 && !mounted)
		r = make_writable(w, err);
	if (r == 0 && split->fs_behind &&
	    branch_fs_grows_mounted(w->op->record->spec.fs_type))
		r = grow_mounted(w, err);
	return r;
}

/* ---- readers ---- */

/*
 * Do what needs writing, alone: format what never was, replay a journal that
 * a crash left. Nothing stays attached.
 */
static int make_readable(struct work *w, struct error *err)
{
	int r;

	if (w->how->joins)
		return error_set(err, EBUSY,
				 "split %u of volume '%s' has to be repaired, "
				 "but other nodes read it: unmount it there "
				 "first",
				 w->split->index, w->op->name);
	r = mounts_remove(w->branch, false, err);
	if (r == 0)
		r = initiator_detach(w->dir, w->split->extent, err);
	if (r == 0)
		r = attach_device(w, false, err);
	if (r == 0)
		r = mount_for_writing(w, err);
	if (r == 0)
		r = mounts_remove(w->branch, false, err);
	if (r == 0)
		r = initiator_detach(w->dir, w->split->extent, err);
	return r;
}

/* -EROFS: it has to be checked. Where others read it was, by the first. */
static int check_readable(struct work *w, struct error *err)
{
	bool due = w->split->suspect;
	int r = 0;

	if (w->how->joins)
		return 0;
	if (!due)
		r = branch_check_due(w->device.device,
				     w->op->record->spec.fs_type, &due, err);
	return r == 0 && due ? -EROFS : r;
}

/* -EROFS: it has to be checked, or has a journal to be replayed. */
static int mount_for_reading(struct work *w, struct error *err)
{
	bool mounted = false;
	int r = attach_device(w, true, err);

	if (r == 0)
		r = branch_mounted(w, &mounted, err);
	if (r < 0 || mounted)
		return r;
	r = operation_step(w->op, err, "mount", "mounting split %u of %zu",
			   w->split->index + 1, w->op->record->n_splits);
	if (r == 0)
		r = split_verify(w, err);
	if (r == 0)
		r = check_readable(w, err);
	return r < 0 ? r : branch_mount(w, true, err);
}

static int attach_reader(struct work *w, struct error *err)
{
	int r = 0;

	if (w->split->state != SPLIT_READY)
		r = make_readable(w, err);
	if (r == 0)
		r = mount_for_reading(w, err);
	if (r == -EROFS) {
		r = make_readable(w, err);
		if (r == 0)
			r = mount_for_reading(w, err);
	}
	return r;
}

/* ---- the whole ---- */

/* Prepare a file system that a guest will mount, and writes to. */
static int prepare_direct(struct work *w, struct error *err)
{
	const bool whole = w->split->suspect;
	int r;

	if (w->split->state != SPLIT_READY) {
		r = operation_step(w->op, err, "format",
				   "formatting the device of volume %s",
				   w->op->name);
		return r < 0 ? r : format_device(w, err);
	}
	r = operation_step(w->op, err, "check",
			   "checking%s the device of volume %s",
			   whole ? " all of" : "", w->op->name);
	if (r == 0)
		r = split_verify(w, err);
	if (r == 0)
		r = split_suspect_set(w->op, w->split, true, NULL, err);
	return r < 0 ? r
		     : split_check(w->op, w->split, whole, w->device.device,
				   w->branch, err);
}

/* A guest that only reads can replay no journal: whether it has to shows. */
static int prepare_direct_reader(struct work *w, struct error *err)
{
	int r = 0;

	if (w->split->state != SPLIT_READY) {
		r = initiator_detach(w->dir, w->split->extent, err);
		if (r == 0)
			r = attach_device(w, false, err);
		if (r == 0)
			r = prepare_direct(w, err);
		if (r == 0)
			r = save_state(w, SPLIT_READY, err);
		if (r == 0)
			r = initiator_detach(w->dir, w->split->extent, err);
	}
	if (r == 0)
		r = attach_reader(w, err);
	return r < 0 ? r : mounts_remove(w->branch, false, err);
}

/*
 * Tell whether a guest may be using the file system already. Then it is not
 * checked. Until it is checked it is suspect.
 */
static bool may_be_used(const struct work *w)
{
	struct initiator_device before;

	return w->split->state == SPLIT_READY && !w->split->suspect &&
	       initiator_get(w->dir, w->split->extent, &before, NULL) == 0;
}

static int attach_linear(struct work *w, struct error *err)
{
	bool looks = volume_spec_direct(&w->op->record->spec) &&
		     !may_be_used(w);
	int r = attach_device(w, w->how->read_only, err);

	if (r == 0 && looks)
		r = w->how->read_only ? prepare_direct_reader(w, err)
				      : prepare_direct(w, err);
	/* Somebody may write to it from here on. */
	if (r == 0 && w->split->state != SPLIT_READY)
		r = save_state(w, SPLIT_READY, err);
	if (r == 0 && w->split->fs_behind)
		r = split_set_behind(w->op, w->split, false, err);
	return r;
}

static int attach_writer(struct work *w, struct error *err)
{
	int r = attach_device(w, false, err);

	return r < 0 ? r : mount_for_writing(w, err);
}

static int split_attach_run(struct work *w, struct error *err)
{
	const struct volume_split *split = w->split;
	size_t n = w->op->record->n_splits;
	int r = operation_step(w->op, err, "export",
			       "exporting split %u of %zu on node %s",
			       split->index + 1, n, split->node);

	if (r == 0)
		r = split_prepare(w, err);
	if (r == 0)
		r = operation_step(
			w->op, err, "device",
			"attaching split %u of %zu from %s", split->index + 1,
			n, w->local ? w->extent.path : w->node.data_address);
	if (r < 0)
		return r;
	if (w->how->device_only)
		return attach_device(w, w->how->read_only, err);
	if (w->how->linear)
		return attach_linear(w, err);
	return w->how->read_only ? attach_reader(w, err)
				 : attach_writer(w, err);
}

int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err)
{
	struct work w = {
		.op = op,
		.split = split,
		.how = how,
		.here = strcmp(split->node, op->ctx->node) == 0,
	};
	int r;

	context_initiator_dir(op->ctx, w.dir);
	local_branch_dir(op->ctx, op->name, split->index, w.branch);
	r = split_attach_run(&w, err);
	node_extent_done(&w.extent);
	node_record_done(&w.node);
	return r;
}
