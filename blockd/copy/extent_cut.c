/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting snapshots: looked up, locked, kept quiet, copied, shown. */
#include "blockd/copy/extent_cut.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dm/mapper.h"
#include "base/log.h"
#include "blockd/copy/copy_guard.h"
#include "blockd/copy/copy_job.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/copy/quiesce.h"
#include "blockd/extent/extent_internal.h"

/* One snapshot; all of a cut are sorted by the names of their origins. */
struct item {
	const struct snapshot_request *request;
	size_t index; /* in the request */
	struct extent *origin;
	struct extent *made; /* NULL: not yet */
	enum pool_copy_method method;
	bool reserved, shown, has_data;
};

struct cut {
	struct node *node;
	const struct cut_request *request;
	struct item *items; /* owned */
	size_t n;
	/* Parallel to the items; owned. */
	struct extent **origins;
	enum pool_copy_method *methods;
	bool noted; /* blockd/copy/cut_intent.h: several pools have a part */
};

/* ---- the request ---- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts @texts. */
static int check_distinct(const char *what, const char **texts, size_t n,
			  struct error *err)
{
	qsort(texts, n, sizeof(texts[0]), compare_texts);
	for (size_t i = 1; i < n; i++)
		if (strcmp(texts[i - 1], texts[i]) == 0)
			return error_set(err, EINVAL,
					 "the %s '%.64s' is given twice", what,
					 texts[i]);
	return 0;
}

static int check_uuid(const char *text, struct error *err)
{
	if (strlen(text) == UUID_TEXT_SIZE - 1 &&
	    strspn(text, "0123456789abcdefABCDEF-") == UUID_TEXT_SIZE - 1)
		return 0;
	return error_set(err, EINVAL, "'%.40s' is no UUID", text);
}

static int cut_check_request(const struct cut_request *request,
			     struct error *err)
{
	const char *names[EXTENT_CUT_MAX], *extents[EXTENT_CUT_MAX];
	int r = check_uuid(request->cut, err);

	if (r < 0)
		return r;
	if (request->n < 1 || request->n > EXTENT_CUT_MAX)
		return error_set(err, EINVAL,
				 "a cut is of 1 to %d extents, not %zu",
				 EXTENT_CUT_MAX, request->n);
	for (size_t i = 0; i < request->n; i++) {
		names[i] = request->snapshots[i].name;
		extents[i] = request->snapshots[i].extent;
	}
	r = check_distinct("snapshot", names, request->n, err);
	return r < 0 ? r : check_distinct("extent", extents, request->n, err);
}

static void put_all(struct extent **extents, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		extent_unref(extents[i]);
		extents[i] = NULL;
	}
}

/* ---- origins ---- */

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return strcmp(x->request->extent, y->request->extent);
}

static int find_origins(struct cut *cut, struct error *err)
{
	const struct cut_request *request = cut->request;
	int r = 0;

	for (size_t i = 0; i < cut->n; i++)
		cut->items[i] = (struct item){
			.request = &request->snapshots[i],
			.index = i,
		};
	qsort(cut->items, cut->n, sizeof(cut->items[0]), compare_items);
	for (size_t i = 0; r == 0 && i < cut->n; i++) {
		r = extent_find(cut->node, cut->items[i].request->extent,
				&cut->items[i].origin, err);
		cut->origins[i] = cut->items[i].origin;
	}
	return r;
}

/* Its op lock is held. */
static int check_origin(struct item *item, struct error *err)
{
	const struct extent *origin = item->origin;
	int r = extent_check_id(origin, item->request->extent_id, err);

	if (r == 0 && origin->record.kind == EXTENT_KIND_SNAPSHOT)
		r = error_set(err, EINVAL,
			      "'%s' is a snapshot itself, and never changes",
			      origin->record.name);
	return r < 0 ? r : extent_copy_method(origin, &item->method, err);
}

static int check_origins(struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n; i++) {
		r = check_origin(&cut->items[i], err);
		cut->methods[i] = cut->items[i].method;
	}
	return r;
}

/* ---- new ones ---- */

/* Not in the table yet; nothing writes to the origin. */
static int item_prepare(struct item *item, const char *cut, struct error *err)
{
	const struct snapshot_request *wanted = item->request;
	struct extent *origin = item->origin, *made = NULL;
	struct extent_usage usage = {0};
	int r = extent_usage(origin, &usage, err);

	if (r == 0)
		r = extent_fresh(origin->node, wanted->name, wanted->labels,
				 wanted->n_labels, &made, err);
	if (r < 0)
		return r;
	made->pool = origin->pool;
	made->bytes = usage.allocated;
	made->record.kind = EXTENT_KIND_SNAPSHOT;
	made->record.size = origin->record.size;
	made->record.blank = origin->record.blank;
	made->record.reserved = usage.allocated;
	made->record.origin = extent_origin_of(origin, item->method);
	memcpy(made->record.origin.cut, cut, UUID_TEXT_SIZE);
	memcpy(made->record.pool_id, origin->record.pool_id, UUID_TEXT_SIZE);
	item->made = made;
	r = node_reserve(made->node, made->pool, made->bytes, err);
	item->reserved = r == 0;
	return r;
}

