/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of pools: a pool of one kind, and a model of what each of its
 * extents and snapshots holds. Each step is done to both, and the content that
 * the pool reads as is checked.
 *
 * Each block that is written gets a stamp of its own. After a kill a block may
 * have any stamp that it had since it was flushed.
 */
#ifndef BLOCKD_MODEL_KIT_H
#define BLOCKD_MODEL_KIT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "blockd/extent/extent_dev.h"
#include "blockd/raw/pool_raw_internal.h"

#define CLUSTER      (UINT64_C(1) << RAW_CLUSTER_SHIFT_MIN)
#define BLOCK        4096u
#define BLOCKS_MAX   (40 * CLUSTER / BLOCK) /* of an extent */
#define OBJECTS      14
#define AT_ONCE_MAX  48 /* blocks of one request */
#define STAMPS       6  /* that a block may have after a kill */
#define MEDIUM_BYTES ((UINT64_C(6) << 20) + 130 * CLUSTER)
#define POOL_ID      "6ad4a1e5-52fb-4e8c-b4ab-31d3a8e6d0b5"

enum what { READ, WRITE, ZERO, DISCARD, FLUSH };

/* What a block may hold: the newest last. */
struct block {
	uint32_t stamps[STAMPS];
	unsigned n; /* 0: zeroes */
};

struct object {
	struct extent_record record; /* name "": there is none */
	struct block *blocks;
	size_t n;
	struct gate gate;
	struct blockdev *dev; /* behind the gate; NULL: closed */
	/* What requests go to first; arguments of model_one(). NULL: @dev. */
	int (*top)(struct object *object, enum what what, void *data, size_t at,
		   size_t n, unsigned flags);
	void *top_context;
};

struct run;

/* What differs from kind to kind. */
struct model_kind {
	/* Of what it allocates every byte is known: clusters. */
	bool exact;
	/* An empty medium with a pool at run->path, which it chooses. */
	void (*make)(struct run *run);
	/* run->pool; it is not loaded yet. */
	int (*open)(struct run *run);
	/*
	 * Check a loaded pool for what only this kind can check. NULL: nothing.
	 */
	void (*verify)(struct run *run);
	/* The pool is closed next, or killed. NULL: nothing to do. */
	void (*closing)(struct run *run);
	/* Close it as a kill leaves it, without what a close writes. */
	void (*kill)(struct run *run);
	/* What make() made. */
	void (*remove)(struct run *run);
};

/* blockd/testkit/model_raw.c: on a small medium in memory. */
extern const struct model_kind model_raw;
/* blockd/testkit/model_dir.c: below $TMPDIR, or in memory. */
extern const struct model_kind model_dir;

struct run {
	const struct model_kind *kind;
	char path[256];
	unsigned seed, random;
	uint32_t stamp;
	unsigned serial; /* of names */
	struct loop *loop;
	pthread_t thread;
	struct pool *pool;
	struct object objects[OBJECTS];
	struct error err;
	unsigned step, full, kills, reverts, groups;
	unsigned shared, reclaimable; /* steps after which there was some */
};

