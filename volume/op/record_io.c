/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/record_io.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

const struct record_kind record_kind_volume = {RECORD_KIND_VOLUME, "volume"};
const struct record_kind record_kind_snapshot = {RECORD_KIND_SNAPSHOT,
						 "snapshot"};
const struct record_kind record_kind_group = {RECORD_KIND_GROUP,
					      "group snapshot"};

int record_io_load(struct volume_context *ctx, const struct record_kind *kind,
		   const char *name, struct store_object *ret,
		   struct error *err)
{
	int r = ctx->store->ops->get(ctx->store, kind->kind, name, ret, err);

	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no %s '%s'", kind->word,
				 name);
	return r;
}

static int record_io_changed(const struct record_kind *kind, const char *name,
			     struct error *err)
{
	return error_set(
		err, EAGAIN,
		"the record of %s '%s' was changed by another process; "
		"repeat the command",
		kind->word, name);
}

int record_io_save(struct volume_context *ctx, const struct record_kind *kind,
		   const char *name, char *json_, char *version,
		   struct error *err)
{
	const struct store_ops *ops = ctx->store->ops;
	auto_free char *json = json_;
	int r;

	if (!version[0])
		return ops->create(ctx->store, kind->kind, name, json, version,
				   err);
	r = ops->compare_and_swap(ctx->store, kind->kind, name, version, json,
				  version, err);
	/* Although we have the lease: */
	return r == -ESTALE || r == -ENOENT ? record_io_changed(kind, name, err)
					    : r;
}

int record_io_remove(struct volume_context *ctx, const struct record_kind *kind,
		     const char *name, const char *version, struct error *err)
{
	int r = ctx->store->ops->remove(ctx->store, kind->kind, name, version,
					err);

	if (r == -ESTALE)
		return record_io_changed(kind, name, err);
	return r == -ENOENT ? 0 : r;
}
