/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a raw pool in memory: its own record, its objects (extents and
 * snapshots) with their maps, and the clusters in use. It changes by records
 * (blockd/raw/store/raw_format.h) only, the same when they are made, when the
 * log is replayed and when a checkpoint is read. No I/O.
 *
 * One thread at a time, except for the functions of raw_map.h that are for any.
 */
#ifndef BLOCKD_RAW_STATE_H
#define BLOCKD_RAW_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/raw/store/raw_alloc.h"
#include "blockd/raw/store/raw_format.h"
#include "blockd/raw/store/raw_map.h"

/* Extents and snapshots of one pool. */
#define RAW_OBJECTS_MAX 32768u
/*
 * Slots of the maps of all objects, holes included. A damaged medium may make
 * us allocate 8 bytes for each. 16 PiB of extents with clusters of 1 MiB.
 */
#define RAW_SLOTS_MAX (UINT64_C(1) << 24)

struct raw_object {
	uint32_t id; /* from 1 */
	struct raw_map map;
	char *text; /* owned, NUL-terminated too */
	uint32_t text_length;
	uint32_t uses, leaves; /* while a checkpoint is read: had, said */
	/* Part of its map is lost: it has none, and takes none. */
	bool damaged;
};

struct raw_state {
	struct raw_alloc alloc;
	struct raw_trash trash; /* raw_map.h: when it may be emptied */
	char *pool_text;        /* owned */
	uint32_t pool_text_length;
	struct raw_object **objects; /* owned, by id - 1; NULL: none */
	uint32_t n_slots;            /* of objects */
	uint32_t n_objects;
	uint64_t slots_in_all; /* of the maps; RAW_SLOTS_MAX */
	uint64_t text_bytes;   /* of all objects */
	/* While a checkpoint is read. */
	struct raw_leaf **leaves; /* owned; by number - 1; NULL: lost */
	uint32_t n_leaves, leaves_room;
	uint64_t objects_said; /* how many it has; 0: it did not say */
	/* Of a medium of which parts are lost. */
	struct raw_mask lost;  /* objects that lost parts may have been about */
	uint64_t objects_lost; /* of which not even the number is known */
};

int raw_state_init(struct raw_state *state, uint32_t clusters,
		   uint8_t cluster_shift);
void raw_state_done(struct raw_state *state);

struct raw_object *raw_state_object(const struct raw_state *state, uint32_t id);
/* The next id after @after (0: the first) that nobody has. 0: there is none. */
uint32_t raw_state_new_id(const struct raw_state *state, uint32_t after);

/*
 * Carry out one record, whole or not at all.
 *
 * -ENOMEM; -EBADMSG: it does not fit the state, the text says how. A record of
 * a medium that does not fit is damaged. One of our own is a bug, but for
 * RAW_OBJECTS_MAX and RAW_SLOTS_MAX. MAP: the clusters have to be taken
 * (raw_alloc_take()) and mapped nowhere else.
 *
 * Clusters that lost their last reference are in alloc.freed.
 */
int raw_state_apply(struct raw_state *state, const struct raw_record *record,
		    struct error *err);

/*
 * The same for a record that is read from the medium: a MAP takes its
 * clusters itself, and freed ones are free at once.
 */
int raw_state_replay(struct raw_state *state, const struct raw_record *record,
		     struct error *err);
/*
 * A checkpoint has ended. -EBADMSG: something is missing, or too much: a leaf
 * that no object uses, an object without one of its leaves.
 */
int raw_state_replayed(struct raw_state *state, struct error *err);

/* Make freed clusters free, after a replay, when nobody looks at maps. */
void raw_state_settle(struct raw_state *state);
/* Room for @n leaves of a checkpoint. -ENOMEM. */
int raw_state_leaves_reserve(struct raw_state *state, uint32_t n);
void raw_state_leaves_done(struct raw_state *state);

/* ---- what raw_state.c and raw_state_load.c have of each other ---- */

int raw_state_find(const struct raw_state *state, uint32_t id,
		   struct raw_object **ret, struct error *err);
/* Clusters that are not taken cannot be mapped, nor out of range. */
int raw_state_check_physical(const struct raw_state *state,
			     const struct raw_record *record,
			     struct error *err);
/* Of one entry: does it say that @record's cluster lacks some blocks? */
int raw_state_check_written(const struct raw_state *state, uint32_t entry,
			    const struct raw_record *record, struct error *err);
/* A record about leaves, of a checkpoint. */
int raw_state_load(struct raw_state *state, const struct raw_record *record,
		   struct error *err);

/* ---- a medium of which parts are lost: blockd/raw/store/raw_salvage.c ---- */

/*
 * Note that records are missing here. The records that follow are given to
 * raw_state_salvage(), which applies those that it can be sure of. It marks
 * every object about which a record may be missing as damaged. -ENOMEM.
 */
int raw_state_lost(struct raw_state *state);
int raw_state_salvage(struct raw_state *state, const struct raw_record *record);
/* A checkpoint with lost parts has ended. */
int raw_state_salvaged(struct raw_state *state);
/* The lost records may have been about these. */
int raw_state_mark_damaged(struct raw_state *state,
			   const struct raw_mask *mask);

/*
 * Hand out records that make this state from nothing, in the order they are
 * to be read. A negative result of @visit ends it and is returned.
 */
int raw_state_emit(struct raw_state *state,
		   int (*visit)(void *context, const struct raw_record *record),
		   void *context);

/* ---- a state as it was: blockd/raw/store/raw_freeze.c ---- */

/*
 * For raw_frozen_emit(), which may be called by another thread while the
 * state is changed, until it is thawed. It takes 8 bytes for each leaf of each
 * map, whatever these have. One at a time; meanwhile the trash is not to be
 * emptied, and nothing else may call raw_state_emit() or raw_state_verify().
 * NULL: no memory.
 */
struct raw_frozen;
struct raw_frozen *raw_state_freeze(struct raw_state *state);
/* As raw_state_emit() would have done then. */
int raw_frozen_emit(struct raw_frozen *frozen,
		    int (*visit)(void *context,
				 const struct raw_record *record),
		    void *context);
/* Nobody looks any more; nothing, when it was not frozen. */
void raw_state_thaw(struct raw_state *state);
/* When it is thawed; any thread. NULL is fine. */
void raw_frozen_free(struct raw_frozen *frozen);

/* For that: as raw_state_emit(), with the block bitmaps of @bitmaps. */
int raw_state_emit_with(struct raw_state *state,
			const struct raw_bitmaps *bitmaps,
			int (*visit)(void *context,
				     const struct raw_record *record),
			void *context);

/* Bytes that a checkpoint of this state takes at most; at once. */
uint64_t raw_state_bytes(const struct raw_state *state);
/* How many more, at most, when @n clusters more are mapped... */
uint64_t raw_maps_size(uint64_t n);
/* ...or when @record is carried out. */
uint64_t raw_state_growth(const struct raw_state *state,
			  const struct raw_record *record);

/*
 * Count everything again from the maps. -EBADMSG with the first difference;
 * for tests and `trib pool check`.
 */
int raw_state_verify(const struct raw_state *state, struct error *err);

#endif
