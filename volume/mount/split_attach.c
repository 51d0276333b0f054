/* SPDX-License-Identifier: Apache-2.0 */
/* split_attach(): from an extent on its node to a branch on this machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "volume/mount/attach.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/local_fs.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_check.h"
#include "volume/mount/split_job.h"

/* ---- branch ---- */

/* A device failed requests, and its file system may find that out only now. */
static int gave_up(const struct split_job *w, struct error *err)
{
	return error_set(err, EAGAIN,
			 "the file system of split %u failed meanwhile, after "
			 "errors of its device; repeat: it is mounted anew",
			 w->split->index);
}

/* Tell whether our device is mounted as branch. Remove another one's mount. */
static int branch_mounted(struct split_job *w, bool *ret, struct error *err)
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
		return info.failed ? gave_up(w, err) : 0;
	}
	return mounts_remove(w->branch, true, err);
}

static int branch_mount(struct split_job *w, bool read_only, struct error *err)
{
	char source[PATH_MAX];
	int r = local_fs_source(w->op, w->device.device, source, err);

	if (r == 0)
		r = branch_fs_mount(source, w->op->record->spec.fs_type,
				    w->branch, read_only, w->how->options, err);
	return r < 0 && w->split->state == SPLIT_READY
		       ? split_check_unmountable(w->op, w->split,
						 w->device.device, r, err)
		       : r;
}

static int branch_make(struct split_job *w, struct error *err)
{
	int r = split_job_format(w, err);

	if (r == 0)
		r = branch_mount(w, false, err);
	if (r == 0)
		r = branch_fs_make_data(w->branch, err);
	if (r == 0)
		r = split_job_save(w, SPLIT_READY, err);
	return r;
}

/* A device that may be written: whatever is on it becomes a branch. */
static int make_writable(struct split_job *w, struct error *err)
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
		return r < 0 ? r : branch_make(w, err);
	}
	r = operation_step(
		w->op, err, "mount", "checking%s and mounting split %u of %zu",
		split->suspect ? " all of" : "", split->index + 1, n);
	if (r == 0)
		r = split_job_verify(w, err);
	grow = split->fs_behind && !branch_fs_grows_mounted(fs_type);
	/* resize2fs(8) wants to see it checked whole, too. */
	if (r == 0)
		r = split_check(w->op, w->split, grow || split->suspect,
				w->device.device, w->branch, err);
	if (r == 0 && grow)
		r = split_grow_fs(w->op, w->split, w->device.device, NULL, err);
	return r < 0 ? r : branch_mount(w, false, err);
}

/* A device whose server was away for too long has failed requests. */
static int grow_mounted(struct split_job *w, struct error *err)
{
	struct mount_info info;
	int r = split_grow_fs(w->op, w->split, w->device.device, w->branch,
			      err);

	if (r != -EIO || mounts_find(w->branch, &info, NULL) < 0 ||
	    !info.failed)
		return r;
	return gave_up(w, err);
}

static int mount_for_writing(struct split_job *w, struct error *err)
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
static int make_readable(struct split_job *w, struct error *err)
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
		r = split_job_connect(w, false, err);
	if (r == 0)
		r = mount_for_writing(w, err);
	if (r == 0)
		r = mounts_remove(w->branch, false, err);
	if (r == 0)
		r = initiator_detach(w->dir, w->split->extent, err);
	return r;
}

/* -EROFS: it has to be checked. Where others read it was, by the first. */
static int check_readable(struct split_job *w, struct error *err)
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
static int mount_for_reading(struct split_job *w, struct error *err)
{
	bool mounted = false;
	int r = split_job_connect(w, true, err);

	if (r == 0)
		r = branch_mounted(w, &mounted, err);
	if (r < 0 || mounted)
		return r;
	r = operation_step(w->op, err, "mount", "mounting split %u of %zu",
			   w->split->index + 1, w->op->record->n_splits);
	if (r == 0)
		r = split_job_verify(w, err);
	if (r == 0)
		r = check_readable(w, err);
	return r < 0 ? r : branch_mount(w, true, err);
}

static int attach_reader(struct split_job *w, struct error *err)
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
static int prepare_direct(struct split_job *w, struct error *err)
{
	const bool whole = w->split->suspect;
	int r;

	if (w->split->state != SPLIT_READY) {
		r = operation_step(w->op, err, "format",
				   "formatting the device of volume %s",
				   w->op->name);
		return r < 0 ? r : split_job_format(w, err);
	}
	r = operation_step(w->op, err, "check",
			   "checking%s the device of volume %s",
			   whole ? " all of" : "", w->op->name);
	if (r == 0)
		r = split_job_verify(w, err);
	if (r == 0)
		r = split_suspect_set(w->op, w->split, true, NULL, err);
	return r < 0 ? r
		     : split_check(w->op, w->split, whole, w->device.device,
				   w->branch, err);
}

