/* SPDX-License-Identifier: Apache-2.0 */
/* Pools that come to a node, and leave it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/dir/pool_dir.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/node_watch.h"
#include "blockd/node/pool_at.h"
#include "blockd/raw/pool_raw.h"

/* ---- adding ---- */

/* @path is @above, or below it. */
static bool is_inside(const char *path, const char *above)
{
	size_t length = strlen(above);

	return strncmp(path, above, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/' ||
		above[length - 1] == '/');
}

/* The directory has nothing to do with another pool. Pools are held. */
static int pool_check_place(struct node *node, const char *name,
			    const char *path, struct error *err)
{
	const struct node_pool *other;
	auto_free char *above = NULL;

	TAILQ_FOREACH (other, &node->list, in_node) {
		if (strcmp(other->known.name, name) == 0)
			continue;
		if (strcmp(other->known.path, path) == 0)
			return error_set(err, EEXIST,
					 "'%s' belongs to pool '%s'", path,
					 other->known.name);
		if (is_inside(path, other->known.path))
			return error_set(
				err, EEXIST, "'%s' is inside pool '%s' at '%s'",
				path, other->known.name, other->known.path);
		if (is_inside(other->known.path, path))
			return error_set(
				err, EEXIST, "pool '%s' at '%s' is inside '%s'",
				other->known.name, other->known.path, path);
	}
	above = pool_dir_above(path);
	if (above)
		return error_set(err, EEXIST, "'%s' is inside the pool at '%s'",
				 path, above);
	return 0;
}

static int check_copy(struct node *node, const struct pool_record *record,
		      const char *path, struct error *err)
{
	const struct node_pool *other;

	TAILQ_FOREACH (other, &node->list, in_node)
		if (strcmp(other->known.id, record->id) == 0)
			return error_set(err, EEXIST,
					 "'%s' holds a copy of pool '%s' at "
					 "'%s'",
					 path, other->known.name,
					 other->known.path);
	return 0;
}

static int format(const struct node_pool_request *request, const char *path,
		  struct pool_record *ret, struct error *err)
{
	struct pool_record record = {
		.capacity = request->capacity,
		.overcommit_percent = request->overcommit_percent
					      ? request->overcommit_percent
					      : SPACE_OVERCOMMIT_DEFAULT,
		.created_s = (uint64_t)clock_wall_s(),
	};
	int r;

	(void)snprintf(record.name, sizeof(record.name), "%s", request->name);
	(void)uuid_make(record.id);
	(void)uuid_make(record.incarnation);
	r = pool_at_format(path, request->force, request->cluster_size, &record,
			   err);
	if (r < 0)
		return r;
	log_info("pool %s at %s: formatted, id %s", record.name, path,
		 record.id);
	*ret = record;
	return 0;
}

/* A pool of that name is at @path when this returns 0. */
static int find_or_format(struct node *node,
			  const struct node_pool_request *request,
			  const char *path, struct pool_record *ret,
			  struct error *err)
{
	enum pool_content content;
	int r = pool_at_inspect(path, &content, ret, err);

	if (r < 0)
		return r;
	switch (content) {
	case POOL_CONTENT_EMPTY:
		if (request->may_format)
			return format(request, path, ret, err);
		return error_set(err, ENOENT, "there is no pool in '%s'", path);
	case POOL_CONTENT_DAMAGED: /* inspect said why, and what is there */
	case POOL_CONTENT_OTHER:
		if (request->force && request->may_format)
			return format(request, path, ret, err);
		return content == POOL_CONTENT_DAMAGED ? -EBADMSG : -ENOTEMPTY;
	case POOL_CONTENT_POOL: break;
	}
	if (strcmp(ret->name, request->name) != 0)
		return error_set(err, EEXIST, "'%s' holds pool '%s', not '%s'",
				 path, ret->name, request->name);
	return check_copy(node, ret, path, err);
}

static int check_clusters(const struct node_pool *entry,
			  const struct node_pool_request *request,
			  struct error *err)
{
	if (!request->cluster_size ||
	    request->cluster_size == entry->pool->cluster_size)
		return 0;
	return error_set(err, EEXIST,
			 "pool '%s' exists with clusters of %" PRIu64
			 " bytes, not %" PRIu64 " (0: it has none)",
			 entry->known.name, entry->pool->cluster_size,
			 request->cluster_size);
}

static const char *capacity_text(char *buf, uint64_t capacity)
{
	return capacity ? size_format(buf, capacity) : "the size of its medium";
}

