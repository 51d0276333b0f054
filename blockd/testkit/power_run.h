/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools whose power fails: a store in use, and a model of its
 * objects' blocks. The model has the values that each may hold after a failure
 * at any moment.
 *
 * Writes go as in blockd/raw/dev/raw_dev.c: in place where a cluster is the
 * extent's own for good. Else they go to a cluster of its own, with the old
 * data around them, or marked as written in part. One of the latter may be
 * under way while other things happen.
 */
#ifndef BLOCKD_POWER_RUN_H
#define BLOCKD_POWER_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "blockd/raw/store/raw_store_internal.h"
#include "blockd/testkit/power_kit.h"
#include "blockd/testkit/power_states.h"

#define MEDIUM  (UINT64_C(10) << 20)
#define SMALL   (MEDIUM - (UINT64_C(2) << 20)) /* what it grows from */
#define OBJECTS 8
#define LENGTH  40 /* clusters of an object */
#define BLOCKS  2  /* of a cluster that are written and looked at */
#define BOTH    BLOCKS
/* Of a cluster of the smallest size. */
#define ALL_BLOCKS (1 << (RAW_CLUSTER_SHIFT_MIN - 12))
#define DELETING   "deleting" /* what is in it does not matter any more */

/* Flaws of the run, so that a test finds them. */
enum flaw {
	NO_FLAW,
	REUSES_EARLY,      /* a cluster that is free, but not durably */
	OWNS_EARLY,        /* in place what is one's own, but not durably */
	DROPS_AT_ONCE,     /* what is not deleting, durably */
	WRITES_SHARED,     /* in place what is another one's, too */
	MAPS_STALE_COPIES, /* of what was written to since */
	MAPS_EARLY,        /* before the data is there */
	MARKS_EARLY,       /* blocks as written that are not yet */
	MAPS_WHOLE,        /* what is written in part */
	LOSES_FLUSHES,     /* of the medium */
};

/* ---- the model: what a block of an object was ---- */

struct version {
	uint64_t ticket; /* of the change with which it came, if one did */
	size_t event;    /* before which it was written */
	uint32_t value;
	bool in_place; /* what came before it may be there instead */
};

struct history {
	struct version *versions; /* owned; oldest first */
	size_t n, room;
};

/* A write to a cluster that is going to be mapped. */
struct fill {
	uint32_t object; /* 0: there is none */
	uint32_t cluster, physical;
	unsigned block; /* or BOTH */
	uint32_t values[BLOCKS];
	struct raw_look look; /* at what was there */
	bool copied;
	bool partial; /* the other block is not written, and has anything */
};

struct run {
	struct power power;
	struct raw_store *store;
	unsigned seed, random;
	enum flaw flaw;
	struct power_states states;
	struct history blocks[OBJECTS + 1][LENGTH][BLOCKS];
	bool snapshot[OBJECTS + 1], deleting[OBJECTS + 1];
	bool meanwhile; /* other things happen, before each write */
	bool inside;    /* one does */
	uint32_t value; /* the last one that was written */
	struct fill fill;
	unsigned in_place, copies, again, ahead, partial, marks;
	char why[200]; /* what a failure has brought to light */
	struct error err;
};

/* ---- blockd/testkit/power_run.c ---- */

/* Less than @n, by chance. */
unsigned power_run_below(struct run *run, unsigned n);
/* Fails the test when @r is negative; @what was tried. */
void power_run_must(struct run *run, int r, const char *what);

/* Note a version that a block has, or may have, too. */
void power_run_remember(struct run *run, struct history *history,
			struct version version);
/* The newest value. */
uint32_t power_run_now(const struct history *history);
/* Block by block, with the change that is the newest. */
void power_run_becomes(struct run *run, uint32_t id, uint32_t cluster,
		       unsigned block, uint32_t value);
/* Give all of object @id the content of @from; 0: zeroes. */
void power_run_all_become(struct run *run, uint32_t id, uint32_t from);
/*
 * Tell whether the block may be @value, in the state after @ticket, before
 * event @at.
 */
bool power_run_may_be(const struct history *history, uint32_t value,
		      uint64_t ticket, const struct power_event *event,
		      size_t at);

/* Make a change of the store, and note the state after it. */
void power_run_change(struct run *run, const struct raw_record *records,
		      size_t n);
void power_run_note_state(struct run *run);

/* NULL: there is none. */
const struct raw_object *power_run_object_of(struct run *run, uint32_t id);
uint32_t power_run_entry_of(struct run *run, uint32_t id, uint32_t cluster);
bool power_run_is_shared(struct run *run, uint32_t id, uint32_t cluster);
struct raw_look power_run_look(struct run *run, uint32_t id, uint32_t cluster);

/*
 * As a WRITTEN has a block. The last of those that are looked at stands for
 * all that follow it, too.
 */
uint64_t power_run_mark_of(unsigned block);
bool power_run_is_marked(const struct raw_store *store, uint32_t entry,
			 unsigned block);

/* What a block reads as, on a medium of these bytes. */
uint32_t power_run_value_at(const struct raw_store *store, const uint8_t *bytes,
			    uint32_t entry, unsigned block);
void power_run_put(struct run *run, uint32_t physical, unsigned block,
		   uint32_t value);

/* While these are written other things happen. */
void power_run_commit(struct run *run);
void power_run_checkpoint(struct run *run);
void power_run_checkpoint_ahead(struct run *run);
/* As a device that has no changes flushes. */
void power_run_flush(struct run *run);

/* ---- blockd/testkit/power_steps.c ---- */

void power_run_init(struct run *run, unsigned seed, enum flaw flaw);
void power_run_done(struct run *run);
/* Whatever can be done to a pool, by chance. */
void power_run_step(struct run *run);

#endif