/* A guest that only reads can replay no journal: whether it has to shows. */
static int prepare_direct_reader(struct split_job *w, struct error *err)
{
	int r = 0;

	if (w->split->state != SPLIT_READY) {
		r = initiator_detach(w->dir, w->split->extent, err);
		if (r == 0)
			r = split_job_connect(w, false, err);
		if (r == 0)
			r = prepare_direct(w, err);
		if (r == 0)
			r = split_job_save(w, SPLIT_READY, err);
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
static bool may_be_used(const struct split_job *w)
{
	struct initiator_device before;

	return w->split->state == SPLIT_READY && !w->split->suspect &&
	       initiator_get(w->dir, w->split->extent, &before, NULL) == 0;
}

/* Record that somebody may write to the device from here on. */
static int device_used(struct split_job *w, struct error *err)
{
	const size_t n = w->waits ? 1 : w->n_others + 1;
	struct volume_record *record = w->op->record;
	bool changed = false;
	int r = 0;

	operation_lock(w->op);
	for (size_t i = 0; i < n; i++) {
		struct volume_split *split = &record->splits[i];

		changed = changed || split->state != SPLIT_READY ||
			  (split->fs_behind && !w->waits);
		split->state = SPLIT_READY;
		split->fs_behind = split->fs_behind && w->waits;
	}
	if (changed)
		r = operation_save(w->op, err);
	operation_unlock(w->op);
	return r;
}

/*
 * Give a person the device of a file system, to repair it. The file system is
 * checked whole before its next mount.
 */
static int attach_to_repair(struct split_job *w, struct error *err)
{
	int r = 0;

	if (w->split->state != SPLIT_READY)
		return error_set(err, EINVAL,
				 "volume '%s' has no file system yet, which is "
				 "made when it is mounted: say where",
				 w->op->name);
	if (!w->how->read_only)
		r = split_suspect_set(w->op, w->split, true, NULL, err);
	return r < 0 ? r : split_job_connect(w, w->how->read_only, err);
}

static int attach_bare(struct split_job *w, struct error *err)
{
	bool looks = volume_spec_direct(&w->op->record->spec) &&
		     !may_be_used(w);
	int r = split_job_connect(w, w->how->read_only, err);

	if (r == 0 && looks)
		r = w->how->read_only ? prepare_direct_reader(w, err)
				      : prepare_direct(w, err);
	return r < 0 ? r : device_used(w, err);
}

/*
 * Record that the device has all extents now. Its file system may end before
 * the last of them.
 */
static int device_extended(struct split_job *w, struct error *err)
{
	struct volume_record *record = w->op->record;
	int r = 0;

	operation_lock(w->op);
	if (w->n_others > 0 && !w->waits && w->split->state == SPLIT_READY &&
	    volume_record_fs_behind(record)) {
		for (size_t i = 0; i <= w->n_others; i++) {
			record->splits[i].state = SPLIT_READY;
			record->splits[i].fs_behind = i == 0;
		}
		r = operation_save(w->op, err);
	}
	operation_unlock(w->op);
	return r;
}

static int attach_writer(struct split_job *w, struct error *err)
{
	int r = split_job_connect(w, false, err);

	if (r == 0)
		r = device_extended(w, err);
	return r < 0 ? r : mount_for_writing(w, err);
}

/*
 * Note the device that a cut freezes, for the record as it is written in the
 * end. That of an extent of this node alone is held by its blockd, if that
 * knows it: over a data file, or with direct runs.
 */
static void device_note(struct split_job *w)
{
	const bool held = w->here && !w->joined && (w->local || w->direct);
	const bool frozen = !w->how->read_only && !held;

	operation_lock(w->op);
	(void)snprintf(w->split->device, sizeof(w->split->device), "%s",
		       frozen ? w->device.mapper_uuid : "");
	operation_unlock(w->op);
}

static int split_attach_run(struct split_job *w, struct error *err)
{
	const struct volume_split *split = w->split;
	size_t n = w->op->record->n_splits;
	int r = operation_step(w->op, err, "export",
			       "exporting split %u of %zu on node %s",
			       split->index + 1, n, split->node);

	if (r == 0)
		r = split_job_prepare(w, err);
	if (r == 0)
		r = operation_step(
			w->op, err, "device",
			"attaching split %u of %zu from %s", split->index + 1,
			n, w->local ? w->extent.path : w->node.data_address);
	if (r < 0)
		return r;
	if (w->how->device_only)
		return split_job_connect(w, w->how->read_only, err);
	if (w->how->bare)
		r = volume_spec_is_tree(&w->op->record->spec)
			    ? attach_to_repair(w, err)
			    : attach_bare(w, err);
	else
		r = w->how->read_only ? attach_reader(w, err)
				      : attach_writer(w, err);
	if (r == 0)
		device_note(w);
	return r;
}

/* The splits behind the first one of a device, which go with it. */
static int others_add(struct split_job *w, struct error *err)
{
	if (w->how->n_splits < 2)
		return 0;
	w->others = calloc(w->how->n_splits - 1, sizeof(*w->others));
	if (!w->others)
		return error_set(err, ENOMEM, "out of memory");
	w->joined = true;
	w->n_others = w->how->n_splits - 1;
	for (size_t i = 0; i < w->n_others; i++) {
		struct split_job *one = &w->others[i];

		one->op = w->op;
		one->split = &w->op->record->splits[i + 1];
		one->how = w->how;
		one->here = strcmp(one->split->node, w->op->ctx->node) == 0;
		one->joined = true;
		memcpy(one->dir, w->dir, sizeof(one->dir));
	}
	return 0;
}

static void others_done(struct split_job *w)
{
	for (size_t i = 0; i < w->n_others; i++) {
		node_extent_done(&w->others[i].extent);
		node_record_done(&w->others[i].node);
	}
	free(w->others);
}

int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err)
{
	struct split_job w = {
		.op = op,
		.split = split,
		.how = how,
		.here = strcmp(split->node, op->ctx->node) == 0,
	};
	int r;

	context_initiator_dir(op->ctx, w.dir);
	local_branch_dir(op->ctx, op->name,
			 local_branch_number(op->record, split), w.branch);
	r = others_add(&w, err);
	if (r == 0)
		r = split_attach_run(&w, err);
	others_done(&w);
	node_extent_done(&w.extent);
	node_record_done(&w.node);
	return r;
}
