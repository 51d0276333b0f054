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
	ret->absent = split->lost;
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

static bool lacks(const struct union_state *state,
		  const struct volume_split *split)
{
	return !split->lost &&
	       (split->index >= state->branches || state->absent[split->index]);
}

bool local_union_has(const char *mount_point,
		     const struct volume_record *record, size_t n)
{
	struct union_state state;
	bool has = union_state_get(mount_point, &state) == 0;

	for (size_t i = 0; has && i < n; i++)
		has = !lacks(&state, &record->splits[i]);
	return has;
}

bool local_union_keeps_places(const char *mount_point,
			      const struct volume_record *record)
{
	struct union_state state;
	bool keeps = union_state_get(mount_point, &state) == 0;

	for (size_t i = 0; keeps && i < record->n_splits; i++)
		keeps = !record->splits[i].lost || state.absent[i];
	return keeps;
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
	size_t made = volume_record_made(op->record), missing = 0;
	struct union_state state;
	char control[PATH_MAX];
	int r = union_state_get(mount_point, &state);

	if (r < 0)
		return error_set(err, EIO,
				 "the union at '%s' does not answer; `trib "
				 "mount` repairs it",
				 mount_point);
	local_union_control(op->ctx, op->name, control);
	for (size_t i = 0; r == 0 && i < made; i++) {
		if (!lacks(&state, &op->record->splits[i]))
			continue;
		missing++;
		r = union_add_branch(op, &op->record->splits[i], control, err);
	}
	if (r == -EOPNOTSUPP)
		(void)error_prefix(err, r,
				   "%zu new extents are there, formatted and "
				   "mounted, and join the volume at its next "
				   "mount: ",
				   missing);
	return r;
}
