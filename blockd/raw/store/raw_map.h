/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of one object of a raw pool: from its clusters to the pool's. Maps
 * share leaves, so that a snapshot costs a pointer for each 1024 clusters.
 *
 * One thread at a time changes maps: the one with the pool's lock. Any loop
 * looks up at the same time, without a lock. Memory that a loop may still be
 * reading is handed to a trash. The owner frees it when every lookup and every
 * request that was under way then has ended.
 */
#ifndef BLOCKD_RAW_MAP_H
#define BLOCKD_RAW_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An entry: a cluster of the pool, or a hole. */
#define RAW_HOLE            UINT32_MAX
#define RAW_UNWRITTEN       (UINT32_C(1) << 31) /* allocated, reads as zeroes */
#define RAW_PARTIAL         (UINT32_C(1) << 30) /* written in part: raw_bitmap.h */
#define RAW_PHYSICAL(entry) ((entry) & ~(RAW_UNWRITTEN | RAW_PARTIAL))

#define RAW_LEAF_ENTRIES 1024u

struct raw_leaf {
	_Atomic uint32_t maps; /* that use it; only the changer changes it */
	uint32_t mapped;       /* entries that are no holes; of the changer */
	uint32_t unwritten;    /* of these, that read as zeroes; the same */
	uint32_t partial; /* of these, that are written in part; the same */
	uint32_t windows; /* while a checkpoint is read: WRITTENs it had */
	uint32_t freezes; /* that there had been when it was made */
	uint32_t number;  /* in a checkpoint; 0: none */
	uint32_t seen;    /* in the count of that number; of who counts */
	_Atomic uint32_t entries[RAW_LEAF_ENTRIES];
};

struct raw_root {
	uint64_t clusters;
	size_t slots;
	_Atomic(struct raw_leaf *) leaves[]; /* NULL: all holes */
};

struct raw_map {
	_Atomic(struct raw_root *) root; /* NULL: no clusters */
	/* A first write fills its cluster: it is to be mapped straight. */
	atomic_bool whole;
};

/* ---- any thread ---- */

static inline struct raw_root *raw_map_root(const struct raw_map *map)
{
	return atomic_load_explicit(&map->root, memory_order_acquire);
}

static inline struct raw_leaf *raw_root_leaf(const struct raw_root *root,
					     size_t slot)
{
	return atomic_load_explicit(&root->leaves[slot], memory_order_acquire);
}

/* The entry of @cluster; a hole past the end. */
uint32_t raw_map_get(const struct raw_map *map, uint64_t cluster);

/*
 * Count the clusters from @cluster on, at most @max, that follow each other in
 * the pool in the same state. All may be holes, too. At least 1. @ret: the
 * entry of the first.
 */
uint64_t raw_map_run(const struct raw_map *map, uint64_t cluster, uint64_t max,
		     uint32_t *ret);

uint64_t raw_map_clusters(const struct raw_map *map);

/*
 * Tell whether other maps may have @cluster's leaf, too. The answer "false"
 * stays right until maps are shared again.
 */
bool raw_map_leaf_shared(const struct raw_map *map, uint64_t cluster);

/* ---- the changer ---- */

/* Memory that lookups may still see. */
struct raw_trash {
	void **items; /* owned, free() each */
	size_t n, room;
};

int raw_trash_reserve(struct raw_trash *trash, size_t more); /* -ENOMEM */
void raw_trash_empty(struct raw_trash *trash);

/* The counter of references to a pool's clusters. */
struct raw_refs {
	void (*get)(struct raw_refs *refs, uint32_t entry);
	void (*put)(struct raw_refs *refs, uint32_t entry);
	/* The same cluster, no hole, by another kind of entry. */
	void (*turn)(struct raw_refs *refs, uint32_t from, uint32_t to);
	/* No count changes, but a leaf that has it is another map's no more. */
	void (*unshare)(struct raw_refs *refs, uint32_t physical);
	/*
	 * A reader looks at maps as they were at the last freeze. Leaves that
	 * are older stay as they are, and a change replaces them. Trash is not
	 * freed until this ends.
	 */
	bool frozen;
	uint32_t freezes;
};

/* Each of these is done whole, or -ENOMEM and nothing was changed. */

/* Longer only; the new clusters are holes. */
int raw_map_extend(struct raw_map *map, uint64_t clusters,
		   struct raw_trash *trash);
/*
 * Set @count entries from @cluster on: to @entry and those after it, or all
 * to RAW_HOLE.
 */
int raw_map_set(struct raw_map *map, uint64_t cluster, uint64_t count,
		uint32_t entry, struct raw_refs *refs, struct raw_trash *trash);
/*
 * Make all of @map read as @from; put the entries that it had. It is no shorter
 * than @from. Clusters that were never written stay @from's alone: in @map they
 * are holes. Only leaves that have both kinds are copied, so it takes no longer
 * for what is mapped, 8 bytes for each leaf.
 */
int raw_map_share(struct raw_map *map, const struct raw_map *from,
		  struct raw_refs *refs, struct raw_trash *trash);
/*
 * Put all entries; the map has no clusters then. Clusters that another map then
 * has alone may be written to before this is durable. So it must not matter any
 * more what the map reads as.
 */
int raw_map_drop(struct raw_map *map, struct raw_refs *refs,
		 struct raw_trash *trash);
/* Put @leaf, which may be used by other maps, into an empty slot. */
void raw_map_use(struct raw_map *map, size_t slot, struct raw_leaf *leaf);

/* All holes, in no map; free() it when no map takes it. NULL: no memory. */
struct raw_leaf *raw_leaf_new(void);
/* Fill a hole of a leaf that is in no map yet. */
void raw_leaf_fill(struct raw_leaf *leaf, unsigned at, uint32_t entry,
		   struct raw_refs *refs);
/* Turn an entry, no hole, of a leaf that is in no map yet into another kind. */
void raw_leaf_refill(struct raw_leaf *leaf, unsigned at, uint32_t entry,
		     struct raw_refs *refs);

/* Entries that are no holes. */
uint64_t raw_map_mapped(const struct raw_map *map);

/*
 * Find the next run from @cluster on in which the two maps may read
 * differently; @ret_count 0: none. A hole and a cluster that was never written
 * read alike. Leaves that both share are passed over at once. @from NULL:
 * against a map of holes.
 */
void raw_map_difference(const struct raw_map *map, const struct raw_map *from,
			uint64_t cluster, uint64_t *ret_start,
			uint64_t *ret_count);

#endif
