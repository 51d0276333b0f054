/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools: a medium in memory that records every write and
 * flush, and loses power at each of them. Flushed writes are there then, and
 * writes that were durable by themselves. Of the rest any blocks are, in any
 * combination.
 *
 * Any thread, but tickets and promises are noted by one.
 */
#ifndef BLOCKD_POWER_KIT_H
#define BLOCKD_POWER_KIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blockd/raw/store/raw_store.h"

struct power_event {
	uint64_t offset; /* of one block; UINT64_MAX: a flush */
	uint8_t *data;   /* owned, RAW_BLOCK bytes */
	bool maybe;      /* no flush is sure to have it */
	bool sure;       /* there without a flush */
	/* As of that moment: */
	uint64_t durable, newest; /* tickets: answered for, of any change */
	size_t promised;          /* events before this are answered for */
};

struct power {
	struct raw_medium medium;
	uint64_t room;        /* bytes; the medium may grow to this */
	uint8_t *bytes;       /* as a reader sees it; owned */
	uint8_t *start;       /* when recording began; owned */
	pthread_mutex_t lock; /* guards bytes, events */
	struct power_event *events;
	size_t n, events_room;
	bool recording;
	struct raw_store *store; /* whose tickets they are; may be NULL */
	uint64_t answered;       /* tickets that a commit has answered for */
	size_t promised;         /* events that a flush has answered for */
	int fail_writes;         /* -errno, for all */
	/* Of each so many flushes, the last one does nothing; 0: all do. */
	unsigned flushes_lost;
	_Atomic unsigned flushes; /* until now */
	bool briefly; /* power_fail_everywhere(): any blocks, once */
	/* Before a block is written; NULL: nothing. */
	void (*before_write)(void *context, uint64_t offset);
	void *context;
	/* Blocks that were written, of the medium after a power failure. */
	uint64_t *touched; /* owned */
	size_t n_touched, touched_room;
	bool touching;
};

/* Of @size bytes now, @room at most. All zeroes. */
void power_init(struct power *power, uint64_t size, uint64_t room);
void power_done(struct power *power);

/* How a block may come to be on the medium (power_write_block()). */
enum power_write {
	POWER_CACHED,  /* with the next flush */
	POWER_MAYBE,   /* perhaps with a flush, perhaps with none */
	POWER_AT_ONCE, /* before anything else happens */
};

/* One block, as a device on its own writes it. */
void power_write_block(struct power *power, uint64_t offset, const void *data,
		       enum power_write how);
/* Events until now. */
size_t power_events(struct power *power);

/* Keep the content of the medium, whatever happens; record all that follows. */
void power_record(struct power *power);

/*
 * Lose power at each event: @check looks at what there is then, on a medium
 * that it may write to. False: it has seen enough. Each call has other blocks
 * of those that were not flushed. They are any; all, the last of them torn in
 * sectors or whole; before a flush, none. When @check has written, it is called
 * once more for each of these: power failed while it wrote.
 *
 * @seed  of which blocks are there
 */
void power_fail_everywhere(struct power *power, unsigned seed,
			   bool (*check)(void *context, struct power *after,
					 size_t at),
			   void *context);

#endif
