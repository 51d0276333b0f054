/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools' devices whose power fails: all objects that there
 * ever were. For each of their blocks: the values that it may have after a
 * failure at any moment. The pool that opens then is compared with these.
 */
#ifndef BLOCKD_POWER_LIVES_H
#define BLOCKD_POWER_LIVES_H

#include "blockd/testkit/power_kit.h"
#include "blockd/testkit/raw_dev_kit.h"

#define LIVES    5u /* objects at a time */
#define BLOCKS   (SIZE / BLOCK)
#define DELETING "deleting" /* what is in it does not matter any more */
#define NEVER    SIZE_MAX

/* What a block has been. */
struct version {
	uint32_t value;
	size_t issued;  /* before which event it was asked for */
	size_t durable; /* events, after which it is there for sure */
	unsigned ended; /* moment */
};

struct history {
	struct version *versions; /* owned; oldest first, [0] has the zeroes */
	size_t n, room;
};

/* An object from when it is made until it is dropped. */
struct life {
	uint32_t id;
	bool snapshot, thick;
	size_t made, made_durable;
	size_t deleting, deleting_durable;
	struct history blocks[BLOCKS];
	struct blockdev *devs[LOOPS];
};

struct lives {
	struct power *power; /* borrowed */
	struct life **all;   /* owned; by what an object's text says */
	size_t n;
	struct life *now[LIVES + 1]; /* by id; NULL: none */
	char why[200];               /* what lives_hold() has found */
};

void life_remember(struct history *history, struct version version);
uint32_t life_newest(const struct history *history);

/* Begin a life of object @id, with the content of @from; NULL: zeroes. */
struct life *life_new(struct lives *lives, uint32_t id,
		      const struct life *from);
void lives_done(struct lives *lives);

/*
 * Note a flush that began at moment @began: all that had ended by then is
 * durable once the flush has ended, before event @ended_at.
 */
void lives_flushed(struct lives *lives, unsigned began, size_t ended_at);

/*
 * Tell whether @store, of @after, is a state that may follow the events before
 * @at.
 */
bool lives_hold(struct lives *lives, struct power *after,
		struct raw_store *store, size_t at);

#endif
