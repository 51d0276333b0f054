/* SPDX-License-Identifier: Apache-2.0 */
/* The pools a node remembers: kept in STATE/pools, opened, shown. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/node/node_health.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/pool_at.h"
#include "blockd/node/pool_proxy.h"
#include "blockd/pool/record_text.h"

#define KNOWN_SUFFIX    ".pool"
#define KNOWN_FILE_SIZE (POOL_NAME_SIZE + sizeof(KNOWN_SUFFIX))

static const char *known_file(char *buf, const char *name)
{
	(void)snprintf(buf, KNOWN_FILE_SIZE, "%s" KNOWN_SUFFIX, name);
	return buf;
}

int node_pool_remember(struct node *node, const struct known_pool *known,
		       struct error *err)
{
	char file[KNOWN_FILE_SIZE];
	auto_free char *data = NULL;
	size_t length;
	int r = known_pool_encode(known, &data, &length, err);

	if (r < 0)
		return r;
	r = file_replace(node->state_fd, known_file(file, known->name), data,
			 length, 0600, err);
	if (r < 0)
		(void)error_prefix(err, r, "remember pool '%s': ", known->name);
	return r;
}

int node_pool_forget(struct node *node, const char *name, struct error *err)
{
	char file[KNOWN_FILE_SIZE];

	return file_remove(node->state_fd, known_file(file, name), err);
}

/* ---- opening ---- */

/* What opening_load() found, before anybody sees it. */
struct opening {
	struct node *node;
	struct node_pool *pool;
	struct pool *open; /* what is being loaded */
	struct extent_list found;
	uint64_t bytes;
	bool failed; /* out of memory */
};

static void found_note(void *context, const char *text)
{
	const struct opening *o = context;

	log_warning("pool %s: %s", o->pool->known.name, text);
}

static struct extent *new_extent(const struct opening *o,
				 const struct pool_found *found)
{
	struct extent *extent = extent_new(o->node);

	if (!extent)
		return NULL;
	extent->pool = o->pool;
	if (found->record) {
		if (extent_record_copy(&extent->record, found->record) < 0)
			goto fail;
		extent->bytes = extent_promise(o->open, found->record);
		gate_set_limits(&extent->gate, &extent->record.limits);
	} else {
		(void)snprintf(extent->record.name, EXTENT_NAME_SIZE, "%s",
			       found->name);
		extent->record.state = EXTENT_OK;
		extent->bytes = found->bytes;
	}
	if (found->damage) {
		extent->damage = strdup(found->damage);
		if (!extent->damage)
			goto fail;
	}
	return extent;
fail:
	extent_unref(extent);
	return NULL;
}

static void found_extent(void *context, const struct pool_found *found)
{
	struct opening *o = context;
	struct extent *extent = new_extent(o, found);

	if (!extent) {
		o->failed = true;
		return;
	}
	if (found->damage)
		log_write(LOG_LEVEL_ERROR,
			  "pool %s: extent %s is damaged and not served: %s",
			  o->pool->known.name, found->name, found->damage);
	o->bytes += extent->bytes;
	LIST_INSERT_HEAD(&o->found, extent, in_bucket);
}

/* A name that another pool brought already can't be reached by it. */
static void mark_twin(struct node *node, struct extent *extent)
{
	const struct extent *other = node_find_extent(node,
						      extent->record.name);
	char why[ERROR_TEXT_MAX];

	if (!other || other->damage || extent->damage)
		return;
	(void)snprintf(why, sizeof(why),
		       "the name is taken by an extent in pool '%s'",
		       other->pool->known.name);
	extent->damage = strdup(why);
	log_write(LOG_LEVEL_ERROR, "pool %s: extent %s is not served: %s",
		  extent->pool->known.name, extent->record.name, why);
}

