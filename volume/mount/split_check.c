/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about a split's file system go into the record, and to people. */
#include "volume/mount/split_check.h"
#include "volume/mount/branch_fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "volume/mount/local.h"
#include "volume/mount/mounts.h"
#include "volume/mount/union_process.h"

/* ---- the record ---- */

int split_suspect_set(struct operation *op, struct volume_split *split,
		      bool suspect, const char *problem, struct error *err)
{
	bool changed;
	int r = 0;

	operation_lock(op);
	changed = split->suspect != suspect;
	split->suspect = suspect;
	if (problem) /* no room for it: the error says it, too */
		changed |= volume_record_condition(
				   op->record, VOLUME_CONDITION_SOUND, false,
				   "Damaged", problem) == 0;
	if (changed)
		r = operation_save(op, err);
	operation_unlock(op);
	return r;
}

void split_check_sound(struct volume_record *record)
{
	for (size_t i = 0; i < record->n_conditions; i++) {
		const struct volume_condition *c = &record->conditions[i];

		/* Where it never was in doubt nothing is said. */
		if (strcmp(c->type, VOLUME_CONDITION_SOUND) == 0 && !c->status)
			(void)volume_record_condition(
				record, VOLUME_CONDITION_SOUND, true, "Checked",
				"every file system was checked");
	}
}

/* Tell whether its file system gave up, or met damage while it was used. */
static bool is_suspect(struct operation *op, const struct volume_split *split,
		       const char *mount_point, const struct union_state *met)
{
	char branch[PATH_MAX], data[PATH_MAX];
	struct mount_info info;
	int number;

	local_branch_dir(op->ctx, op->name,
			 local_branch_number(op->record, split), branch);
	(void)snprintf(data, sizeof(data), "%.4000s/" BRANCH_DATA_DIR, branch);
	number = union_branch_number(mount_point, met, data, split->index);
	return mounts_find(branch, &info, NULL) == 0 &&
	       (info.failed || (number >= 0 && met->damaged[number]));
}

void split_check_note_failed(struct operation *op)
{
	struct union_state met = {0};
	const struct volume_attachment *a;

	a = op->record ? volume_record_attachment(op->record, op->ctx->node)
		       : NULL;
	if (!a || a->state == ATTACHMENT_PUBLISHED || a->read_only)
		return;
	/* A union that does not answer met nothing that is known. */
	(void)union_state_get(a->mount_point, &met);
	for (size_t i = 0; i < op->record->n_splits; i++) {
		struct volume_split *split = &op->record->splits[i];

		/* Not saved: if that is lost, all is as after a crash. */
		if (split->state == SPLIT_READY && !split->lost &&
		    is_suspect(op, split, a->mount_point, &met))
			(void)split_suspect_set(op, split, true, NULL, NULL);
	}
}

/* ---- people ---- */

void split_check_advice(const struct operation *op,
			const struct volume_split *split,
			enum branch_verdict verdict, char *ret, size_t size)
{
	const bool xfs = strcmp(op->record->spec.fs_type, "xfs") == 0;
	const char *tool = xfs ? "xfs_repair -L" : "e2fsck -f";
	const char *loss =
		xfs ? "its log can't be replayed, and the last changes are lost "
		      "with it: "
		    : "";

	if (verdict == BRANCH_DAMAGED && xfs)
		(void)snprintf(ret, size,
			       "`trib volume check --repair %s` runs "
			       "xfs_repair",
			       op->name);
	else if (volume_spec_is_device(&op->record->spec) &&
		 volume_spec_is_tree(&op->record->spec))
		(void)snprintf(ret, size,
			       "%srun `%s \"$(trib mount %s)\"`, then `trib "
			       "umount %s`",
			       loss, tool, op->name, op->name);
	else
		(void)snprintf(
			ret, size,
			"%srun `%s \"$(trib attach --force %s/%s)\"`, then `trib "
			"detach %s/%s`",
			loss, tool, split->node, split->extent, split->node,
			split->extent);
}

int split_check_refuse(struct operation *op, struct volume_split *split,
		       const struct branch_found *found, struct error *err)
{
	char text[RECORD_TEXT_SIZE], how[420];

	(void)snprintf(text, sizeof(text),
		       "split %u on node %s is damaged: %.120s", split->index,
		       split->node, found->what);
	/* If it can't be saved it is found again. */
	(void)split_suspect_set(op, split, true, text, NULL);
	split_check_advice(op, split, found->verdict, how, sizeof(how));
	return error_set(err, EUCLEAN,
			 "the file system of split %u needs a person: %s; then "
			 "repeat. What was found: %s",
			 split->index, how, found->what);
}

void split_check_tell(struct operation *op, const struct volume_split *split,
		      const struct branch_found *found)
{
	log_warning("volume=%s split=%u extent=%s/%s: its file system was "
		    "mended: %s",
		    op->name, split->index, split->node, split->extent,
		    found->what);
	(void)store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name, true,
			 "FileSystemMended", NULL, "split %u on node %s: %s",
			 split->index, split->node, found->what);
}

/* ---- at attach ---- */

int split_check(struct operation *op, struct volume_split *split, bool whole,
		const char *device, const char *target, struct error *err)
{
	const struct branch_check check = {
		.device = device,
		.type = op->record->spec.fs_type,
		.target = target,
		.whole = whole,
		.cancel_fd = op->ctx->cancel_fd,
	};
	struct branch_found found;
	int r = branch_check_mend(&check, &found, err);

	if (r < 0)
		return r;
	if (found.verdict == BRANCH_MENDED)
		split_check_tell(op, split, &found);
	else if (found.verdict != BRANCH_SOUND)
		return split_check_refuse(op, split, &found, err);
	return split_suspect_set(op, split, false, NULL, err);
}

int split_check_unmountable(struct operation *op, struct volume_split *split,
			    const char *device, int r, struct error *err)
{
	const struct branch_check check = {
		.device = device,
		.type = op->record->spec.fs_type,
		.cancel_fd = op->ctx->cancel_fd,
	};
	struct branch_found found = {.verdict = BRANCH_DAMAGED};

	if (!branch_check_is_damage(r))
		return r;
	(void)snprintf(found.what, sizeof(found.what),
		       "it can't be mounted: %s", strerror(-r));
	/*
	 * EIO may come from the device as well. A look at the whole file system
	 * tells.
	 */
	if (r == -EIO && (branch_check_look(&check, &found, NULL) < 0 ||
			  found.verdict == BRANCH_SOUND))
		return r;
	return split_check_refuse(op, split, &found, err);
}
