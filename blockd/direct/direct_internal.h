/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/direct/direct.h. */
#ifndef BLOCKD_DIRECT_INTERNAL_H
#define BLOCKD_DIRECT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "blockd/direct/direct.h"

/* An extent with a device. */
struct direct_extent {
	LIST_ENTRY(direct_extent) in_direct;
	uint32_t object;
	struct direct_device *device; /* owned */
	/*
	 * Guarded by the store's lock. Both are asked about: the runs of the
	 * table in use, and of the one that is to follow.
	 */
	struct direct_runs live, next;
	/* Of the thread that has the turn. */
	bool next_waits; /* for a resume: @next was loaded */
	bool suspended;
	bool unknown;  /* its table in use is not @live: taken over so */
	bool gone;     /* the device: no table has runs */
	bool prepared; /* direct_device_ops.prepare() */
	bool failed;   /* the last refresh; the log has it */
	/* Guarded by the lock. */
	bool busy;
	bool frozen;      /* suspended until a release */
	uint64_t changed; /* changes that no table has */
	uint64_t due_ns;  /* when they are to be looked at; 0: nothing is */
	uint64_t pause_ns;
	uint64_t ahead;    /* cluster; below it all has been zeroed ahead */
	uint64_t ahead_ns; /* when that goes on */
};

struct direct_hold {
	LIST_ENTRY(direct_hold) in_direct;
	uint32_t object;
	unsigned count;
};

struct direct {
	struct raw_store *store;
	struct raw_users *users;
	const char *name;
	size_t runs_max;
	uint64_t batch_ns, batch_changes;
	_Atomic uint64_t loads, refused;
	/* After the store's lock, where both are taken. */
	pthread_mutex_t lock;
	pthread_cond_t turn; /* an extent is not busy any more */
	pthread_cond_t ask;  /* the loader has work */
	/* To be changed under both locks. */
	LIST_HEAD(direct_extents, direct_extent) extents;
	LIST_HEAD(direct_holds, direct_hold) holds;
	pthread_t loader;
	bool stopping;
};

static inline uint64_t direct_now_ns(void)
{
	return (uint64_t)clock_ns();
}

/* Tell whether an object is held; the lock is not. */
bool direct_is_held(struct direct *direct, uint32_t object);

/* ---- blockd/direct/direct_table.c: the turn is the caller's ---- */

/*
 * Let requests go on, by the table that waits, if one does. 1: somebody else
 * had done so.
 */
int direct_extent_resume(struct direct *direct, struct direct_extent *extent,
			 struct error *err);
/* In the end no run is asked about any more. @stay: suspended. */
int direct_extent_withdraw(struct direct *direct, struct direct_extent *extent,
			   bool stay, struct error *err);
/*
 * Load a table without runs for the resume after direct_extent_freeze(), and
 * have the device prepared for both. The runs stay in use.
 */
int direct_extent_prepare(struct direct *direct, struct direct_extent *extent,
			  struct error *err);
/* Suspend the device with what is on it: its runs are not asked about then. */
int direct_extent_freeze(struct direct *direct, struct direct_extent *extent,
			 struct error *err);
/* Forget the table that waits, and what was prepared: the one in use stays. */
void direct_extent_forget(struct direct *direct, struct direct_extent *extent);
/* Load a table of the runs that the map has now. */
int direct_extent_refresh(struct direct *direct, struct direct_extent *extent,
			  struct error *err);

/* ---- blockd/direct/direct_loader.c ---- */

/* The thread that loads tables. */
void *direct_loader_run(void *direct);

#endif
