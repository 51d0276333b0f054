/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/flow/resize_here.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "volume/mount/attach.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"
#include "volume/mount/local_union.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_direct.h"
#include "volume/op/split.h"

/* ---- present splits become larger ---- */

static int check_device(const struct volume_split *split, const char *dir,
			struct initiator_device *ret, struct error *err)
{
	int r = initiator_get_reconnected(dir, split->extent, ret, err);

	if (r == 0 && ret->healthy)
		return 0;
	return error_set(err, EIO,
			 "its extents are as large as asked for, but split %u "
			 "is broken here (%s): `trib mount` repairs it, and "
			 "it follows then",
			 split->index, r < 0 ? error_text(err) : ret->problem);
}

static int check_branch(const struct volume_split *split, const char *branch,
			const struct initiator_device *device,
			struct error *err)
{
	struct mount_info info;
	struct stat st;

	if (mounts_find(branch, &info, NULL) == 0 && !info.failed &&
	    stat(device->device, &st) == 0 && st.st_rdev == info.device)
		return 0;
	return error_set(err, EIO,
			 "its extents are as large as asked for, but split %u "
			 "is broken here (its file system is not mounted): "
			 "`trib mount` repairs it, and it follows then",
			 split->index);
}

static int grow_device(struct operation *op, const struct volume_split *split,
		       struct initiator_device *ret, struct error *err)
{
	struct split_direct direct;
	char dir[PATH_MAX];
	int r;

	context_initiator_dir(op->ctx, dir);
	r = check_device(split, dir, ret, err);
	if (r == 0)
		r = operation_step(op, err, "device",
				   "growing %s of split %u of %zu", ret->device,
				   split->index + 1, op->record->n_splits);
	if (r < 0)
		return r;
	r = split_direct_pause(op->ctx, op->record, split, &direct, err);
	if (r == 0)
		r = initiator_resize(dir, split->extent, split->size, err);
	return split_direct_go_on(&direct, op->record, split, r, err);
}

static int grow_branch(struct operation *op, struct volume_split *split,
		       struct error *err)
{
	struct initiator_device device;
	char branch[PATH_MAX];
	int r = grow_device(op, split, &device, err);

	local_branch_dir(op->ctx, op->name,
			 local_branch_number(op->record, split), branch);
	if (r == 0)
		r = check_branch(split, branch, &device, err);
	if (r == 0)
		r = split_grow_fs(op, split, device.device, branch, err);
	return r;
}

static int grow_one(struct operation *op, struct volume_split *split,
		    struct error *err)
{
	struct initiator_device device;
	int r = grow_device(op, split, &device, err);

	if (r == 0 && split->fs_behind)
		r = split_set_behind(op, split, false, err);
	return r;
}

/* The device takes all splits, if it is of those that can. */
static int grow_joined(struct operation *op, const struct split_attach *how,
		       struct error *err)
{
	struct initiator_device device;
	char dir[PATH_MAX];
	int r;

	context_initiator_dir(op->ctx, dir);
	r = check_device(&op->record->splits[0], dir, &device, err);
	if (r < 0)
		return r;
	if (device.n_parts == 0)
		return error_set(
			err, EOPNOTSUPP,
			"its extents are as large as asked for, but %s, by "
			"'%s', takes no further extent while it is attached: "
			"they join at the next attach",
			device.device, device.transport);
	return split_attach(op, &op->record->splits[0], how, err);
}

/* A bare device has grown when it is larger, else its file system has to be. */
static int grow_as_one(struct operation *op, const struct split_attach *how,
		       struct error *err)
{
	struct volume_split *split = &op->record->splits[0];

	if (how->n_splits > 1)
		return volume_record_fs_behind(op->record)
			       ? grow_joined(op, how, err)
			       : 0;
	if (how->bare)
		return grow_one(op, split, err);
	return split->fs_behind ? grow_branch(op, split, err) : 0;
}

/* ---- new splits join ---- */

static int branches_grow(struct operation *op,
			 const struct volume_attachment *a,
			 const struct split_attach *how, struct error *err)
{
	size_t made = volume_record_made(op->record);
	int r = 0;

	for (size_t i = 0; r == 0 && i < made; i++) {
		struct volume_split *split = &op->record->splits[i];

		if (split->fs_behind)
			r = grow_branch(op, split, err);
		else if (split->state != SPLIT_READY)
			r = split_attach(op, split, how, err);
	}
	return r == 0 ? local_union_follow(op, a->mount_point, err) : r;
}

/* ---- begin ---- */

static const struct volume_attachment *attachment_here(
	const struct operation *op)
{
	const struct volume_attachment *a = volume_record_attachment(
		op->record, op->ctx->node);

	/* A file system whose device a person has to repair it grows later. */
	return a && a->state == ATTACHMENT_ATTACHED && !a->read_only &&
			       (a->mount_point[0] ||
				!volume_spec_is_tree(&op->record->spec))
		       ? a
		       : NULL;
}

bool resize_is_here(const struct operation *op)
{
	return attachment_here(op);
}

int resize_here(struct operation *op, struct error *err)
{
	const struct volume_attachment *a = attachment_here(op);
	const struct volume_spec *spec = &op->record->spec;
	char kept[MOUNT_OPTIONS_MAX];
	struct mount_options options;
	struct split_attach how = {
		.transport = spec->transport,
		.options = &options,
		.bare = !volume_spec_is_tree(spec),
	};
	int r;

	if (!a)
		return 0;
	how.epoch = a->epoch;
	local_options_load(op->ctx, op->name, kept);
	r = mount_options_parse(kept, spec->fs_type, &options, err);
	if (r < 0)
		return r;
	if (!volume_spec_is_device(spec))
		return branches_grow(op, a, &how, err);
	how.n_splits = volume_record_made(op->record);
	return grow_as_one(op, &how, err);
}
