/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system on a split's device: whether it may be made, that it is the
 * split's own, that it is as large as the device.
 */
#include <errno.h>
#include <string.h>

#include "volume/mount/attach.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/split_check.h"
#include "volume/mount/split_job.h"

int split_job_save(struct split_job *w, enum split_state state,
		   struct error *err)
{
	int r;

	operation_lock(w->op);
	w->split->state = state;
	for (size_t i = 0; !w->waits && i < w->n_others; i++)
		w->others[i].split->state = state;
	r = operation_save(w->op, err);
	operation_unlock(w->op);
	return r;
}

static bool is_own(const struct split_job *w, const struct branch_probe *probe)
{
	return strcmp(probe->type, w->op->record->spec.fs_type) == 0 &&
	       strcmp(probe->uuid, w->split->fs_uuid) == 0;
}

/* Return the first of a device's splits that was written; NULL: none was. */
static const struct split_job *written_one(const struct split_job *w)
{
	if (w->written)
		return w;
	for (size_t i = 0; i < w->n_others; i++)
		if (w->others[i].written)
			return &w->others[i];
	return NULL;
}

static int refuse_to_format(const struct split_job *w,
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

int split_job_format(struct split_job *w, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	bool first = w->split->state == SPLIT_CREATED;
	const struct split_job *written = written_one(w);
	struct branch_probe probe;
	int r;

	if (first) {
		r = branch_fs_probe(w->device.device, &probe, err);
		if (r < 0)
			return r;
		if (!is_own(w, &probe) && (probe.found || written))
			return refuse_to_format(written ? written : w, &probe,
						err);
		r = split_job_save(w, SPLIT_FORMATTING, err);
		if (r < 0)
			return r;
	}
	r = branch_fs_make(w->device.device, spec->fs_type, w->split->fs_uuid,
			   first, w->op->ctx->cancel_fd, err);
	if (r == -EUCLEAN)
		(void)error_prefix(err, r, "extent '%s' on node '%s': ",
				   w->split->extent, w->split->node);
	return r;
}

int split_job_verify(struct split_job *w, struct error *err)
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
