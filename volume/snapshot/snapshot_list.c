/* SPDX-License-Identifier: Apache-2.0 */
/* volume_snapshot_list(), volume_group_list(), volume_snapshot_status_get(). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "volume/snapshot/snapshot_op.h"

#define ASKED_AT_ONCE 16

static void tell_problem(char *ret_problem, const char *what, const char *name,
			 const struct error *why)
{
	if (ret_problem)
		(void)snprintf(ret_problem, RECORD_TEXT_SIZE,
			       "the record of %s '%s' cannot be read: %.140s",
			       what, name, why->msg);
}

static bool snapshot_wanted(const struct snapshot_filter *filter,
			    const struct snapshot_record *record)
{
	if (!filter->temporary && record->temporary_for[0])
		return false;
	if (filter->cut && !snapshot_record_is_cut(record))
		return false;
	if (filter->volume && strcmp(filter->volume, record->volume) != 0)
		return false;
	return !filter->group || strcmp(filter->group, record->group) == 0;
}

struct page {
	const struct snapshot_filter *filter;
	struct snapshot_record **records; /* owned */
	size_t count;
	bool more;
};

static void page_add(struct page *page, const struct store_object *object,
		     char *ret_problem)
{
	const struct snapshot_filter *filter = page->filter;
	struct snapshot_record *record = NULL;
	struct error why = {0};

	if (page->more ||
	    (filter->after && strcmp(object->name, filter->after) <= 0))
		return;
	if (snapshot_record_decode(object->json, object->length, &record,
				   &why) < 0) {
		tell_problem(ret_problem, "snapshot", object->name, &why);
		return;
	}
	if (!snapshot_wanted(filter, record)) {
		snapshot_record_free(record);
	} else if (filter->max > 0 && page->count == filter->max) {
		page->more = true;
		snapshot_record_free(record);
	} else {
		memcpy(record->resource_version, object->version,
		       sizeof(object->version));
		page->records[page->count++] = record;
	}
}

int volume_snapshot_list(struct volume_context *ctx,
			 const struct snapshot_filter *filter,
			 struct snapshot_record ***ret, size_t *ret_count,
			 bool *ret_more, char *ret_problem, struct error *err)
{
	static const struct snapshot_filter all;
	struct page page = {.filter = filter ? filter : &all};
	struct store_object *objects;
	size_t n;
	int r = ctx->store->ops->list(ctx->store, RECORD_KIND_SNAPSHOT,
				      &objects, &n, err);

	if (r < 0)
		return r;
	if (ret_problem)
		ret_problem[0] = '\0';
	page.records = calloc(n + 1, sizeof(struct snapshot_record *));
	for (size_t i = 0; page.records && i < n; i++)
		page_add(&page, &objects[i], ret_problem);
	store_objects_free(objects, n);
	if (!page.records)
		return error_set(err, ENOMEM, "out of memory");
	*ret = page.records;
	*ret_count = page.count;
	if (ret_more)
		*ret_more = page.more;
	return 0;
}

int volume_group_list(struct volume_context *ctx, struct group_record ***ret,
		      size_t *ret_count, char *ret_problem, struct error *err)
{
	struct store_object *objects;
	struct group_record **records;
	size_t n, count = 0;
	int r = ctx->store->ops->list(ctx->store, RECORD_KIND_GROUP, &objects,
				      &n, err);

	if (r < 0)
		return r;
	if (ret_problem)
		ret_problem[0] = '\0';
	records = calloc(n + 1, sizeof(struct group_record *));
	for (size_t i = 0; records && i < n; i++) {
		struct error why = {0};

		r = group_record_decode(objects[i].json, objects[i].length,
					&records[count], &why);
		if (r == 0)
			memcpy(records[count++]->resource_version,
			       objects[i].version, RECORD_VERSION_SIZE);
		else
			tell_problem(ret_problem, "group snapshot",
				     objects[i].name, &why);
	}
	store_objects_free(objects, n);
	if (!records)
		return error_set(err, ENOMEM, "out of memory");
	*ret = records;
	*ret_count = count;
	return 0;
}

/* ---- status ---- */

struct ask {
	struct volume_context *ctx;
	struct snapshot_status *status;
};

static void split_tell(const struct snapshot_record *record,
		       const struct snapshot_split *split,
		       const struct node_extent *extent,
		       struct snapshot_split_status *ret)
{
	ret->found = snapshot_split_is(record, split, extent);
	if (!ret->found) {
		(void)strcpy(ret->state, "missing");
		(void)snprintf(ret->problem, sizeof(ret->problem),
			       "extent '%s' on node '%s' is another one",
			       split->extent, split->node);
		return;
	}
	ret->allocated = extent->allocated;
	ret->shared = extent->shared;
	ret->reclaimable = extent->reclaimable;
	memcpy(ret->method, extent->origin.method, sizeof(ret->method));
	(void)snprintf(ret->state, sizeof(ret->state), "%s", extent->state);
	(void)snprintf(ret->problem, sizeof(ret->problem), "%s",
		       extent->message);
}

static void snapshot_split_ask(struct volume_context *ctx,
			       const struct snapshot_record *record,
			       const struct snapshot_split *split,
			       struct snapshot_split_status *ret)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	struct error err = {0};
	int r = context_client(ctx, split->node, &client, &err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent,
					   &err);
	ret->reachable = r == 0 || r == -ENOENT;
	if (r == 0)
		split_tell(record, split, &extent, ret);
	else
		(void)snprintf(ret->problem, sizeof(ret->problem), "%s",
			       error_text(&err));
	if (r < 0)
		(void)strcpy(ret->state,
			     r == -ENOENT ? "missing" : "unreachable");
	node_extent_done(&extent);
}

static void snapshot_ask(void *ask_, size_t index)
{
	struct ask *ask = ask_;
	const struct snapshot_record *record = ask->status->record;
	struct snapshot_split_status *ret = &ask->status->splits[index];

	if (!record->splits[index].lost) {
		snapshot_split_ask(ask->ctx, record, &record->splits[index],
				   ret);
		return;
	}
	(void)strcpy(ret->state, "lost");
	(void)strcpy(ret->problem,
		     "its node was removed as lost for good, with its content");
}

int volume_snapshot_status_get(struct volume_context *ctx, const char *name,
			       struct snapshot_status **ret, struct error *err)
{
	struct ask ask = {.ctx = ctx};
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(ctx, name, &record, err);

	if (r < 0)
		return r;
	ask.status = calloc(1, sizeof(*ask.status));
	if (ask.status)
		ask.status->splits = calloc(record->n_splits + 1,
					    sizeof(*ask.status->splits));
	if (!ask.status || !ask.status->splits) {
		free(ask.status);
		snapshot_record_free(record);
		return error_set(err, ENOMEM, "out of memory");
	}
	ask.status->record = record;
	parallel_run(record->n_splits, ASKED_AT_ONCE, snapshot_ask, &ask);
	*ret = ask.status;
	return 0;
}

void volume_snapshot_status_free(struct snapshot_status *status)
{
	if (!status)
		return;
	snapshot_record_free(status->record);
	free(status->splits);
	free(status);
}
