/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "blockd/lock_file.h"
#include "blockd/pool_dir.h"
#include "blockd/record_text.h"

#define KNOWN_SUFFIX    ".pool"
#define KNOWN_FILE_SIZE (POOL_NAME_SIZE + sizeof(KNOWN_SUFFIX))

const char *node_pool_state_name(enum node_pool_state state)
{
	static const char *const names[] = {
		[NODE_POOL_ONLINE] = "online",
		[NODE_POOL_MISSING] = "missing",
		[NODE_POOL_FOREIGN] = "foreign",
		[NODE_POOL_LOCKED] = "locked",
		[NODE_POOL_DAMAGED] = "damaged",
	};

	return names[state];
}

/* ---- the tables ---- */

static struct extent_list *bucket_of(struct node *node, const char *name)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return &node->buckets[hash % NODE_BUCKETS];
}

struct node_pool *node_find_pool(struct node *node, const char *name)
{
	struct node_pool *pool;

	TAILQ_FOREACH (pool, &node->list, in_node)
		if (strcmp(pool->known.name, name) == 0)
			return pool;
	return NULL;
}

struct extent *node_find_extent(struct node *node, const char *name)
{
	struct extent *extent, *found = NULL;

	/* A name may be there twice, all but one of them damaged. */
	LIST_FOREACH (extent, bucket_of(node, name), in_bucket)
		if (strcmp(extent->record.name, name) == 0 &&
		    (!found || found->damage))
			found = extent;
	return found;
}

void node_insert_extent(struct node *node, struct extent *extent)
{
	LIST_INSERT_HEAD(bucket_of(node, extent->record.name),
			 extent_ref(extent), in_bucket);
	extent->pool->extents++;
}

void node_remove_extent(struct node *node, struct extent *extent)
{
	(void)node;
	LIST_REMOVE(extent, in_bucket);
	extent->pool->extents--;
	extent_unref(extent);
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = *(struct extent *const *)a;
	const struct extent *y = *(struct extent *const *)b;
	int order = strcmp(x->record.name, y->record.name);

	return order ? order : strcmp(x->pool->known.name, y->pool->known.name);
}

/* Tables are held. */
static size_t collect(struct node *node, const char *pool, struct extent **into)
{
	struct extent *extent;
	size_t n = 0;

	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		LIST_FOREACH (extent, &node->buckets[i], in_bucket) {
			if (extent->record.state == EXTENT_CREATING ||
			    (pool && strcmp(extent->pool->known.name, pool)))
				continue;
			if (into)
				into[n] = extent_ref(extent);
			n++;
		}
	}
	return n;
}

int node_list_extents(struct node *node, const char *pool, struct extent ***ret,
		      size_t *ret_count, struct error *err)
{
	struct extent **list = NULL;
	size_t n = 0;
	int r = 0;

	if (pool && !pool[0])
		pool = NULL;
	pthread_mutex_lock(&node->tables);
	if (pool && !node_find_pool(node, pool)) {
		r = error_set(err, ENOENT,
			      "there is no pool '%.64s' on this node", pool);
	} else {
		list = calloc(collect(node, pool, NULL) + 1, sizeof(*list));
		if (list)
			n = collect(node, pool, list);
		else
			r = error_set(err, ENOMEM, "out of memory");
	}
	pthread_mutex_unlock(&node->tables);
	if (r < 0)
		return r;
	qsort(list, n, sizeof(*list), compare_extents);
	*ret = list;
	*ret_count = n;
	return 0;
}

void node_put_list(struct extent **extents, size_t count)
{
	for (size_t i = 0; i < count; i++)
		extent_unref(extents[i]);
	free(extents);
}

/* ---- the pools that are remembered ---- */

static const char *known_file(char *buf, const char *name)
{
	(void)snprintf(buf, KNOWN_FILE_SIZE, "%s" KNOWN_SUFFIX, name);
	return buf;
}

static int remember(struct node *node, const struct known_pool *known,
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
	return r < 0 ? error_prefix(err, "remember pool '%s': ", known->name)
		     : 0;
}

static int forget(struct node *node, const char *name, struct error *err)
{
	char file[KNOWN_FILE_SIZE];

	return file_remove(node->state_fd, known_file(file, name), err);
}

/* ---- opening ---- */