static int opening_load(struct opening *o, struct pool *pool, struct error *err)
{
	struct pool_visitor visitor = {found_extent, found_note, o};
	int r;

	o->open = pool;
	r = pool->ops->load(pool, &visitor, err);

	if (r == 0 && o->failed)
		r = error_set(err, ENOMEM, "out of memory");
	return r;
}

static void forget_found(struct opening *o)
{
	struct extent *extent;

	while ((extent = LIST_FIRST(&o->found))) {
		LIST_REMOVE(extent, in_bucket);
		extent_unref(extent);
	}
}

/*
 * Renew the incarnation of a pool that was gone while we ran. Its clients must
 * not go on as if nothing had happened.
 */
static int incarnation_renew(const struct opening *o, struct pool *pool,
			     struct error *err)
{
	pool->fault = node_medium_failed;
	pool->fault_context = o->pool;
	return o->pool->lost && pool->ops->renew ? pool->ops->renew(pool, err)
						 : 0;
}

static int seat(const struct opening *o, struct pool *pool, struct error *err)
{
	if (!o->pool->pool)
		return pool_proxy_new(pool, &o->pool->pool, err);
	o->pool->pool->record = pool->record; /* the incarnation is new */
	pool_proxy_fill(o->pool->pool, pool);
	return 0;
}

/* The pool is open and read: show it and its extents. */
static void show(struct opening *o)
{
	struct node *node = o->node;
	struct extent *extent;

	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	o->pool->state = NODE_POOL_ONLINE;
	o->pool->message[0] = '\0';
	o->pool->served = true;
	/* What can be read may still fail when it is written. */
	atomic_store(&o->pool->health.suspect, true);
	o->pool->reserved = o->bytes;
	while ((extent = LIST_FIRST(&o->found))) {
		LIST_REMOVE(extent, in_bucket);
		mark_twin(node, extent);
		node_insert_extent(node, extent);
		extent_unref(extent);
	}
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	node_measure(node);
	node_watch_wake(node);
}

static enum node_pool_state state_from_error(int r)
{
	switch (-r) {
	case ENOENT:
	case ENOTDIR:
	case ENODEV:
	case ENXIO:
	case ENOMEDIUM: return NODE_POOL_MISSING;
	case EROFS: return NODE_POOL_READ_ONLY;
	case ESTALE: return NODE_POOL_FOREIGN;
	case EBUSY: return NODE_POOL_LOCKED;
	case EIO:
	case EREMOTEIO:
	case ENODATA:
	case ETIMEDOUT:
	case ENOTCONN: return NODE_POOL_FAILING;
	default: return NODE_POOL_DAMAGED;
	}
}

/* Open the pool, or say in its state why it is not online. */
int node_pool_open(struct node *node, struct node_pool *entry,
		   struct error *err)
{
	struct opening o = {.node = node, .pool = entry};
	const struct known_pool *known = &entry->known;
	struct error why = {0};
	struct pool *pool = NULL;
	int r = pool_at_open(known->path, known->name, known->id, &pool, &why);

	LIST_INIT(&o.found);
	if (r == 0)
		r = incarnation_renew(&o, pool, &why);
	if (r == 0)
		r = opening_load(&o, pool, &why);
	if (r == 0) /* from here on the seat has it */
		r = seat(&o, pool, &why);
	if (r < 0)
		forget_found(&o);
	if (r == 0) {
		show(&o);
		entry->lost = false;
		log_info("pool %s at %s: online, %u extents", known->name,
			 known->path, entry->extents);
		return 0;
	}
	pool_close(pool);
	pthread_mutex_lock(&node->tables);
	entry->state = state_from_error(r);
	entry->lost = entry->lost || entry->state == NODE_POOL_MISSING ||
		      node_pool_retries(entry);
	(void)snprintf(entry->message, sizeof(entry->message), "%s",
		       error_text(&why));
	pthread_mutex_unlock(&node->tables);
	return error_set(err, -r, "pool '%s' is %s: %s", known->name,
			 node_pool_state_name(entry->state), why.msg);
}

