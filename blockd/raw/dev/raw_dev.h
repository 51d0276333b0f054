/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object of a raw pool as a block device. One operation on the medium reads
 * a run of clusters that follow each other, or writes a run of clusters that
 * are the object's own. The map is looked up without a lock. The first write to
 * a hole, or to a cluster that is shared or was never written, takes a cluster
 * of its own. The data is written first, then the map.
 *
 * A write that is done is in the map. It is durable, as blockdev.h has it, with
 * the flush that follows. The flush writes the log once for all of them.
 */
#ifndef BLOCKD_RAW_DEV_H
#define BLOCKD_RAW_DEV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"
#include "base/error.h"
#include "blockd/raw/store/raw_store.h"

/*
 * The medium as devices use it, and the requests that look at maps: one for a
 * pool.
 *
 * A request that looks a map up has entered. Clusters that a change freed are
 * used again when it is durable and all that had entered by then have left. A
 * thread of its own, the cleaner, sees to that, when a device asks for it. The
 * cleaner also writes a checkpoint before the log is full.
 */
struct raw_users;

struct raw_users_options {
	struct raw_store *store; /* borrowed */
	const char *path;        /* of the medium; copied */
	unsigned flags;          /* enum blockdev_file_flag, for the medium */
	/* A commit failed, or the medium: tell people. Any thread. NULL: no. */
	void (*broken)(void *context, const struct error *err);
	/* Data could not be read or written. Any thread; brief. NULL: no. */
	void (*fault)(void *context);
	/*
	 * The medium for a device on @loop, owned by it. NULL: what @path
	 * says.
	 */
	int (*open_medium)(void *context, struct loop *loop,
			   struct blockdev **ret, struct error *err);
	void *context;
};

int raw_users_new(const struct raw_users_options *options,
		  struct raw_users **ret, struct error *err);
/* Waits until no device is open. NULL is fine. */
void raw_users_free(struct raw_users *users);

/* Have freed clusters made durable and free. Any thread; does not wait. */
void raw_users_clean(struct raw_users *users);
/* The same, and wait for it. Not on a loop. */
int raw_users_clean_now(struct raw_users *users, struct error *err);

/*
 * Wait until all requests of this moment have ended, and all clusters that
 * were leaving have left. Not on a loop.
 */
int raw_users_settle_now(struct raw_users *users, struct error *err);

/*
 * Write zeroes to clusters of object @id that are its own alone, and were never
 * written. They count as written from then on, not durably yet. Requests to
 * these clusters wait meanwhile, so it is at most 1 MiB at once. Not on a loop;
 * nobody shares or drops the map meanwhile.
 *
 * @at  the cluster to look from; then the one to go on from, @end at most
 */
int raw_users_zero_ahead(struct raw_users *users, uint32_t id, uint64_t *at,
			 uint64_t end, struct error *err);

enum raw_dev_flag {
	RAW_DEV_READ_ONLY = 1 << 0, /* as the device says */
	/*
	 * Discard and write-zeroes leave it its clusters, but for those that
	 * others have, too.
	 */
	RAW_DEV_THICK = 1 << 1,
};

/*
 * The object @id (it is not dropped while the device is open), of @size
 * bytes, on @loop. @flags: enum raw_dev_flag. Blocks briefly.
 */
int raw_dev_open(struct raw_users *users, uint32_t id, uint64_t size,
		 unsigned flags, struct loop *loop, struct blockdev **ret,
		 struct error *err);

#endif
