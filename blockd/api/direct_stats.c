/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/direct_stats.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/dm/mapper.h"
#include "blockd/api/metrics_stats.h"

#define SECTOR 512 /* bytes; Documentation/block/stat.rst */

/* Counters of a block device; Documentation/block/stat.rst. */
static void counters_read(dev_t device, struct direct_stats *ret)
{
	unsigned long long n[17] = {0};
	char path[64];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat",
		       major(device), minor(device));
	file = fopen(path, "re");
	for (size_t i = 0; file && i < array_size(n); i++)
		if (fscanf(file, "%llu", &n[i]) != 1)
			break;
	if (file)
		(void)fclose(file); /* was only read */
	ret->reads = n[0];
	ret->read_bytes = n[2] * SECTOR;
	ret->writes = n[4];
	ret->written_bytes = n[6] * SECTOR;
	ret->discards = n[11];
	ret->flushes = n[15];
}

bool direct_stats_get(const struct extent *extent, struct direct_stats *ret)
{
	struct pool *pool = extent->pool->pool;
	struct mapper_device device;

	*ret = (struct direct_stats){.reads = 0};
	if (!pool->ops->direct_count ||
	    pool->ops->direct_count(pool, extent->record.name, &ret->is, NULL) <
		    0 ||
	    !ret->is.device[0])
		return false;
	if (mapper_get(&mapper_kernel, ret->is.device, &device, NULL) == 0)
		counters_read(device.device, ret);
	return true;
}

/* ---- /metrics ---- */

struct shown {
	const char *extent; /* borrowed */
	struct direct_stats stats;
};

#define VALUE(member) offsetof(struct direct_stats, member)

/* Rows of one family follow one another. */
static const struct family_row {
	const char *name, *type, *help;
	const char *op; /* NULL: none */
	size_t value;   /* where, in struct direct_stats */
} family_rows[] = {
	{"direct_runs", "gauge",
	 "Pieces of an extent that lie straight on the disk.", NULL,
	 VALUE(is.runs)},
	{"direct_bytes", "gauge", "Bytes in them.", NULL, VALUE(is.bytes)},
	{"device_operations_total", "counter",
	 "Requests to the device over an extent with direct runs.", "read",
	 VALUE(reads)},
	{"device_operations_total", "counter", NULL, "write", VALUE(writes)},
	{"device_operations_total", "counter", NULL, "discard",
	 VALUE(discards)},
	{"device_operations_total", "counter", NULL, "flush", VALUE(flushes)},
	{"device_bytes_total", "counter", "Bytes that they read and wrote.",
	 "read", VALUE(read_bytes)},
	{"device_bytes_total", "counter", NULL, "write", VALUE(written_bytes)},
};

static void row_write(FILE *out, const char *prefix,
		      const struct family_row *row, const struct shown *shown)
{
	const char *base = (const char *)&shown->stats;
	uint64_t value;

	memcpy(&value, base + row->value, sizeof(value));
	(void)fprintf(out, "%s%s{extent=\"%s\"", prefix, row->name,
		      shown->extent);
	if (row->op)
		(void)fprintf(out, ",op=\"%s\"", row->op);
	(void)fprintf(out, "} %" PRIu64 "\n", value);
}

void direct_stats_write(FILE *out, const char *prefix,
			struct extent *const *extents, size_t n)
{
	auto_free struct shown *shown = calloc(n + 1, sizeof(*shown));
	size_t n_shown = 0;

	for (size_t i = 0; shown && i < n; i++) {
		shown[n_shown].extent = extents[i]->record.name;
		n_shown += direct_stats_get(extents[i], &shown[n_shown].stats);
	}
	for (size_t r = 0; n_shown && r < array_size(family_rows); r++) {
		const struct family_row *row = &family_rows[r];

		if (row->help)
			metrics_head(out, prefix, row->name, row->type,
				     row->help);
		for (size_t i = 0; i < n_shown; i++)
			row_write(out, prefix, row, &shown[i]);
	}
}