/* @ret: ERROR_TEXT_MAX bytes. */
static void tell_change(const struct pool_record *was,
			const struct pool_record *is, char *ret)
{
	char before[SIZE_TEXT_MAX], now[SIZE_TEXT_MAX];

	if (was->capacity != is->capacity)
		(void)snprintf(ret, ERROR_TEXT_MAX,
			       "its capacity is %s now, and was %s",
			       capacity_text(now, is->capacity),
			       capacity_text(before, was->capacity));
	if (was->overcommit_percent != is->overcommit_percent)
		(void)snprintf(ret + strlen(ret), ERROR_TEXT_MAX - strlen(ret),
			       "%sits overcommit is %" PRIu64
			       " %% now, and was %" PRIu64 " %%",
			       ret[0] ? "; " : "", is->overcommit_percent,
			       was->overcommit_percent);
}

/*
 * Change the record of an open pool where the request asks for other figures.
 */
static int pool_record_change(struct node *node, struct node_pool *entry,
			      const struct node_pool_request *request,
			      char *ret_note, struct error *err)
{
	struct pool *pool = entry->pool;
	const struct pool_record was = pool->record;
	struct pool_record is = was;
	int r = check_clusters(entry, request, err);

	if (request->capacity)
		is.capacity = request->capacity;
	if (request->overcommit_percent)
		is.overcommit_percent = request->overcommit_percent;
	if (r < 0 || (is.capacity == was.capacity &&
		      is.overcommit_percent == was.overcommit_percent))
		return r;
	r = pool->ops->put_record(pool, &is, err);
	if (r < 0)
		return error_prefix(err, r, "pool '%s': change its record: ",
				    entry->known.name);
	pthread_mutex_lock(&node->space);
	pool->record.capacity = is.capacity;
	pool->record.overcommit_percent = is.overcommit_percent;
	pthread_mutex_unlock(&node->space);
	tell_change(&was, &is, ret_note);
	log_info("pool %s at %s: %s", entry->known.name, entry->known.path,
		 ret_note);
	return 0;
}

/* The node knows the name: the same pool, perhaps one that came back. */
static int add_again(struct node *node, struct node_pool *entry,
		     const struct node_pool_request *request, const char *path,
		     char *ret_note, struct error *err)
{
	struct known_pool known = entry->known;
	enum pool_content content;
	struct pool_record record;
	int r;

	if (entry->served) {
		if (strcmp(known.path, path) != 0)
			return error_set(err, EEXIST,
					 "pool '%s' is at '%s', not '%s'",
					 known.name, known.path, path);
		return pool_record_change(node, entry, request, ret_note, err);
	}
	if (strcmp(known.path, path) != 0) {
		/* Its medium may have come back somewhere else. */
		r = pool_at_inspect(path, &content, &record, err);
		if (r < 0)
			return r;
		if (content != POOL_CONTENT_POOL ||
		    strcmp(record.id, known.id) != 0)
			return error_set(err, EEXIST,
					 "pool '%s' was at '%s' and is %s; "
					 "'%s' does not hold it",
					 known.name, known.path,
					 node_pool_state_name(entry->state),
					 path);
		(void)snprintf(known.path, sizeof(known.path), "%s", path);
		r = node_pool_remember(node, &known, err);
		if (r < 0)
			return r;
		pthread_mutex_lock(&node->tables);
		entry->known = known;
		pthread_mutex_unlock(&node->tables);
	}
	r = node_pool_open(node, entry, err);
	return r < 0 ? r
		     : pool_record_change(node, entry, request, ret_note, err);
}

static int add_new(struct node *node, const struct node_pool_request *request,
		   const char *path, char *ret_note, struct error *err)
{
	struct pool_record record;
	struct known_pool known = {0};
	struct node_pool *entry = NULL;
	int r = find_or_format(node, request, path, &record, err);

	if (r < 0)
		return r;
	memcpy(known.name, record.name, sizeof(known.name));
	memcpy(known.id, record.id, sizeof(known.id));
	(void)snprintf(known.path, sizeof(known.path), "%s", path);
	/* First: a pool that is served is served again after a restart. */
	r = node_pool_remember(node, &known, err);
	if (r == 0)
		r = node_pool_new(node, &known, &entry, err);
	if (r < 0)
		return r;
	r = node_pool_open(node, entry, err);
	if (r < 0) {
		(void)node_pool_drop(node, entry); /* nobody tries it yet */
		(void)node_pool_forget(node, known.name, NULL);
		return r;
	}
	return pool_record_change(node, entry, request, ret_note, err);
}

static int pool_check_request(const struct node_pool_request *request,
			      struct error *err)
{
	int r = name_check("pool", request->name, err);

