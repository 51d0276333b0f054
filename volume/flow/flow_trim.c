/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_trim(): let the file systems of the splits tell their devices of
 * unused blocks. Past the union, which may be busy, and without the record's
 * lease: nothing of the volume changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "volume/mount/local.h"
#include "volume/mount/mounts.h"
#include "volume/mount/split_direct.h"
#include "volume/op/context.h"
#include "volume/op/volume_walk.h"

static int trim_branch(const struct volume_context *ctx,
		       const struct volume_record *record,
		       const struct volume_split *split, uint64_t *ret,
		       struct error *err)
{
	struct fstrim_range range = {.len = UINT64_MAX};
	struct mount_info mounted;
	char path[PATH_MAX];
	auto_close int fd = -1;
	int r;

	local_branch_dir(ctx, record->name, local_branch_number(record, split),
			 path);
	r = mounts_find(path, &mounted, NULL);
	if (r < 0) /* what its directory is on is not the volume's */
		return error_set(err, -r, "split %u is not mounted at '%s'",
				 split->index, path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, FITRIM, &range) < 0)
		return error_set(err, errno, "split %u, '%s': %s", split->index,
				 path, strerror(errno));
	*ret += range.len;
	return 0;
}

static int trim_check(const struct volume_context *ctx,
		      const struct volume_record *record, struct error *err)
{
	const struct volume_attachment *a = volume_record_attachment(record,
								     ctx->node);

	if (!volume_spec_is_tree(&record->spec))
		return error_set(
			err, EOPNOTSUPP,
			"it is a block device: its user trims it, by fstrim or "
			"blkdiscard");
	if (a && a->state != ATTACHMENT_PUBLISHED && a->read_only)
		return error_set(err, EROFS, "it is mounted read-only here");
	if (a && a->state != ATTACHMENT_PUBLISHED)
		return 0;
	if (record->n_attachments > 0)
		return error_set(err, EBUSY,
				 "it is not mounted here: repeat the command "
				 "on %s",
				 record->attachments[0].node);
	return error_set(err, EBUSY, "it is mounted nowhere: mount it first");
}

/*
 * Trim one file system. The blockd of each extent below has to hear of it; of
 * direct runs only the disk does.
 */
static int trim_one(struct volume_context *ctx,
		    const struct volume_record *record, size_t index,
		    uint64_t *ret, struct error *err)
{
	const bool device = volume_spec_is_device(&record->spec);
	const size_t n = device ? record->n_splits : 1;
	const struct volume_split *splits = &record->splits[index];
	auto_free struct split_direct *direct = calloc(n, sizeof(*direct));
	size_t paused = 0;
	int r = 0;

	if (!direct)
		return error_set(err, ENOMEM, "out of memory");
	while (r == 0 && paused < n) {
		r = split_direct_pause(ctx, record, &splits[paused],
				       &direct[paused], err);
		paused++;
	}
	if (r == 0)
		r = trim_branch(ctx, record, splits, ret, err);
	for (size_t i = 0; i < paused; i++)
		r = split_direct_go_on(&direct[i], record, &splits[i], r, err);
	return r;
}

/*
 * Trim every branch. A branch that cannot be trimmed, failed perhaps, keeps no
 * other from it.
 */
static int trim_branches(struct volume_context *ctx,
			 const struct volume_record *record, uint64_t *ret,
			 struct error *err)
{
	const size_t n = volume_spec_file_systems(&record->spec,
						  record->n_splits);
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		struct error why = {0};
		int r = record->splits[i].lost
				? 0
				: trim_one(ctx, record, i, ret, &why);

		if (r == 0 || first < 0)
			continue;
		first = r;
		if (err)
			*err = why;
	}
	return first;
}

int volume_trim(struct volume_context *ctx, const char *name, uint64_t *ret,
		struct error *err)
{
	struct volume_record *record = NULL;
	uint64_t bytes = 0;
	int r = volume_get(ctx, name, &record, err);

	if (r == 0)
		r = trim_check(ctx, record, err);
	if (r == 0)
		r = trim_branches(ctx, record, &bytes, err);
	volume_record_free(record);
	if (ret)
		*ret = bytes;
	return r < 0 ? error_prefix(err, r, "trim volume '%s': ", name) : 0;
}

struct trimming {
	struct volume_context *ctx;
	volume_trimmed told; /* may be NULL */
	void *context;
	int first; /* error; 0: none */
	struct error why;
};

static int trim_walked(void *trimming_, const struct volume_record *record,
		       struct error *err)
{
	struct trimming *t = trimming_;
	const struct volume_attachment *a = volume_record_attachment(
		record, t->ctx->node);
	struct error why = {0};
	uint64_t bytes = 0;
	int r;

	(void)err;
	if (!a || a->state != ATTACHMENT_ATTACHED || a->read_only ||
	    !a->mount_point[0])
		return 0;
	r = volume_trim(t->ctx, record->name, &bytes, &why);
	if (t->told)
		t->told(t->context, record->name, bytes,
			r < 0 ? error_text(&why) : NULL);
	if (r < 0 && t->first == 0) {
		t->first = r;
		t->why = why;
	}
	return 0;
}

int volume_trim_here(struct volume_context *ctx, volume_trimmed told,
		     void *context, struct error *err)
{
	struct trimming t = {.ctx = ctx, .told = told, .context = context};
	int r = volume_walk(ctx, NULL, trim_walked, &t, NULL, err);

	if (r == 0 && t.first < 0 && err)
		*err = t.why;
	return r < 0 ? r : t.first;
}
