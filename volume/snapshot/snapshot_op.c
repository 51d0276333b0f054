/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/snapshot/snapshot_op.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/op/record_io.h"

int snapshot_name_check(const char *what, const char *name, struct error *err)
{
	int r = name_check(what, name, err);

	if (r == 0 && strlen(name) > SNAPSHOT_NAME_MAX)
		r = error_set(err, EINVAL,
			      "the %s name '%s' is longer than %d bytes", what,
			      name, SNAPSHOT_NAME_MAX);
	return r;
}

static int snapshot_lease(struct volume_context *ctx,
			  const struct record_kind *kind, const char *name,
			  const char *doing, struct error *err)
{
	int r = name_check(kind->word, name, err);

	return r < 0 ? r
		     : ctx->store->ops->lease(ctx->store, kind->kind, name,
					      doing, err);
}

static void snapshot_release(struct volume_context *ctx,
			     const struct record_kind *kind, const char *name)
{
	ctx->store->ops->release(ctx->store, kind->kind, name);
}

/* ---- one snapshot ---- */

int volume_snapshot_get(struct volume_context *ctx, const char *name,
			struct snapshot_record **ret, struct error *err)
{
	struct store_object object = {.json = NULL};
	int r = name_check("snapshot", name, err);

	if (r == 0)
		r = record_io_load(ctx, &record_kind_snapshot, name, &object,
				   err);
	if (r < 0)
		return r;
	r = snapshot_record_decode(object.json, object.length, ret, err);
	if (r == 0)
		memcpy((*ret)->resource_version, object.version,
		       sizeof(object.version));
	else
		(void)error_prefix(err, r, "record of snapshot '%s': ", name);
	store_object_done(&object);
	return r;
}

int snapshot_op_begin(struct snapshot_op *s, struct volume_context *ctx,
		      const char *id, const char *doing, struct error *err)
{
	const char *uid;
	int r;

	*s = (struct snapshot_op){.ctx = ctx};
	uid = id_split(id, s->name);
	r = snapshot_lease(ctx, &record_kind_snapshot, s->name, doing, err);
	if (r < 0)
		return r;
	r = volume_snapshot_get(ctx, s->name, &s->record, err);
	if (r < 0 && r != -ENOENT) {
		snapshot_op_end(s);
		return r;
	}
	if (s->record && uid[0] && strcmp(s->record->uid, uid) != 0) {
		snapshot_record_free(s->record);
		s->record = NULL;
	}
	return 0;
}

void snapshot_op_end(struct snapshot_op *s)
{
	snapshot_record_free(s->record);
	s->record = NULL;
	snapshot_release(s->ctx, &record_kind_snapshot, s->name);
}

int snapshot_op_save(struct snapshot_op *s, struct error *err)
{
	char *json = NULL;
	int r = snapshot_record_encode(s->record, &json, err);

	return r < 0 ? r
		     : record_io_save(s->ctx, &record_kind_snapshot, s->name,
				      json, s->record->resource_version, err);
}

int snapshot_op_remove(struct snapshot_op *s, struct error *err)
{
	int r = 0;

	if (s->record->resource_version[0])
		r = record_io_remove(s->ctx, &record_kind_snapshot, s->name,
				     s->record->resource_version, err);
	if (r < 0)
		return r;
	snapshot_record_free(s->record);
	s->record = NULL;
	return 0;
}

/* ---- one group ---- */

int volume_group_get(struct volume_context *ctx, const char *name,
		     struct group_record **ret, struct error *err)
{
	struct store_object object = {.json = NULL};
	int r = name_check("group snapshot", name, err);

	if (r == 0)
		r = record_io_load(ctx, &record_kind_group, name, &object, err);
	if (r < 0)
		return r;
	r = group_record_decode(object.json, object.length, ret, err);
	if (r == 0)
		memcpy((*ret)->resource_version, object.version,
		       sizeof(object.version));
	else
		(void)error_prefix(err, r,
				   "record of group snapshot '%s': ", name);
	store_object_done(&object);
	return r;
}

int group_op_begin(struct group_op *g, struct volume_context *ctx,
		   const char *id, const char *doing, struct error *err)
{
	const char *uid;
	int r;

	*g = (struct group_op){.ctx = ctx};
	uid = id_split(id, g->name);
	r = snapshot_lease(ctx, &record_kind_group, g->name, doing, err);
	if (r < 0)
		return r;
	r = volume_group_get(ctx, g->name, &g->record, err);
	if (r < 0 && r != -ENOENT) {
		group_op_end(g);
		return r;
	}
	if (g->record && uid[0] && strcmp(g->record->uid, uid) != 0) {
		group_record_free(g->record);
		g->record = NULL;
	}
	return 0;
}

void group_op_end(struct group_op *g)
{
	group_record_free(g->record);
	g->record = NULL;
	snapshot_release(g->ctx, &record_kind_group, g->name);
}

int group_op_save(struct group_op *g, struct error *err)
{
	char *json = NULL;
	int r = group_record_encode(g->record, &json, err);

	return r < 0 ? r
		     : record_io_save(g->ctx, &record_kind_group, g->name, json,
				      g->record->resource_version, err);
}

int group_op_remove(struct group_op *g, struct error *err)
{
	int r = 0;

	if (g->record->resource_version[0])
		r = record_io_remove(g->ctx, &record_kind_group, g->name,
				     g->record->resource_version, err);
	if (r < 0)
		return r;
	group_record_free(g->record);
	g->record = NULL;
	return 0;
}
