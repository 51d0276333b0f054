/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/extent/split_use.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/extent/export_stats.h"

#define SECTOR 512 /* bytes; Linux, Documentation/block/stat.rst */

/* ---- by the kernel ---- */

/* Read /sys/class/block/NAME/stat of the device at @path. */
static int device_read(const char *path, struct split_use *ret)
{
	auto_free char *real = realpath(path, NULL);
	const char *name = real ? strrchr(real, '/') : NULL;
	uint64_t sectors_read, sectors_written, read_ms, write_ms;
	char file[PATH_MAX];
	FILE *stat;
	int n;

	if (!name)
		return -ENOENT;
	(void)snprintf(ret->counter, sizeof(ret->counter), "device %.60s",
		       name + 1);
	(void)snprintf(file, sizeof(file), "/sys/class/block/%.60s/stat",
		       name + 1);
	stat = fopen(file, "re");
	if (!stat)
		return -errno;
	/* Requests, merged ones, sectors, ms: of reads, then of writes. */
	n = fscanf(stat,
		   "%" SCNu64 " %*u %" SCNu64 " %" SCNu64 " %" SCNu64
		   " %*u %" SCNu64 " %" SCNu64,
		   &ret->reads, &sectors_read, &read_ms, &ret->writes,
		   &sectors_written, &write_ms);
	(void)fclose(stat);
	if (n != 6)
		return -EPROTO;
	ret->read_bytes = sectors_read * SECTOR;
	ret->read_us = read_ms * 1000;
	ret->write_bytes = sectors_written * SECTOR;
	ret->write_us = write_ms * 1000;
	return 0;
}

/* The device of a split, or its part of the volume's device. */
static int device_find(struct volume_context *ctx,
		       const struct volume_record *record, unsigned index,
		       struct initiator_device *ret, struct error *err)
{
	char dir[PATH_MAX];

	context_initiator_dir(ctx, dir);
	if (volume_spec_is_device(&record->spec) && record->n_splits > 1)
		return initiator_get_part(dir, record->splits[0].extent, index,
					  ret, err);
	return initiator_get(dir, record->splits[index].extent, ret, err);
}

static void use_here(struct volume_context *ctx,
		     const struct volume_record *record, unsigned index,
		     struct split_use *ret)
{
	struct initiator_device device;
	struct error err = {0};
	int r = device_find(ctx, record, index, &device, &err);

	if (r == 0) {
		r = device_read(device.device, ret);
		if (r < 0)
			(void)error_set(&err, -r,
					"the counters of %.60s cannot be read",
					device.device);
	}
	ret->known = r == 0;
	if (r < 0)
		(void)snprintf(ret->why, sizeof(ret->why), "%.250s",
			       error_text(&err));
}

/* ---- by the export ---- */

static void use_add_operation(struct split_use *use,
			      const struct operation_stats *o)
{
	if (strcmp(o->operation, "read") == 0) {
		use->reads += o->count;
		use->read_bytes += o->bytes;
		use->read_us += o->total_us;
	} else if (strcmp(o->operation, "write") == 0) {
		use->writes += o->count;
		use->write_bytes += o->bytes;
		use->write_us += o->total_us;
	}
}

static void use_by_export(struct volume_context *ctx,
			  const struct volume_split *split,
			  struct split_use *ret)
{
	struct export_use use = {0};
	struct error err = {0};
	int r = volume_extent_stats(ctx, split->node, split->extent, &use,
				    &err);

	(void)snprintf(ret->counter, sizeof(ret->counter), "export %s",
		       split->extent);
	for (size_t i = 0; r == 0 && i < use.n_operations; i++)
		use_add_operation(ret, &use.operations[i]);
	free(use.connections);
	ret->known = r == 0;
	if (r < 0)
		(void)snprintf(ret->why, sizeof(ret->why), "%.250s",
			       error_text(&err));
}

/* ---- either ---- */

/* The first attachment for which there may be devices; NULL: none. */
static const struct volume_attachment *attached_on(
	const struct volume_record *record, const char *node, bool other)
{
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state != ATTACHMENT_PUBLISHED &&
		    (strcmp(a->node, node) != 0) == other)
			return a;
	}
	return NULL;
}

void volume_split_use(struct volume_context *ctx,
		      const struct volume_record *record, unsigned index,
		      struct split_use *ret)
{
	const struct volume_split *split = &record->splits[index];
	bool others = attached_on(record, ctx->node, true);

	*ret = (struct split_use){0};
	if (split->lost)
		(void)strcpy(ret->why, "the split is lost");
	else if (!others && attached_on(record, ctx->node, false))
		use_here(ctx, record, index, ret);
	else if (others && attached_on(record, split->node, false))
		(void)snprintf(ret->why, sizeof(ret->why),
			       "only the kernel of node %s, which uses its own "
			       "split, counts it: `trib top` there",
			       split->node);
	else
		use_by_export(ctx, split, ret);
}
