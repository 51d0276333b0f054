/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/store/raw_map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* ---- any thread ---- */

static uint32_t entry_of(const struct raw_leaf *leaf, unsigned at)
{
	/*
	 * Acquire: a reader that sees an entry sees all that was written before
	 * it.
	 */
	return atomic_load_explicit(&leaf->entries[at], memory_order_acquire);
}

static uint32_t root_get(const struct raw_root *root, uint64_t cluster)
{
	const struct raw_leaf *leaf;

	if (!root || cluster >= root->clusters)
		return RAW_HOLE;
	leaf = raw_root_leaf(root, cluster / RAW_LEAF_ENTRIES);
	return leaf ? entry_of(leaf, cluster % RAW_LEAF_ENTRIES) : RAW_HOLE;
}

uint32_t raw_map_get(const struct raw_map *map, uint64_t cluster)
{
	return root_get(raw_map_root(map), cluster);
}

uint64_t raw_map_run(const struct raw_map *map, uint64_t cluster, uint64_t max,
		     uint32_t *ret)
{
	const struct raw_root *root = raw_map_root(map);
	const uint32_t first = root_get(root, cluster);
	uint64_t n = 1;

	while (n < max) {
		uint32_t want = first == RAW_HOLE ? first : first + (uint32_t)n;

		if (root_get(root, cluster + n) != want)
			break;
		n++;
	}
	*ret = first;
	return n;
}

uint64_t raw_map_clusters(const struct raw_map *map)
{
	const struct raw_root *root = raw_map_root(map);

	return root ? root->clusters : 0;
}

bool raw_map_leaf_shared(const struct raw_map *map, uint64_t cluster)
{
	const struct raw_root *root = raw_map_root(map);
	const struct raw_leaf *leaf;

	if (!root || cluster >= root->clusters)
		return false;
	leaf = raw_root_leaf(root, cluster / RAW_LEAF_ENTRIES);
	return leaf &&
	       atomic_load_explicit(&leaf->maps, memory_order_acquire) > 1;
}

/* ---- trash ---- */

int raw_trash_reserve(struct raw_trash *trash, size_t more)
{
	size_t room = trash->room ? trash->room : 16;
	void **items;

	if (trash->room - trash->n >= more)
		return 0;
	while (room - trash->n < more)
		room *= 2;
	items = reallocarray(trash->items, room, sizeof(*items));
	if (!items)
		return -ENOMEM;
	trash->items = items;
	trash->room = room;
	return 0;
}

static void trash_add(struct raw_trash *trash, void *item)
{
	assert(trash->n < trash->room);
	trash->items[trash->n++] = item;
}

void raw_trash_empty(struct raw_trash *trash)
{
	for (size_t i = 0; i < trash->n; i++)
		free(trash->items[i]);
	free(trash->items);
	*trash = (struct raw_trash){0};
}

/* ---- leaves ---- */

static bool is_unwritten(uint32_t entry)
{
	return entry != RAW_HOLE && entry & RAW_UNWRITTEN;
}

static bool is_partial(uint32_t entry)
{
	return entry != RAW_HOLE && entry & RAW_PARTIAL;
}

struct raw_leaf *raw_leaf_new(void)
{
	struct raw_leaf *leaf = malloc(sizeof(*leaf));

	if (!leaf)
		return NULL;
	leaf->maps = leaf->mapped = leaf->unwritten = leaf->number = 0;
	leaf->seen = leaf->partial = leaf->windows = leaf->freezes = 0;
	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++)
		atomic_init(&leaf->entries[i], RAW_HOLE);
	return leaf;
}

void raw_leaf_fill(struct raw_leaf *leaf, unsigned at, uint32_t entry,
		   struct raw_refs *refs)
{
	assert(entry != RAW_HOLE && entry_of(leaf, at) == RAW_HOLE);
	refs->get(refs, entry);
	atomic_store_explicit(&leaf->entries[at], entry, memory_order_release);
	leaf->mapped++;
	leaf->unwritten += is_unwritten(entry);
	leaf->partial += is_partial(entry);
}

/* Drop a reference; the last one puts the entries of the leaf. */
static void leaf_put(struct raw_leaf *leaf, struct raw_refs *refs,
		     struct raw_trash *trash)
{
	uint32_t left = leaf->mapped;

	assert(leaf->maps > 0);
	if (--leaf->maps > 0)
		return;
	for (unsigned i = 0; left && i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = entry_of(leaf, i);

		if (entry == RAW_HOLE)
			continue;
		refs->put(refs, entry);
		left--;
	}
	trash_add(trash, leaf);
}

/* A copy of its own for one of the maps that share it. */
static struct raw_leaf *leaf_copy(const struct raw_leaf *leaf,
				  struct raw_refs *refs)
{
	struct raw_leaf *copy = raw_leaf_new();

	for (unsigned i = 0; copy && i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = entry_of(leaf, i);

		if (entry != RAW_HOLE)
			raw_leaf_fill(copy, i, entry, refs);
	}
	if (copy)
		copy->freezes = refs->freezes;
	return copy;
}

