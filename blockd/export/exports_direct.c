/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/exports_direct.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "blockd/extent/node_tables.h"

static bool is_epoch_of(const struct extent *extent, uint64_t epoch,
			const char *grant)
{
	const struct extent_export *now = &extent->record.export;

	return now->exists && now->active && now->epoch == epoch &&
	       strcmp(now->grant, grant) == 0;
}

/* -EOPNOTSUPP: all of its requests have to pass blockd. */
static int check_may(const struct extent *extent, struct error *err)
{
	const struct extent_record *record = &extent->record;

	if (!extent->pool->pool->ops->direct_attach)
		return error_set(err, EOPNOTSUPP,
				 "the pool of extent '%s' is not raw",
				 record->name);
	if (record->export.read_only)
		return error_set(err, EOPNOTSUPP,
				 "extent '%s' is exported for reading only",
				 record->name);
	if (record->limits.iops || record->limits.bytes_per_second)
		return error_set(
			err, EOPNOTSUPP,
			"extent '%s' has limits, which blockd enforces",
			record->name);
	return 0;
}

static int attach_begun(struct extent *extent, uint64_t epoch,
			const char *grant, const char *uuid, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	int r;

	if (!is_epoch_of(extent, epoch, grant))
		return error_set(err, ESTALE,
				 "epoch %" PRIu64 " of extent '%s' is over, or "
				 "was granted to another attachment",
				 epoch, extent->record.name);
	r = check_may(extent, err);
	return r < 0 ? r
		     : pool->ops->direct_attach(pool, extent->record.name, uuid,
						epoch, err);
}

int exports_direct_attach(struct extent *extent, uint64_t epoch,
			  const char *grant, const char *uuid,
			  struct error *err)
{
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	r = attach_begun(extent, epoch, grant, uuid, err);
	extent_end(extent);
	if (r == 0)
		log_info("extent %s: device %s may have direct runs",
			 extent->record.name, uuid);
	return r;
}

int exports_direct_detach(struct extent *extent, uint64_t epoch,
			  const char *grant, struct error *err)
{
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	if (is_epoch_of(extent, epoch, grant))
		r = extent_direct_end(extent, err);
	extent_end(extent);
	return r;
}