#define MUST(run, call)                                                        \
	do {                                                                   \
		if ((call) < 0)                                                \
			fail_msg("seed %u, step %u: %s: %s", (run)->seed,      \
				 (run)->step, #call, error_text(&(run)->err)); \
	} while (0)

#define CHECK(run, what)                                              \
	do {                                                          \
		if (!(what))                                          \
			fail_msg("seed %u, step %u: %s", (run)->seed, \
				 (run)->step, #what);                 \
	} while (0)

/* ---- blockd/testkit/model_kit.c ---- */

/* Less than @n, by chance. */
unsigned model_below(struct run *run, unsigned n);
unsigned model_from_environment(const char *name, unsigned otherwise);

/* Make a pool and its loop; delete all in it, and see that nothing is left. */
void model_run_begin(struct run *run, const struct model_kind *kind,
		     unsigned seed);
void model_run_end(struct run *run);
/*
 * Close the pool, open it and look at everything. @killed: what the process
 * had in memory only is gone.
 */
void model_open_again(struct run *run, bool killed);

/* The block's newest stamp; 0: zeroes. */
uint32_t model_now(const struct block *block);
/*
 * Add a stamp that the block may have from now on; it may still have an earlier
 * one.
 */
void model_push(struct block *block, uint32_t stamp);
/* All of it is flushed: a block has the newest. */
void model_settle(struct object *object);

/* One request, of @n blocks from block @at; its result. */
int model_one(struct object *object, enum what what, void *data, size_t at,
	      size_t n, unsigned flags);
/* The same, to @dev. Any thread. */
int model_one_below(struct object *object, enum what what, void *data,
		    size_t at, size_t n, unsigned flags);
void model_object_open(struct run *run, struct object *object);
void model_object_close(struct run *run, struct object *object);

/* Returned owned. */
void *model_buffer(size_t blocks);
/* Return the stamp that is all over this block of @data. */
uint32_t model_stamp_of(struct run *run, void *data, size_t block);
/*
 * Check that the blocks read as the model says. @killed: writes that were not
 * flushed may be gone.
 */
void model_check_blocks(struct run *run, struct object *object, size_t at,
			size_t n, bool killed);
void model_check_all(struct run *run, struct object *object, bool killed);

bool model_is_there(const struct object *object);
bool model_is_snapshot(const struct object *object);
/* NULL: there is none. */
struct object *model_empty_slot(struct run *run);
/*
 * Choose an object by chance among those that are there; NULL if it finds none.
 */
struct object *model_any(struct run *run, bool writable);

struct space_medium model_measure(struct run *run);
struct extent_usage model_usage(struct run *run, const struct object *object);

/* ---- blockd/testkit/model_steps.c ---- */

/* Take one of the steps below, or another, by chance. */
void model_step(struct run *run);

/* Write; a write without room for it is counted in run->full. */
void model_write_at(struct run *run, struct object *object, enum what what,
		    size_t at, size_t n, unsigned flags);
void model_write_some(struct run *run, enum what what);

/* With a name and id of its own. @size: bytes. */
void model_new_record(struct run *run, struct extent_record *record,
		      uint64_t size);
void model_origin_set(struct extent_record *record, const struct object *origin,
		      const char *cut);
/*
 * Add an object of the pool to the model. @from: the source of its content, or
 * NULL.
 */
void model_object_add(struct run *run, struct object *object,
		      const struct extent_record *record,
		      const struct object *from);

void model_create(struct run *run);
/* Of up to three extents. */
void model_snapshot(struct run *run);
void model_make_clone(struct run *run);
void model_revert(struct run *run);
/* Erase an object; exactly the space that it has alone is free again. */
void model_erase(struct run *run, struct object *object);

/* ---- blockd/testkit/model_raw.c ---- */

/*
 * Check that the pool tells as shared what its maps share, cluster by cluster.
 */
void model_check_sharing(struct run *run);

/* ---- blockd/testkit/model_seeds.c ---- */

/* Runs of random steps, and the events that they have to meet. */
struct model_seeds {
	const struct model_kind *kind;
	unsigned steps;                  /* of a run, if $STEPS is not set */
	void (*before)(struct run *run); /* each step; NULL: nothing */
	void (*after)(struct run *run);  /* each step; NULL: nothing */
	/* Besides snapshots, reverts, kills and a full pool, has a long run met
	 * what it is for? NULL: that was all. */
	bool (*met)(const struct run *run);
};

/* Run seeds $SEED (1), $SEED + 1..., $SEEDS of them (1). */
void model_seeds_run(const struct model_seeds *seeds);

/* An extent of EXTENT_SIZE_MIN, in the pool and in the model. */
struct object *model_extent_make(struct run *run, bool thick);

#endif