static bool is_frozen(const struct raw_leaf *leaf, const struct raw_refs *refs)
{
	return refs->frozen && leaf->freezes != refs->freezes;
}

/* In the place of one that stays as it is: no reference comes or goes. */
static struct raw_leaf *leaf_renew(const struct raw_leaf *leaf,
				   const struct raw_refs *refs)
{
	struct raw_leaf *own = raw_leaf_new();

	for (unsigned i = 0; own && i < RAW_LEAF_ENTRIES; i++)
		atomic_init(&own->entries[i], entry_of(leaf, i));
	if (!own)
		return NULL;
	own->mapped = leaf->mapped;
	own->unwritten = leaf->unwritten;
	own->partial = leaf->partial;
	own->seen = leaf->seen;
	own->freezes = refs->freezes;
	return own;
}

static void leaf_set(struct raw_leaf *leaf, unsigned at, uint32_t entry,
		     struct raw_refs *refs)
{
	uint32_t old = entry_of(leaf, at);
	const bool same = old != RAW_HOLE && entry != RAW_HOLE &&
			  RAW_PHYSICAL(old) == RAW_PHYSICAL(entry);

	if (old == entry)
		return;
	if (same)
		refs->turn(refs, old, entry);
	else if (entry != RAW_HOLE)
		refs->get(refs, entry);
	atomic_store_explicit(&leaf->entries[at], entry, memory_order_release);
	leaf->mapped += (entry != RAW_HOLE);
	leaf->mapped -= (old != RAW_HOLE);
	leaf->unwritten += is_unwritten(entry);
	leaf->unwritten -= is_unwritten(old);
	leaf->partial += is_partial(entry);
	leaf->partial -= is_partial(old);
	if (old != RAW_HOLE && !same)
		refs->put(refs, old);
}

void raw_leaf_refill(struct raw_leaf *leaf, unsigned at, uint32_t entry,
		     struct raw_refs *refs)
{
	assert(entry != RAW_HOLE && entry_of(leaf, at) != RAW_HOLE);
	leaf_set(leaf, at, entry, refs);
}

/* ---- roots ---- */

static size_t slots_for(uint64_t clusters)
{
	return (clusters + RAW_LEAF_ENTRIES - 1) / RAW_LEAF_ENTRIES;
}

static struct raw_root *root_new(uint64_t clusters)
{
	size_t slots = slots_for(clusters);
	struct raw_root *root = calloc(
		1, sizeof(*root) + slots * sizeof(root->leaves[0]));

	if (root) {
		root->clusters = clusters;
		root->slots = slots;
	}
	return root;
}

static void root_replace(struct raw_map *map, struct raw_root *root,
			 struct raw_trash *trash)
{
	struct raw_root *old = raw_map_root(map);

	atomic_store_explicit(&map->root, root, memory_order_release);
	if (old)
		trash_add(trash, old);
}

int raw_map_extend(struct raw_map *map, uint64_t clusters,
		   struct raw_trash *trash)
{
	struct raw_root *old = raw_map_root(map), *root;

	assert(clusters >= raw_map_clusters(map));
	if (clusters == raw_map_clusters(map))
		return 0;
	root = root_new(clusters);
	if (!root || raw_trash_reserve(trash, 1) < 0) {
		free(root);
		return -ENOMEM;
	}
	for (size_t i = 0; old && i < old->slots; i++)
		atomic_init(&root->leaves[i], raw_root_leaf(old, i));
	root_replace(map, root, trash);
	return 0;
}

static void root_put_leaves(struct raw_root *root, struct raw_refs *refs,
			    struct raw_trash *trash)
{
	for (size_t i = 0; root && i < root->slots; i++) {
		struct raw_leaf *leaf = raw_root_leaf(root, i);

		if (leaf)
			leaf_put(leaf, refs, trash);
	}
}

/* What of @leaf was written, into one that is empty. */
static void leaf_copy_written(struct raw_leaf *to, const struct raw_leaf *leaf,
			      struct raw_refs *refs)
{
	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = entry_of(leaf, i);

		if (entry != RAW_HOLE && !is_unwritten(entry))
			raw_leaf_fill(to, i, entry, refs);
	}
	to->freezes = refs->freezes;
}

/*
 * The root of a map that is to share with @source: its leaves, and empty ones
 * for those that have clusters which were never written beside others.
 */
static struct raw_root *root_for(uint64_t clusters,
				 const struct raw_root *source)
{
	struct raw_root *root = root_new(clusters);
	bool ok = root;

	for (size_t i = 0; ok && source && i < source->slots; i++) {
		struct raw_leaf *leaf = raw_root_leaf(source, i);

		if (leaf && leaf->unwritten == leaf->mapped) {
			leaf = NULL;
		} else if (leaf && leaf->unwritten) {
			leaf = raw_leaf_new();
			ok = leaf;
		}
		atomic_init(&root->leaves[i], leaf);
	}
	if (ok)
		return root;
	for (size_t i = 0; root && source && i < source->slots; i++) {
		if (raw_root_leaf(root, i) != raw_root_leaf(source, i))
			free(raw_root_leaf(root, i));
	}
	free(root);
	return NULL;
}