	if (r < 0)
		return r;
	if (request->overcommit_percent &&
	    (request->overcommit_percent < SPACE_OVERCOMMIT_MIN ||
	     request->overcommit_percent > SPACE_OVERCOMMIT_MAX))
		return error_set(err, EINVAL,
				 "an overcommit of %u %% is not within %d to "
				 "%d",
				 request->overcommit_percent,
				 SPACE_OVERCOMMIT_MIN, SPACE_OVERCOMMIT_MAX);
	if (request->capacity && request->capacity < EXTENT_SIZE_MIN)
		return error_set(err, EINVAL,
				 "a capacity of %" PRIu64
				 " bytes holds no extent: at least 1 MiB",
				 request->capacity);
	r = pool_raw_check_cluster(request->cluster_size, err);
	if (r < 0)
		return r;
	if (request->path[0] != '/')
		return error_set(err, EINVAL, "'%.256s' is no absolute path",
				 request->path);
	return 0;
}

/* A request for a raw pool never gets another kind. */
static int check_kind(const struct node_pool_request *request, const char *path,
		      struct error *err)
{
	const char *kind;
	int r = request->raw ? pool_at_kind(path, &kind, err) : 0;

	if (r < 0 || !request->raw || strcmp(kind, POOL_RAW_KIND) == 0)
		return r;
	return error_set(err, EINVAL,
			 "pool '%s': '%s' is a directory: a raw pool is made "
			 "of a block device or a file",
			 request->name, path);
}

bool node_knows_pool(struct node *node, const char *name)
{
	bool known;

	pthread_mutex_lock(&node->tables);
	known = node_find_pool(node, name) != NULL;
	pthread_mutex_unlock(&node->tables);
	return known;
}

/*
 * Look at a pool that is said to be in another place: it may be gone from the
 * old one.
 */
static void look_elsewhere(struct node *node, const char *name,
			   const char *path)
{
	struct node_pool *entry;
	bool moved;

	pthread_mutex_lock(&node->pools);
	entry = node_find_pool(node, name);
	moved = entry && entry->served && strcmp(entry->known.path, path) != 0;
	if (moved)
		entry->health.tried_ms = 0; /* whenever that was */
	pthread_mutex_unlock(&node->pools);
	if (moved)
		node_look_again(node);
}

int node_add_pool(struct node *node, const struct node_pool_request *request,
		  char *ret_note, struct error *err)
{
	char unheard[ERROR_TEXT_MAX], *note = ret_note ?: unheard;
	auto_free char *path = NULL;
	struct node_pool *entry;
	int r = pool_check_request(request, err);

	note[0] = '\0';

	if (r < 0)
		return error_prefix(err, r, "pool '%.64s': ", request->name);
	path = realpath(request->path, NULL);
	if (!path)
		return error_set(err, errno, "pool '%s': '%s': %s",
				 request->name, request->path, strerror(errno));
	r = check_kind(request, path, err);
	if (r < 0)
		return r;
	look_elsewhere(node, request->name, path);
	pthread_mutex_lock(&node->pools);
	entry = node_find_pool(node, request->name); /* pools: it stays */
	r = pool_check_place(node, request->name, path, err);
	if (r == 0)
		r = entry ? add_again(node, entry, request, path, note, err)
			  : add_new(node, request, path, note, err);
	pthread_mutex_unlock(&node->pools);
	if (r == 0)
		cut_intents_settle(node);
	return r;
}

/* ---- deleting ---- */

/* From here on it takes no extent. */
static int pool_close_down(struct node *node, struct node_pool *entry,
			   struct error *err)
{
	int r = 0;

	pthread_mutex_lock(&node->tables);
	if (!entry->served)
		r = error_set(err, ENODEV,
			      "pool '%s' is %s (%s): bring it back, it can't "
			      "be deleted unseen",
			      entry->known.name,
			      node_pool_state_name(entry->state),
			      entry->message);
	else if (atomic_load(&entry->health.silent))
		r = error_set(err, ENODEV, "pool '%s' does not answer",
			      entry->known.name);
	else if (entry->extents)
		r = error_set(err, EBUSY,
			      "pool '%s' has %u extents: delete them first",
			      entry->known.name, entry->extents);
	else
		entry->leaving = true;
	pthread_mutex_unlock(&node->tables);
	return r;
}

static int delete_held(struct node *node, const char *name, struct error *err)
{
	struct node_pool *entry = node_find_pool(node, name);
	struct known_pool known;
	int r;

	if (!entry)
		return 0;
	r = pool_close_down(node, entry, err);
	if (r < 0)
		return r;
	known = entry->known;
	known.deleting = true;
	r = node_pool_remember(node, &known, err);
	if (r < 0) {
		pthread_mutex_lock(&node->tables);
		entry->leaving = false;
		pthread_mutex_unlock(&node->tables);
		return r;
	}
	return node_pool_finish_delete(node, entry, err);
}

int node_delete_pool(struct node *node, const char *name, struct error *err)
{
	int r;

	pthread_mutex_lock(&node->pools);
	r = delete_held(node, name, err);
	pthread_mutex_unlock(&node->pools);
	return r;
}
