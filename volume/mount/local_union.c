/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/local_union.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/local.h"

void local_union_branch(const struct volume_context *ctx,
			const struct volume_record *record,
			const struct volume_split *split,
			struct union_branch *ret)
{
	char dir[PATH_MAX];

	local_branch_dir(ctx, record->name, local_branch_number(record, split),
			 dir);
	(void)snprintf(ret->path, sizeof(ret->path), "%.4000s/" BRANCH_DATA_DIR,
		       dir);
	ret->local = strcmp(split->node, ctx->node) == 0;
	ret->absent = split->lost;
}

/* ---- its place in inode numbers ---- */

#define PLACE_DIR  ".tributary" /* docs/union.md */
#define PLACE_FILE PLACE_DIR "/place"
#define TURN_MAX   255

static int branch_open(const struct operation *op,
		       const struct volume_split *split)
{
	struct union_branch branch;
	int fd;

	local_union_branch(op->ctx, op->record, split, &branch);
	fd = open(branch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The turn in the note of a branch, mounted here; 0: no note. */
static unsigned turn_read(const struct operation *op,
			  const struct volume_split *split)
{
	auto_close int fd = branch_open(op, split);
	auto_free char *text = NULL;
	unsigned turn = 0;
	size_t length;

	if (fd < 0 || file_read(fd, PLACE_FILE, 32, &text, &length, NULL) < 0 ||
	    sscanf(text, "%*3u %3u", &turn) != 1)
		return 0;
	return turn;
}

/* A branch that left the union has lost its note: the other one tells. */
static unsigned turn_of(const struct operation *op,
			const struct volume_split *split)
{
	const struct volume_split *leaving = volume_record_leaving(op->record);
	const struct volume_split *successor = volume_record_successor(
		op->record);
	unsigned turn = turn_read(op, split);

	if (turn == 0 && successor && split == successor)
		turn = turn_read(op, leaving) % TURN_MAX + 1;
	else if (turn == 0 && leaving && split == leaving)
		turn = turn_read(op, successor);
	else
		return turn;
	return split == leaving && turn > 0 ? turn - 1 : turn;
}

int local_union_note_place(const struct operation *op,
			   const struct volume_split *split, struct error *err)
{
	const struct volume_split *leaving = volume_record_leaving(op->record);
	auto_close int fd = branch_open(op, split);
	char text[32];
	int n = snprintf(text, sizeof(text), "%u %u\n",
			 leaving && split == volume_record_successor(op->record)
				 ? leaving->index
				 : split->index,
			 turn_of(op, split));

	if (fd < 0 || (mkdirat(fd, PLACE_DIR, 0700) < 0 && errno != EEXIST))
		return error_set(err, fd < 0 ? -fd : errno,
				 "note the place of split %u: %s", split->index,
				 strerror(fd < 0 ? -fd : errno));
	return file_replace(fd, PLACE_FILE, text, (size_t)n, 0600, err);
}

/* ---- the union ---- */

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

static bool lacks(const struct volume_context *ctx, const char *mount_point,
		  const struct union_state *state,
		  const struct volume_record *record,
		  const struct volume_split *split)
{
	struct union_branch branch;

	local_union_branch(ctx, record, split, &branch);
	return !split->lost &&
	       union_branch_number(mount_point, state, branch.path,
				   split->index) < 0;
}

bool local_union_has(const struct volume_context *ctx, const char *mount_point,
		     const struct volume_record *record, size_t n)
{
	struct union_state state;
	bool has = union_state_get(mount_point, &state) == 0;

	for (size_t i = 0; has && i < n; i++)
		has = !lacks(ctx, mount_point, &state, record,
			     &record->splits[i]);
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

/*
 * Where branches have left the union, the new one gets another number than at
 * the next mount. Its inode numbers are those of that place at once.
 */
static int union_add_branch(struct operation *op,
			    const struct volume_split *split,
			    const struct union_state *state,
			    const char *control, struct error *err)
{
	struct union_branch branch;
	unsigned number = 0;
	int r = operation_step(op, err, "union",
			       "adding split %u of %zu to the union",
			       split->index + 1, op->record->n_splits);

	if (r == 0 && state->any_gone)
		r = local_union_note_place(op, split, err);
	if (r < 0)
		return r;
	local_union_branch(op->ctx, op->record, split, &branch);
	r = union_add(op->ctx->bin_dir, control, &branch, &number, err);
	if (r == 0 && number != split->index && !state->any_gone)
		r = error_set(
			err, EIO,
			"the union has split %u as branch %u: another process "
			"added branches to it; mount the volume anew",
			split->index, number);
	return r;
}

/* Add those of @n splits from @splits that are lacking. */
static int follow(struct operation *op, const char *mount_point,
		  const struct volume_split *splits, size_t n,
		  struct error *err)
{
	struct union_state state;
	char control[PATH_MAX];
	size_t missing = 0;
	int r = union_state_get(mount_point, &state);

	if (r < 0)
		return error_set(err, EIO,
				 "the union at '%s' does not answer; `trib "
				 "mount` repairs it",
				 mount_point);
	local_union_control(op->ctx, op->name, control);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!lacks(op->ctx, mount_point, &state, op->record,
			   &splits[i]))
			continue;
		missing++;
		r = union_add_branch(op, &splits[i], &state, control, err);
	}
	if (r == -EOPNOTSUPP)
		(void)error_prefix(err, r,
				   "%zu new extents are there, formatted and "
				   "mounted, and join the volume at its next "
				   "mount: ",
				   missing);
	return r;
}

int local_union_follow(struct operation *op, const char *mount_point,
		       struct error *err)
{
	return follow(op, mount_point, op->record->splits,
		      volume_record_attached(op->record, false), err);
}

int local_union_follow_one(struct operation *op, const char *mount_point,
			   const struct volume_split *split, struct error *err)
{
	return follow(op, mount_point, split, 1, err);
}