/* Leaves that one other map has when @root goes. */
static void root_unshare(const struct raw_root *root, struct raw_refs *refs)
{
	for (size_t i = 0; i < root->slots; i++) {
		const struct raw_leaf *leaf = raw_root_leaf(root, i);

		if (!leaf || leaf->maps != 2)
			continue;
		for (unsigned at = 0; at < RAW_LEAF_ENTRIES; at++) {
			uint32_t entry = entry_of(leaf, at);

			if (entry != RAW_HOLE)
				refs->unshare(refs, RAW_PHYSICAL(entry));
		}
	}
}

int raw_map_share(struct raw_map *map, const struct raw_map *from,
		  struct raw_refs *refs, struct raw_trash *trash)
{
	struct raw_root *old = raw_map_root(map), *source = raw_map_root(from),
			*root;

	assert(raw_map_clusters(map) >= raw_map_clusters(from));
	if (!old)
		return 0;
	if (raw_trash_reserve(trash, old->slots + 1) < 0)
		return -ENOMEM;
	root = root_for(old->clusters, source);
	if (!root)
		return -ENOMEM;
	for (size_t i = 0; source && i < source->slots; i++) {
		struct raw_leaf *leaf = raw_root_leaf(root, i);

		if (leaf && leaf != raw_root_leaf(source, i))
			leaf_copy_written(leaf, raw_root_leaf(source, i), refs);
		if (leaf)
			leaf->maps++;
	}
	root_replace(map, root, trash);
	root_unshare(old, refs);
	root_put_leaves(old, refs, trash);
	return 0;
}

int raw_map_drop(struct raw_map *map, struct raw_refs *refs,
		 struct raw_trash *trash)
{
	struct raw_root *old = raw_map_root(map);

	if (!old)
		return 0;
	if (raw_trash_reserve(trash, old->slots + 1) < 0)
		return -ENOMEM;
	root_replace(map, NULL, trash);
	root_put_leaves(old, refs, trash);
	return 0;
}

void raw_map_use(struct raw_map *map, size_t slot, struct raw_leaf *leaf)
{
	struct raw_root *root = raw_map_root(map);

	assert(root && slot < root->slots && !raw_root_leaf(root, slot));
	leaf->maps++;
	atomic_store_explicit(&root->leaves[slot], leaf, memory_order_release);
}

/* ---- changing entries ---- */

/* One to take the place of @leaf (NULL: there is none) in one map. */
static struct raw_leaf *own_leaf(const struct raw_leaf *leaf,
				 struct raw_refs *refs)
{
	struct raw_leaf *own;

	if (leaf)
		return leaf->maps == 1 ? leaf_renew(leaf, refs)
				       : leaf_copy(leaf, refs);
	own = raw_leaf_new();
	if (own)
		own->freezes = refs->freezes;
	return own;
}

/* Give each slot of a range a leaf of this map alone, where it needs one. */
static int own_leaves(struct raw_map *map, size_t first, size_t last,
		      bool holes, struct raw_refs *refs,
		      struct raw_trash *trash)
{
	struct raw_root *root = raw_map_root(map);

	if (refs->frozen && raw_trash_reserve(trash, last - first + 1) < 0)
		return -ENOMEM;
	for (size_t i = first; i <= last; i++) {
		struct raw_leaf *leaf = raw_root_leaf(root, i), *own;
		const bool sole = leaf && leaf->maps == 1;

		if (leaf ? sole && !is_frozen(leaf, refs) : holes)
			continue;
		own = own_leaf(leaf, refs);
		if (!own)
			return -ENOMEM;
		own->maps = 1;
		atomic_store_explicit(&root->leaves[i], own,
				      memory_order_release);
		if (sole)
			trash_add(trash, leaf);
		else if (leaf) /* others use it: it is not freed */
			leaf_put(leaf, refs, trash);
	}
	return 0;
}

int raw_map_set(struct raw_map *map, uint64_t cluster, uint64_t count,
		uint32_t entry, struct raw_refs *refs, struct raw_trash *trash)
{
	struct raw_root *root = raw_map_root(map);
	const bool holes = entry == RAW_HOLE;
	int r;

	assert(root && count && cluster + count <= root->clusters);
	/* A leaf of one's own has the same entries: no change to be undone. */
	r = own_leaves(map, cluster / RAW_LEAF_ENTRIES,
		       (cluster + count - 1) / RAW_LEAF_ENTRIES, holes, refs,
		       trash);
	for (uint64_t i = 0; r == 0 && i < count; i++) {
		uint64_t at = cluster + i;
		struct raw_leaf *leaf = raw_root_leaf(root,
						      at / RAW_LEAF_ENTRIES);

		if (leaf)
			leaf_set(leaf, at % RAW_LEAF_ENTRIES,
				 holes ? RAW_HOLE : entry + (uint32_t)i, refs);
	}
	return r;
}