static int prepare_all(struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n; i++)
		r = item_prepare(&cut->items[i], cut->request->cut, err);
	return r;
}

/* Into the table, locked, all or none. */
static int show_all(struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < cut->n; i++)
		extent_lock_fresh(cut->items[i].made);
	pthread_mutex_lock(&cut->node->tables);
	for (size_t i = 0; r == 0 && i < cut->n; i++)
		if (node_find_extent(cut->node, cut->items[i].request->name))
			r = error_set(err, EAGAIN,
				      "'%s' was made just now by another "
				      "call; repeat this one",
				      cut->items[i].request->name);
	for (size_t i = 0; r == 0 && i < cut->n; i++) {
		node_insert_extent(cut->node, cut->items[i].made);
		cut->items[i].shown = true;
	}
	pthread_mutex_unlock(&cut->node->tables);
	for (size_t i = 0; r < 0 && i < cut->n; i++)
		pthread_mutex_unlock(&cut->items[i].made->op);
	return r;
}

static bool has_several_pools(const struct cut *cut)
{
	for (size_t i = 1; i < cut->n; i++)
		if (cut->items[i].origin->pool != cut->items[0].origin->pool)
			return true;
	return false;
}

/* Each pool makes all of its own or none; for more than one it is noted. */
static int note(struct cut *cut, struct error *err)
{
	struct copies_record record = {.n = cut->n};
	int r;

	if (!has_several_pools(cut))
		return 0;
	record.names = calloc(cut->n, EXTENT_NAME_SIZE);
	if (!record.names)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(record.cut, cut->request->cut, UUID_TEXT_SIZE);
	for (size_t i = 0; i < cut->n; i++)
		memcpy(record.names[i], cut->items[i].made->record.name,
		       EXTENT_NAME_SIZE);
	r = cut_intent_begin(cut->node, &record, err);
	copies_record_done(&record);
	cut->noted = r == 0;
	return r;
}

/* Copy the items in the pool of item @first that have no data yet. */
static int copy_pool(struct cut *cut, size_t first, struct error *err)
{
	struct extent *from[EXTENT_CUT_MAX], *made[EXTENT_CUT_MAX];
	const struct node_pool *pool = cut->items[first].origin->pool;
	size_t n = 0;
	int r;

	for (size_t i = first; i < cut->n; i++) {
		if (cut->items[i].origin->pool != pool)
			continue;
		from[n] = cut->items[i].origin;
		made[n++] = cut->items[i].made;
	}
	r = copy_job_run(from, made, n, cut->items[first].method, err);
	for (size_t i = first; r == 0 && i < cut->n; i++)
		if (cut->items[i].origin->pool == pool)
			cut->items[i].has_data = true;
	return r;
}

static int copy_all(struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n; i++)
		if (!cut->items[i].has_data)
			r = copy_pool(cut, i, err);
	return r;
}

/* ---- the end ---- */

/*
 * Copied byte by byte: its thread undoes it, once nobody holds the locks.
 * False: it is left.
 */
static bool stop_copying(struct extent *made)
{
	copy_job_stop(made);
	/* The copy may have been done before it was stopped. */
	if (extent_delete(made->node, made->record.name, made->record.id,
			  NULL) == 0)
		return true;
	log_warning("snapshot %s is left over from a cut that failed",
		    made->record.name);
	return false;
}

static bool item_undo(struct item *item)
{
	struct extent *made = item->made;
	bool undone = true;

	if (!made)
		return true;
	if (item->has_data)
		undone = extent_undo_data(made);
	if (item->reserved)
		node_release(made->node, made->pool, made->bytes);
	if (item->shown) {
		extent_take_out(made);
		pthread_mutex_unlock(&made->op);
	}
	return undone;
}

/* The note of a cut that could not be undone stays. */
static void undo_all(struct cut *cut)
{
	struct extent *copied[EXTENT_CUT_MAX];
	bool undone = true;
	size_t n = 0;

	for (size_t i = 0; i < cut->n; i++) {
		struct extent *made = cut->items[i].made;

		if (made && made->record.state == EXTENT_COPYING) {
			copied[n++] = made;
			pthread_mutex_unlock(&made->op);
		} else {
			undone = item_undo(&cut->items[i]) && undone;
		}
	}
	for (size_t i = 0; i < n; i++)
		undone = stop_copying(copied[i]) && undone;
	if (cut->noted && undone)
		cut_intent_forget(cut->node, cut->request->cut);
}

/*
 * Forget the note, unless a copy still goes on. A copy may yet fail, so the
 * note stays until it is over.
 */
