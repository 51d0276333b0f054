/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct runs of the extents of one raw pool: clusters that a table of device
 * mapper maps straight to the medium. Reads and writes of them do not pass
 * through blockd.
 *
 * The invariant: a cluster in a table is mapped by that extent at that place,
 * and by nothing else. All of it is written, and the map is durable. The
 * cluster is not freed, shared, moved or given to another. It may be again when
 * a table without it is in use and what was in flight has ended.
 *
 * It holds since every change of a map is made by raw_store_change(), which
 * asks this module under the store's lock (raw_store_guard()). A change that
 * would break the invariant is refused with -ETXTBSY. The module answers for a
 * cluster before a table with it is loaded, and until a table without it is in
 * use. So callers that are to change a map take the runs away first
 * (direct_hold()). One that does not is refused; it never does harm.
 *
 * A thread that serves requests never waits for a table: what a suspended
 * device waits for may be a request that it serves. A discard or write-zeroes
 * leaves the clusters of a table where they are. It comes from outside of the
 * device, or while the table is being loaded. Once that is in use, the device
 * sends requests for them to the medium.
 *
 * A run is of clusters that were written. An extent may have clusters alone
 * that nobody wrote, as a thick one has. If it has a device, zeroes are written
 * ahead to these: from direct_attach() on, and again after a hold. It takes at
 * most half of the time of a thread.
 *
 * A blockd that was killed leaves tables in use. The next one takes them over
 * (direct_attach()) before it changes any map.
 *
 * Calls block, from any thread but a loop's.
 */
#ifndef BLOCKD_DIRECT_H
#define BLOCKD_DIRECT_H

#include "base/error.h"
#include "blockd/direct/direct_device.h"
#include "blockd/raw/dev/raw_dev.h"
#include "blockd/raw/store/raw_store.h"

struct direct;

struct direct_options {
	struct raw_store *store; /* borrowed */
	struct raw_users *users; /* of it; borrowed */
	const char *name;        /* of the pool, for the log; borrowed */
	/* Of a table. A flush of an older kernel costs as much as it has. */
	size_t runs_max;
	/*
	 * A table is loaded so long after a map has changed, or when so many
	 * changes were made.
	 */
	unsigned batch_ms;
	uint64_t batch_changes;
};

/* -ENOMEM and others of a thread. */
int direct_new(const struct direct_options *options, struct direct **ret,
	       struct error *err);
/* Devices stay as they are: their tables in use, their requests served. NULL is
 * fine. */
void direct_free(struct direct *direct);

/*
 * Take over @device, which is over object @object. The runs of its table are
 * kept when the map agrees. Otherwise, and when it was left suspended, it gets
 * a table without runs and is resumed. From now on runs are added as the map
 * has them.
 *
 * @device  taken, also on failure
 *
 * -ENOENT: no such object; -EEXIST: it has a device; others: of the device.
 * Then its table may be in use, so that no map may be changed.
 */
int direct_attach(struct direct *direct, uint32_t object,
		  struct direct_device *device, struct error *err);
/*
 * Give a device that is to have no runs a table without, and forget it; takes
 * it.
 */
int direct_reject(struct direct_device *device, struct error *err);
/*
 * Give a device up, with a table without runs, and forget it. Without one: 0.
 * On failure it is as before.
 *
 * @frozen  also one that a hold has suspended; else that is -EAGAIN
 */
int direct_detach(struct direct *direct, uint32_t object, bool frozen,
		  struct error *err);

/*
 * Have no run of an object in a table, until direct_release(). Objects without
 * a device are held, too: one that comes meanwhile gets no runs. Holds of one
 * object add up. On failure it is not held.
 */
int direct_hold(struct direct *direct, uint32_t object, struct error *err);
/*
 * Begin a hold that direct_freeze() carries out. All that takes long is done
 * before that: a table without runs waits for the release, and the device is
 * prepared (direct_device_ops). Its runs stay in use. On failure it is not
 * held.
 */
int direct_prepare(struct direct *direct, uint32_t object, struct error *err);
/*
 * Suspend the device, and freeze the file system on it, until the last release:
 * after direct_prepare(). On failure it is held as before. -ESTALE: there is no
 * hold, as the pool was opened anew since.
 */
int direct_freeze(struct direct *direct, uint32_t object, struct error *err);
/*
 * End a hold. -ESTALE: there is none, as the pool was opened anew since; or the
 * device did not stay suspended.
 */
int direct_release(struct direct *direct, uint32_t object);

/* Add and take away runs now, as the map has them. No device, or held: 0. */
int direct_refresh(struct direct *direct, uint32_t object, struct error *err);

/* Tell whether an object has a device. */
bool direct_has(struct direct *direct, uint32_t object);

struct direct_counts {
	char device[128]; /* its UUID; "": it has none, or that is gone */
	uint64_t runs, clusters; /* in tables in use */
	uint64_t loads;          /* of tables, since the pool was opened */
	/* Changes: of callers without a hold, and clusters not given up. */
	uint64_t refused;
};

/* Of one object, but for @loads and @refused. No device: zeroes. */
struct direct_counts direct_count(struct direct *direct, uint32_t object);

/* ---- blockd/direct/direct_choose.c ---- */

/*
 * The runs that a table of @clusters of @map may have: its own alone, durably,
 * and written whole. The store's lock is held. -ENOMEM.
 */
int direct_choose(const struct raw_alloc *alloc, const struct raw_map *map,
		  uint64_t clusters, size_t max, struct direct_runs *ret);
/* Tell whether the map has all runs as direct_choose() may choose them. */
bool direct_agrees(const struct raw_alloc *alloc, const struct raw_map *map,
		   uint64_t clusters, const struct direct_runs *runs);

#endif
