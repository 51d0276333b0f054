/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/local_union.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"

void local_union_branch(const struct volume_context *ctx, const char *volume,
			const struct volume_split *split,
			struct union_branch *ret)
{
	char dir[PATH_MAX];

	local_branch_dir(ctx, volume, split->index, dir);
	(void)snprintf(ret->path, sizeof(ret->path), "%.4000s/" BRANCH_DATA_DIR,
		       dir);
	ret->local = strcmp(split->node, ctx->node) == 0;
}

void local_union_control(const struct volume_context *ctx, const char *volume,
			 char *ret)
{
	static const struct sockaddr_un address;
	char dir[PATH_MAX];

	local_volume_dir(ctx, volume, dir);
	(void)snprintf(ret, PATH_MAX, "%.4000s/" LOCAL_CONTROL_FILE, dir);
	/* The path is an option of the union, in a list with commas. */
	if (strlen(ret) >= sizeof(address.sun_path) || strpbrk(ret, ",\\"))
		ret[0] = '\0';
}

bool local_union_has(const char *mount_point, size_t n)
{
	struct union_state state;

	return union_state_get(mount_point, &state) == 0 && state.branches >= n;
}

static int union_add_branch(struct operation *op,
			    const struct volume_split *split,
			    const char *control, struct error *err)
{
	struct union_branch branch;
	unsigned number = 0;
	int r = operation_step(op, err, "union",
			       "adding split %u of %zu to the union",
			       split->index + 1, op->record->n_splits);

	if (r < 0)
		return r;
	local_union_branch(op->ctx, op->name, split, &branch);
	r = union_add(op->ctx->bin_dir, control, &branch, &number, err);
	if (r == 0 && number != split->index)
		r = error_set(
			err, EIO,
			"the union has split %u as branch %u: another process "
			"added branches to it; mount the volume anew",
			split->index, number);
	return r;
}

int local_union_follow(struct operation *op, const char *mount_point,
		       struct error *err)
{
	size_t made = volume_record_made(op->record), has;
	struct union_state state;
	char control[PATH_MAX];
	int r = union_state_get(mount_point, &state);

	if (r < 0)
		return error_set(err, EIO,
				 "the union at '%s' does not answer; `trib "
				 "mount` repairs it",
				 mount_point);
	has = state.branches;
	local_union_control(op->ctx, op->name, control);
	for (size_t i = has; r == 0 && i < made; i++)
		r = union_add_branch(op, &op->record->splits[i], control, err);
	if (r == -EOPNOTSUPP)
		(void)error_prefix(err, r,
				   "%zu new extents are there, formatted and "
				   "mounted, and join the volume at its next "
				   "mount: ",
				   made - has);
	return r;
}
