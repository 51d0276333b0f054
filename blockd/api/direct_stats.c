/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/direct_stats.h"

#include <inttypes.h>
#include <stdlib.h>
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

static uint64_t runs_of(const struct direct_stats *s)
{
	return s->is.runs;
}

static uint64_t bytes_of(const struct direct_stats *s)
{
	return s->is.bytes;
}

static void gauge_write(FILE *out, const char *prefix, const char *name,
			const char *help,
			uint64_t (*value)(const struct direct_stats *s),
			const struct shown *shown, size_t n)
{
	metrics_head(out, prefix, name, "gauge", help);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(out, "%s%s{extent=\"%s\"} %" PRIu64 "\n", prefix,
			      name, shown[i].extent, value(&shown[i].stats));
}

static void row_write(FILE *out, const char *prefix, const char *name,
		      const struct shown *shown, const char *op, uint64_t value)
{
	(void)fprintf(out, "%s%s{extent=\"%s\",op=\"%s\"} %" PRIu64 "\n",
		      prefix, name, shown->extent, op, value);
}

static void counters_write(FILE *out, const char *prefix,
			   const struct shown *shown, size_t n)
{
	static const char operations[] = "device_operations_total";
	static const char bytes[] = "device_bytes_total";

	metrics_head(out, prefix, operations, "counter",
		     "Requests to the device over an extent with direct runs.");
	for (size_t i = 0; i < n; i++) {
		const struct direct_stats *s = &shown[i].stats;

		row_write(out, prefix, operations, &shown[i], "read", s->reads);
		row_write(out, prefix, operations, &shown[i], "write",
			  s->writes);
		row_write(out, prefix, operations, &shown[i], "discard",
			  s->discards);
		row_write(out, prefix, operations, &shown[i], "flush",
			  s->flushes);
	}
	metrics_head(out, prefix, bytes, "counter",
		     "Bytes that they read and wrote.");
	for (size_t i = 0; i < n; i++) {
		const struct direct_stats *s = &shown[i].stats;

		row_write(out, prefix, bytes, &shown[i], "read", s->read_bytes);
		row_write(out, prefix, bytes, &shown[i], "write",
			  s->written_bytes);
	}
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
	if (n_shown == 0)
		return;
	gauge_write(out, prefix, "direct_runs",
		    "Pieces of an extent that lie straight on the disk.",
		    runs_of, shown, n_shown);
	gauge_write(out, prefix, "direct_bytes", "Bytes in them.", bytes_of,
		    shown, n_shown);
	counters_write(out, prefix, shown, n_shown);
}
