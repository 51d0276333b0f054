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
	if (filter->volume_uid &&
	    strcmp(filter->volume_uid, record->volume_uid) != 0)
		return false;
	return !filter->group || strcmp(filter->group, record->group) == 0;
}

struct snapshot_page {
	const struct snapshot_filter *filter;
	char *problem;                    /* NULL: nobody asks */
	struct snapshot_record **records; /* owned */
	size_t count, room;
};

#define PAGE_FULL 1 /* page_add() ends the walk */

static int page_add(void *page_, const struct store_object *object,
		    struct error *err)
{
	struct snapshot_page *page = page_;
	const struct snapshot_filter *filter = page->filter;
	struct snapshot_record *record = NULL, **more;
	struct error why = {0};
	int r = 0;

	if (snapshot_record_decode(object->json, object->length, &record,
				   &why) < 0) {
		tell_problem(page->problem, "snapshot", object->name, &why);
		return 0;
	}
	if (!snapshot_wanted(filter, record))
		goto undo;
	if (filter->max > 0 && page->count == filter->max) {
		r = PAGE_FULL;
		goto undo;
	}
	if (page->count == page->room) {
		page->room = page->room ? 2 * page->room : 16;
		more = reallocarray(page->records, page->room, sizeof(*more));
		if (!more) {
			r = error_set(err, ENOMEM, "out of memory");
			goto undo;
		}
		page->records = more;
	}
	memcpy(record->resource_version, object->version,
	       sizeof(object->version));
	page->records[page->count++] = record;
	return 0;
undo:
	snapshot_record_free(record);
	return r;
}

int volume_snapshot_list(struct volume_context *ctx,
			 const struct snapshot_filter *filter,
			 struct snapshot_record ***ret, size_t *ret_count,
			 bool *ret_more, char *ret_problem, struct error *err)
{
	static const struct snapshot_filter all;
	struct snapshot_page page = {.filter = filter ? filter : &all,
				     .problem = ret_problem};
	int r;

	if (ret_problem)
		ret_problem[0] = '\0';
	r = store_walk(ctx->store, RECORD_KIND_SNAPSHOT, page.filter->place,
		       page_add, &page, err);
	if (r < 0) {
		snapshot_records_free(page.records, page.count);
		return r;
	}
	*ret = page.records;
	*ret_count = page.count;
	if (ret_more)
		*ret_more = r == PAGE_FULL;
	return 0;
}

struct groups {
	char *problem;                 /* NULL: nobody asks */
	struct group_record **records; /* owned */
	size_t count, room;
};

static int groups_add(void *groups_, const struct store_object *object,
		      struct error *err)
{
	struct groups *groups = groups_;
	struct group_record **more;
	struct error why = {0};

	if (groups->count == groups->room) {
		groups->room = groups->room ? 2 * groups->room : 16;
		more = reallocarray(groups->records, groups->room,
				    sizeof(*more));
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		groups->records = more;
	}
	more = &groups->records[groups->count];
	if (group_record_decode(object->json, object->length, more, &why) < 0) {
		tell_problem(groups->problem, "group snapshot", object->name,
			     &why);
		return 0;
	}
	memcpy((*more)->resource_version, object->version,
	       sizeof(object->version));
	groups->count++;
	return 0;
}

int volume_group_list(struct volume_context *ctx, struct group_record ***ret,
		      size_t *ret_count, char *ret_problem, struct error *err)
{
	struct groups groups = {.problem = ret_problem};
	int r;

	if (ret_problem)
		ret_problem[0] = '\0';
	r = store_walk(ctx->store, RECORD_KIND_GROUP, NULL, groups_add, &groups,
		       err);
	if (r < 0) {
		group_records_free(groups.records, groups.count);
		return r;
	}
	*ret = groups.records;
	*ret_count = groups.count;
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