/* What load() found, before anybody sees it. */
struct opening {
	struct node *node;
	struct node_pool *pool;
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
		extent->bytes = found->record->size;
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

static int load(struct opening *o, struct pool *pool, struct error *err)
{
	struct pool_visitor visitor = {found_extent, found_note, o};
	struct extent *extent;
	int r = pool->ops->load(pool, &visitor, err);

	if (r == 0 && o->failed)
		r = error_set(err, ENOMEM, "out of memory");
	while (r < 0 && (extent = LIST_FIRST(&o->found))) {
		LIST_REMOVE(extent, in_bucket);
		extent_unref(extent);
	}
	return r;
}

/* The pool is open and read: show it and its extents. */
static void show(struct opening *o, struct pool *pool)
{
	struct node *node = o->node;
	struct extent *extent;

	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	o->pool->pool = pool;
	o->pool->state = NODE_POOL_ONLINE;
	o->pool->message[0] = '\0';
	o->pool->reserved = o->bytes;
	while ((extent = LIST_FIRST(&o->found))) {
		LIST_REMOVE(extent, in_bucket);
		mark_twin(node, extent);
		node_insert_extent(node, extent);
		extent_unref(extent);
	}
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
}

static enum node_pool_state state_from_error(int r)
{
	switch (-r) {
	case ENOENT:
	case ENOTDIR: return NODE_POOL_MISSING;
	case ESTALE: return NODE_POOL_FOREIGN;
	case EBUSY: return NODE_POOL_LOCKED;
	default: return NODE_POOL_DAMAGED;
	}
}

/* Open the pool, or say in its state why it is not online. */
static int open_pool(struct node *node, struct node_pool *entry,
		     struct error *err)
{
	struct opening o = {.node = node, .pool = entry};
	const struct known_pool *known = &entry->known;
	struct error why = {0};
	struct pool *pool = NULL;
	int r = pool_dir_open(known->path, known->name, known->id, &pool, &why);

	LIST_INIT(&o.found);
	if (r == 0)
		r = load(&o, pool, &why);
	if (r == 0) {
		show(&o, pool);
		log_info("pool %s at %s: online, %u extents", known->name,
			 known->path, entry->extents);
		return 0;
	}
	pool_close(pool);
	pthread_mutex_lock(&node->tables);
	entry->state = state_from_error(r);
	(void)snprintf(entry->message, sizeof(entry->message), "%s",
		       error_text(&why));
	pthread_mutex_unlock(&node->tables);
	return error_set(err, -r, "pool '%s' is %s: %s", known->name,
			 node_pool_state_name(entry->state), why.msg);
}

static int new_entry(struct node *node, const struct known_pool *known,
		     struct node_pool **ret, struct error *err)
{
	struct node_pool *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return error_set(err, ENOMEM, "out of memory");
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

static void drop_entry(struct node *node, struct node_pool *entry)
{
	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	TAILQ_REMOVE(&node->list, entry, in_node);
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	pool_close(entry->pool);
	free(entry);
}

/* Identity off the medium, then out of our memory. It is marked deleting. */
static int finish_delete(struct node *node, struct node_pool *entry,
			 struct error *err)
{
	int r = 0;

	if (entry->pool)
		r = entry->pool->ops->destroy(entry->pool, err);
	if (r == 0)
		r = forget(node, entry->known.name, err);
	if (r < 0)
		return r;
	log_info("pool %s at %s: deleted", entry->known.name,
		 entry->known.path);
	drop_entry(node, entry);
	return 0;
}

static int open_known(struct node *node, const struct known_pool *known,
		      struct error *err)
{
	struct node_pool *entry;
	int r = new_entry(node, known, &entry, err);

	if (r < 0)
		return r;
	r = open_pool(node, entry, err);
	if (known->deleting &&
	    (r == 0 ? !entry->extents : entry->state == NODE_POOL_MISSING))
		return finish_delete(node, entry, err);
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
	return r;
}

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
static int check_place(struct node *node, const char *name, const char *path,
		       struct error *err)
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
		.kind = "dir",
	};
	int r;

	(void)snprintf(record.name, sizeof(record.name), "%s", request->name);
	(void)uuid_make(record.id);
	(void)uuid_make(record.incarnation);
	r = pool_dir_format(path, &record, err);
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
	enum pool_dir_content content;
	int r = pool_dir_inspect(path, &content, ret, err);