static void forget_note(struct cut *cut)
{
	for (size_t i = 0; i < cut->n; i++)
		if (cut->items[i].made->record.state == EXTENT_COPYING)
			return;
	if (cut->noted)
		cut_intent_forget(cut->node, cut->request->cut);
}

static void finish(struct cut *cut, struct extent **ret)
{
	for (size_t i = 0; i < cut->n; i++) {
		struct item *item = &cut->items[i];

		if (item->made->record.state == EXTENT_CREATING)
			extent_set_state(item->made, EXTENT_OK);
		ret[item->index] = extent_ref(item->made);
		pthread_mutex_unlock(&item->made->op);
	}
}

/* The origins are locked. */
static int make_all(struct cut *cut, struct extent **ret, struct error *err)
{
	const char *hold = cut->request->hold;
	struct copy_guard guard;
	int r = check_origins(cut, err);

	if (r == 0)
		r = copy_guard_begin(&guard, cut->origins, cut->methods, cut->n,
				     hold && hold[0] ? hold : NULL, err);
	if (r < 0)
		return r;
	r = prepare_all(cut, err);
	if (r == 0)
		r = show_all(cut, err);
	if (r == 0)
		r = note(cut, err);
	if (r == 0)
		r = copy_all(cut, err);
	if (copy_guard_end(&guard, r < 0 ? NULL : err) < 0 && r == 0)
		r = -ESTALE;
	if (r == 0) {
		forget_note(cut);
		finish(cut, ret);
	} else {
		undo_all(cut);
	}
	return r;
}

/* Copies that were over before could not settle it. */
static void leave_note(const struct cut *cut)
{
	if (!cut->noted)
		return;
	cut_intent_leave(cut->node, cut->request->cut);
	(void)cut_intent_settle(cut->node, cut->request->cut, NULL);
}

static void cut_done(struct cut *cut)
{
	for (size_t i = 0; cut->items && i < cut->n; i++) {
		extent_unref(cut->items[i].origin);
		extent_unref(cut->items[i].made);
	}
	free(cut->items);
	free(cut->origins);
	free(cut->methods);
}

static int cut_new(struct cut *cut, struct extent **ret, struct error *err)
{
	int r;

	cut->items = calloc(cut->n, sizeof(*cut->items));
	cut->origins = calloc(cut->n, sizeof(struct extent *));
	cut->methods = calloc(cut->n, sizeof(*cut->methods));
	if (!cut->items || !cut->origins || !cut->methods)
		return error_set(err, ENOMEM, "out of memory");
	r = find_origins(cut, err);
	if (r == 0)
		r = extents_begin(cut->origins, cut->n, err);
	if (r < 0)
		return r;
	r = make_all(cut, ret, err);
	extents_end(cut->origins, cut->n);
	leave_note(cut);
	return r;
}

int extents_cut(struct node *node, const struct cut_request *request,
		struct extent **ret, struct error *err)
{
	struct cut cut = {.node = node, .request = request, .n = request->n};
	int r = cut_check_request(request, err);

	if (r == 0)
		r = extents_of_cut(node, request, ret, err);
	/* A crash may have left a part. */
	if (r == -ESTALE && cut_intent_settle(node, request->cut, NULL) == 1)
		r = 1;
	if (r != 1)
		return r;
	r = cut_new(&cut, ret, err);
	cut_done(&cut);
	return r;
}

/* ---- quiesce ---- */

int extents_quiesce(struct node *node, const char *id, const char *const *names,
		    size_t n, const char *device, unsigned timeout_ms,
		    unsigned flags, struct error *err)
{
	struct extent *extents[QUIESCE_EXTENTS_MAX] = {0};
	const char *sorted[QUIESCE_EXTENTS_MAX];
	int r = check_uuid(id, err);

	if (r < 0)
		return r;
	if ((n < 1 && !device[0]) || n > QUIESCE_EXTENTS_MAX)
		return error_set(err, EINVAL,
				 "a quiesce is of 1 to %d extents, not %zu",
				 QUIESCE_EXTENTS_MAX, n);
	if (strlen(device) >= MAPPER_NAME_MAX)
		return error_set(err, EINVAL, "no UUID of a device: '%.128s'",
				 device);
	if (timeout_ms < 1 || timeout_ms > QUIESCE_MS_MAX)
		return error_set(err, EINVAL,
				 "a quiesce lasts 1 to %d ms, not %u",
				 QUIESCE_MS_MAX, timeout_ms);
	if (n > 0) {
		memcpy(sorted, names, n * sizeof(sorted[0]));
		r = check_distinct("extent", sorted, n, err);
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = extent_find(node, sorted[i], &extents[i], err);
	if (r == 0)
		r = extents_begin(extents, n, err);
	if (r == 0) {
		r = quiesce_begin(node->quiesces, id, extents, n, device,
				  timeout_ms, flags, err);
		extents_end(extents, n);
	}
	put_all(extents, n);
	return r;
}
