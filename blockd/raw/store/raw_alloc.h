/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of a raw pool's clusters: for each a count of references by maps, and
 * a bit when it is taken. A cluster is taken when it is referenced, being
 * filled, holds a checkpoint, or is freed and still to be waited for. One
 * thread at a time.
 */
#ifndef BLOCKD_RAW_ALLOC_H
#define BLOCKD_RAW_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blockd/raw/store/raw_bitmap.h"
#include "blockd/raw/store/raw_format.h"
#include "blockd/raw/store/raw_map.h"

/*
 * Counts are kept in pieces that stay where they are, so that any thread may
 * look while the pool grows.
 */
#define RAW_ALLOC_PIECE  (UINT32_C(1) << 18) /* clusters */
#define RAW_ALLOC_PIECES (RAW_CLUSTERS_MAX / RAW_ALLOC_PIECE)

struct raw_alloc {
	struct raw_refs refs; /* for raw_map.h; put() fills @freed */
	uint32_t clusters;
	uint32_t taken;              /* number of bits set */
	uint32_t used;               /* clusters with references */
	uint32_t shared;             /* clusters with more than one */
	uint64_t references;         /* in all */
	uint64_t references_partial; /* of these, that say RAW_PARTIAL */
	struct raw_bitmaps bitmaps;  /* what they have: gone with the last */
	uint32_t next;               /* where the search goes on */
	uint64_t *bits;              /* owned */
	/* Owned, each and all; of clusters that a map has any thread may look.
	 */
	_Atomic uint32_t **counts;
	/* raw_alloc_suspect(): a bit each, or NULL; owned. */
	uint64_t *suspects;
	/* Clusters whose last reference was put; still taken. */
	uint32_t *freed; /* owned; room for all of them */
	uint32_t n_freed;
	/* Clusters that one map has alone when the changes are durable. */
	uint32_t *unsure[2]; /* owned; room for all of them */
	uint32_t n_unsure[2];
	unsigned round; /* which of the two is added to */
};

/* -ENOMEM. */
int raw_alloc_init(struct raw_alloc *alloc, uint32_t clusters,
		   uint8_t cluster_shift);
void raw_alloc_done(struct raw_alloc *alloc);
/* The medium has grown. -ENOMEM: nothing was changed. */
int raw_alloc_extend(struct raw_alloc *alloc, uint32_t clusters);

/*
 * Take up to @want clusters that follow each other: as many as one free run
 * has, preferably behind @near (a cluster, or RAW_HOLE: anywhere). Returns
 * how many, 0 when none is free.
 */
uint32_t raw_alloc_take(struct raw_alloc *alloc, uint32_t want, uint32_t near,
			uint32_t *ret_first);
/* Take this cluster: false when it is taken already. */
bool raw_alloc_take_at(struct raw_alloc *alloc, uint32_t cluster);
/* Free again: nobody references it, nothing is under way to it. */
void raw_alloc_give(struct raw_alloc *alloc, uint32_t cluster);

uint32_t raw_alloc_free(const struct raw_alloc *alloc);
/* Any thread, of a cluster that a map has or had when it looked. */
uint32_t raw_alloc_count(const struct raw_alloc *alloc, uint32_t cluster);
bool raw_alloc_is_taken(const struct raw_alloc *alloc, uint32_t cluster);

/*
 * Look for clusters that are taken by nobody. All taken clusters without a
 * reference come under suspicion, but for those in @freed and @except. A
 * cluster that is referenced, given back or freed later is cleared. Nobody
 * knows any more of those that are left when everything under way has ended.
 * -ENOMEM.
 */
int raw_alloc_suspect(struct raw_alloc *alloc, const uint32_t *except,
		      uint32_t n_except);
/* How many are left; the first @max of them into @ret. Ends the search. */
uint32_t raw_alloc_suspected(struct raw_alloc *alloc, uint32_t *ret,
			     uint32_t max);

/*
 * Tell whether one map has the cluster alone, durably. Until the change that
 * took it from another map is durable, data written to it would be that map's
 * after a crash. Any thread.
 */
bool raw_alloc_alone(const struct raw_alloc *alloc, uint32_t cluster);
/*
 * Tell whether @cluster of @map, with entry @entry (no hole), is not to be
 * written to in place. Other maps have it, too, or had it until a change that
 * is not durable. Any thread.
 */
bool raw_alloc_shared(const struct raw_alloc *alloc, const struct raw_map *map,
		      uint64_t cluster, uint32_t entry);
/*
 * A cluster of a map from one look: the entry, and whether it is shared, were
 * both so at one moment. A change that was decided on a look is carried out
 * only while the look is still right (raw_store_change_if()). If the look is
 * not right any more, the caller looks again.
 */
struct raw_look {
	uint32_t entry;
	bool shared; /* raw_alloc_shared(); of a hole: no */
	uint64_t n;  /* clusters that are the same, at least 1: raw_map_run() */
};

/*
 * Look at @cluster and at those behind it, @max in all at most. Any thread,
 * while nobody shares the map anew: one that may write to it, or holds the
 * lock.
 */
struct raw_look raw_alloc_look(const struct raw_alloc *alloc,
			       const struct raw_map *map, uint64_t cluster,
			       uint64_t max);
/* All @n clusters from @cluster on are as they were in @look. */
bool raw_alloc_still(const struct raw_alloc *alloc, const struct raw_map *map,
		     uint64_t cluster, uint64_t n, const struct raw_look *look);
/*
 * Note that all changes until now are going to be made durable. When they are,
 * tell raw_alloc_sure() the number that this returns. One at a time.
 */
unsigned raw_alloc_round(struct raw_alloc *alloc);
void raw_alloc_sure(struct raw_alloc *alloc, unsigned round);

/* Of a map: entries that are no holes, and those that no other map has. */
struct raw_usage {
	uint64_t mapped; /* clusters */
	uint64_t alone;
};

/*
 * Any thread, while nothing that the map has had is freed (raw_users_enter()).
 * What changes meanwhile is counted as it was or as it is. Looks at each
 * entry: 2 ms for 1 TiB of clusters of 1 MiB.
 */
struct raw_usage raw_alloc_usage(const struct raw_alloc *alloc,
				 const struct raw_map *map);

#endif