int node_pool_new(struct node *node, const struct known_pool *known,
		  struct node_pool **ret, struct error *err)
{
	struct node_pool *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return error_set(err, ENOMEM, "out of memory");
	entry->node = node;
	entry->known = *known;
	entry->state = NODE_POOL_MISSING;
	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	TAILQ_INSERT_TAIL(&node->list, entry, in_node);
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	*ret = entry;
	return 0;
}

bool node_pool_drop(struct node *node, struct node_pool *entry)
{
	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	TAILQ_REMOVE(&node->list, entry, in_node);
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	if (!node_health_end(entry)) {
		log_warning("pool %s: it does not answer, and is left as it is",
			    entry->known.name);
		return false;
	}
	pool_close(entry->pool);
	free(entry);
	return true;
}

/* Identity off the medium, then out of our memory. It is marked deleting. */
int node_pool_finish_delete(struct node *node, struct node_pool *entry,
			    struct error *err)
{
	int r = 0;

	if (entry->served)
		r = entry->pool->ops->destroy(entry->pool, err);
	if (r == 0)
		r = node_pool_forget(node, entry->known.name, err);
	if (r < 0)
		return r;
	log_info("pool %s at %s: deleted", entry->known.name,
		 entry->known.path);
	(void)node_pool_drop(node, entry); /* it is forgotten anyway */
	return 0;
}

static int open_known(struct node *node, const struct known_pool *known,
		      struct error *err)
{
	struct node_pool *entry;
	int r = node_pool_new(node, known, &entry, err);

	if (r < 0)
		return r;
	r = node_pool_open(node, entry, err);
	if (known->deleting &&
	    (r == 0 ? !entry->extents : entry->state == NODE_POOL_MISSING))
		return node_pool_finish_delete(node, entry, err);
	if (r == 0 || r == -EBUSY)
		return r;
	log_write(LOG_LEVEL_ERROR, "%s; it is not served", error_text(err));
	return 0;
}

static int read_known(struct node *node, const char *file,
		      struct known_pool *ret, struct error *err)
{
	auto_free char *data = NULL;
	size_t length;
	int r = file_read(node->state_fd, file, RECORD_TEXT_MAX, &data, &length,
			  err);

	return r < 0 ? r : known_pool_decode(data, length, ret, err);
}

static bool is_known_file(const char *file)
{
	size_t length = strlen(file), tail = strlen(KNOWN_SUFFIX);

	return file[0] != '.' && length > tail &&
	       strcmp(file + length - tail, KNOWN_SUFFIX) == 0;
}

static int open_known_file(struct node *node, const char *file,
			   struct error *err)
{
	struct known_pool known;

	if (strncmp(file, FILE_TEMPORARY_PREFIX,
		    strlen(FILE_TEMPORARY_PREFIX)) == 0)
		return file_remove(node->state_fd, file, err);
	if (!is_known_file(file))
		return 0;
	if (read_known(node, file, &known, err) < 0) {
		log_write(LOG_LEVEL_ERROR,
			  "the memory of a pool, %s, is damaged (%s): create "
			  "the pool again at its path and it is taken up as "
			  "it is",
			  file, error_text(err));
		return 0;
	}
	return open_known(node, &known, err);
}

int node_open_known(struct node *node, struct error *err)
{
	struct dirent **entries;
	char path[32];
	int n, r = 0;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", node->state_fd);
	n = scandir(path, &entries, NULL, alphasort);
	if (n < 0)
		return error_set(err, errno, "read the state directory: %s",
				 strerror(errno));
	pthread_mutex_lock(&node->pools);
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = open_known_file(node, entries[i]->d_name, err);
		free(entries[i]);
	}
	pthread_mutex_unlock(&node->pools);
	free(entries);
	if (r == 0)
		cut_intents_settle(node);
	return r;
}