	if (r < 0)
		return r;
	switch (content) {
	case POOL_DIR_EMPTY:
		if (request->may_format)
			return format(request, path, ret, err);
		return error_set(err, ENOENT, "there is no pool in '%s'", path);
	case POOL_DIR_DAMAGED: return -EBADMSG; /* inspect said why */
	case POOL_DIR_OTHER:
		return error_set(err, ENOTEMPTY,
				 "'%s' holds other files; choose an empty "
				 "directory",
				 path);
	case POOL_DIR_POOL: break;
	}
	if (strcmp(ret->name, request->name) != 0)
		return error_set(err, EEXIST, "'%s' holds pool '%s', not '%s'",
				 path, ret->name, request->name);
	return check_copy(node, ret, path, err);
}

static int check_same(const struct node_pool *entry,
		      const struct node_pool_request *request,
		      struct error *err)
{
	const struct pool_record *record = &entry->pool->record;
	uint64_t overcommit = request->overcommit_percent
				      ? request->overcommit_percent
				      : SPACE_OVERCOMMIT_DEFAULT;

	if (request->as_it_is)
		return 0;
	if (record->capacity != request->capacity)
		return error_set(err, EEXIST,
				 "pool '%s' exists with a capacity of %" PRIu64
				 " bytes, not %" PRIu64 " (0: what the file "
				 "system has)",
				 record->name, record->capacity,
				 request->capacity);
	if (record->overcommit_percent != overcommit)
		return error_set(err, EEXIST,
				 "pool '%s' exists with an overcommit of "
				 "%" PRIu64 " %%, not %" PRIu64 " %%",
				 record->name, record->overcommit_percent,
				 overcommit);
	return 0;
}

/* The node knows the name: the same pool, perhaps one that came back. */
static int add_again(struct node *node, struct node_pool *entry,
		     const struct node_pool_request *request, const char *path,
		     struct error *err)
{
	struct known_pool known = entry->known;
	enum pool_dir_content content;
	struct pool_record record;
	int r;

	if (entry->pool) {
		if (strcmp(known.path, path) != 0)
			return error_set(err, EEXIST,
					 "pool '%s' is at '%s', not '%s'",
					 known.name, known.path, path);
		return check_same(entry, request, err);
	}
	if (strcmp(known.path, path) != 0) {
		/* Its medium may have come back somewhere else. */
		r = pool_dir_inspect(path, &content, &record, err);
		if (r < 0)
			return r;
		if (content != POOL_DIR_POOL ||
		    strcmp(record.id, known.id) != 0)
			return error_set(err, EEXIST,
					 "pool '%s' was at '%s' and is %s; "
					 "'%s' does not hold it",
					 known.name, known.path,
					 node_pool_state_name(entry->state),
					 path);
		(void)snprintf(known.path, sizeof(known.path), "%s", path);
		r = remember(node, &known, err);
		if (r < 0)
			return r;
		pthread_mutex_lock(&node->tables);
		entry->known = known;
		pthread_mutex_unlock(&node->tables);
	}
	r = open_pool(node, entry, err);
	return r < 0 ? r : check_same(entry, request, err);
}

static int add_new(struct node *node, const struct node_pool_request *request,
		   const char *path, struct error *err)
{
	struct pool_record record;
	struct known_pool known = {0};
	struct node_pool *entry;
	int r = find_or_format(node, request, path, &record, err);

	if (r < 0)
		return r;
	memcpy(known.name, record.name, sizeof(known.name));
	memcpy(known.id, record.id, sizeof(known.id));
	(void)snprintf(known.path, sizeof(known.path), "%s", path);
	/* First: what is served is served again after a restart. */
	r = remember(node, &known, err);
	if (r == 0)
		r = new_entry(node, &known, &entry, err);
	if (r < 0)
		return r;
	r = open_pool(node, entry, err);
	if (r < 0) {
		drop_entry(node, entry);
		(void)forget(node, known.name, NULL);
	}
	return r;
}

static int check_request(const struct node_pool_request *request,
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
	if (request->path[0] != '/')
		return error_set(err, EINVAL, "'%.256s' is no absolute path",
				 request->path);
	return 0;
}

bool node_knows_pool(struct node *node, const char *name)
{
	bool known;

	pthread_mutex_lock(&node->tables);
	known = node_find_pool(node, name) != NULL;
	pthread_mutex_unlock(&node->tables);
	return known;
}

int node_add_pool(struct node *node, const struct node_pool_request *request,
		  struct error *err)
{
	auto_free char *path = NULL;
	struct node_pool *entry;
	int r = check_request(request, err);

	if (r < 0)
		return error_prefix(err, "pool '%.64s': ", request->name);
	path = realpath(request->path, NULL);
	if (!path)
		return error_set(err, errno,
				 "pool '%s': there is no directory '%s': %s",
				 request->name, request->path, strerror(errno));
	pthread_mutex_lock(&node->pools);
	entry = node_find_pool(node, request->name); /* pools: it stays */
	r = check_place(node, request->name, path, err);
	if (r == 0)
		r = entry ? add_again(node, entry, request, path, err)
			  : add_new(node, request, path, err);
	pthread_mutex_unlock(&node->pools);
	return r;
}

/* ---- deleting ---- */

/* From here on it takes no extent. */
static int leave(struct node *node, struct node_pool *entry, struct error *err)
{
	int r = 0;

	pthread_mutex_lock(&node->tables);
	if (!entry->pool)
		r = error_set(err, ENODEV,
			      "pool '%s' is %s (%s): bring it back, it can't "
			      "be deleted unseen",
			      entry->known.name,
			      node_pool_state_name(entry->state),
			      entry->message);
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
	r = leave(node, entry, err);
	if (r < 0)
		return r;
	known = entry->known;
	known.deleting = true;
	r = remember(node, &known, err);
	if (r < 0) {
		pthread_mutex_lock(&node->tables);
		entry->leaving = false;
		pthread_mutex_unlock(&node->tables);
		return r;
	}
	return finish_delete(node, entry, err);
}

int node_delete_pool(struct node *node, const char *name, struct error *err)
{
	int r;

	pthread_mutex_lock(&node->pools);
	r = delete_held(node, name, err);
	pthread_mutex_unlock(&node->pools);
	return r;
}

/* ---- life ---- */

static int open_state(struct node *node, const char *state_dir,
		      struct error *err)
{
	char pools[PATH_MAX], what[PATH_MAX + 32];
	auto_close int fd = -1;
	int r;

	if ((size_t)snprintf(pools, sizeof(pools), "%s/pools", state_dir) >=
	    sizeof(pools))
		return error_set(err, ENAMETOOLONG, "'%.256s...' is too long",
				 state_dir);
	r = dir_make(pools, 0700, err);
	if (r < 0)
		return r;
	fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	node->state_fd = open(pools, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || node->state_fd < 0)
		return error_set(err, errno, "open '%s': %s", pools,
				 strerror(errno));
	(void)snprintf(what, sizeof(what), "state directory '%s'", state_dir);
	return lock_file_take(fd, "lock", what, &node->lock_fd, err);
}

int node_new(const struct node_options *options, struct node **ret,
	     struct error *err)
{
	struct node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return error_set(err, ENOMEM, "out of memory");
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&node->pools, NULL);
	(void)pthread_mutex_init(&node->space, NULL);
	(void)pthread_mutex_init(&node->tables, NULL);
	node->state_fd = node->lock_fd = -1;
	node->floor = options->floor;
	TAILQ_INIT(&node->list);
	r = open_state(node, options->state_dir, err);
	if (r < 0) {
		node_free(node);
		return r;
	}
	*ret = node;
	return 0;
}

void node_free(struct node *node)
{
	struct node_pool *entry;
	struct extent *extent;

	if (!node)
		return;
	for (size_t i = 0; i < NODE_BUCKETS; i++)
		while ((extent = LIST_FIRST(&node->buckets[i])))
			node_remove_extent(node, extent);
	while ((entry = TAILQ_FIRST(&node->list)))
		drop_entry(node, entry);
	fd_close(node->state_fd);
	fd_close(node->lock_fd);
	(void)pthread_mutex_destroy(&node->pools);
	(void)pthread_mutex_destroy(&node->space);
	(void)pthread_mutex_destroy(&node->tables);
	free(node);
}
