/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/raw/pool_raw.h. */
#ifndef BLOCKD_POOL_RAW_INTERNAL_H
#define BLOCKD_POOL_RAW_INTERNAL_H

#include <pthread.h>

#include "base/cleanup.h"
#include "blockd/direct/direct.h"
#include "blockd/raw/dev/raw_dev.h"
#include "blockd/raw/disk_lock.h"
#include "blockd/raw/pool_raw.h"
#include "blockd/raw/store/raw_medium.h"
#include "blockd/raw/store/raw_store.h"

/* Texts of objects that are no extents, or not yet, or no more. */
#define POOL_RAW_DOOMED "deleting " /* then the name */
#define POOL_RAW_MAKING "making"    /* undone by load */
/*
 * Then a number, a line's end and the record: it is an extent from when the
 * object of that number, which is POOL_RAW_MAKING, is gone.
 */
#define POOL_RAW_MADE_WITH "made with "

struct pool_raw {
	struct pool pool;
	int fd;                /* locked while the pool is open */
	struct disk_lock lock; /* in place of O_EXCL */
	bool uncached;         /* @fd has O_DIRECT */
	bool read_only;        /* the device, when it was opened */
	uint64_t device;
	struct raw_file_medium medium;
	struct raw_store *store;
	struct raw_users *users;
	struct direct *direct;    /* NULL: there is no device mapper */
	pthread_mutex_t ids;      /* a new object's number is taken under it */
	pthread_mutex_t checks;   /* one at a time */
	pthread_mutex_t counting; /* guards the rest, and each leaf's seen */
	uint32_t count_round;
	bool counted; /* sharing, when the newest change was counted_ticket */
	uint64_t counted_ticket;
	struct pool_sharing sharing;
};

static inline struct pool_raw *pool_raw_of(struct pool *pool)
{
	return container_of(pool, struct pool_raw, pool);
}

uint64_t pool_raw_cluster(const struct pool_raw *raw); /* bytes */
/* That @size bytes take. */
uint64_t pool_raw_clusters(const struct pool_raw *raw, uint64_t size);

/* ---- objects ---- */

/* Decode the record of an object. -EBADMSG: says what is wrong with it. */
int pool_raw_record(const struct raw_object *object, struct extent_record *ret,
		    struct error *err);
/*
 * Find an object's number by name; 0: there is none. @ret_clusters may be NULL.
 */
uint32_t pool_raw_find(struct pool_raw *raw, const char *name,
		       uint64_t *ret_clusters);
/* The same; -ENOENT. */
int pool_raw_need(struct pool_raw *raw, const char *name, uint32_t *ret_id,
		  uint64_t *ret_clusters, struct error *err);
/* Tell whether part of the object's map was lost to damage. */
bool pool_raw_is_damaged(struct pool_raw *raw, uint32_t id);
/* One change, durably. */
int pool_raw_change(struct pool_raw *raw, const struct raw_record *record,
		    struct error *err);
/* What its record says, bytes. @ret_thick may be NULL. */
int pool_raw_size(struct pool_raw *raw, uint32_t id, uint64_t *ret,
		  bool *ret_thick, struct error *err);
/* Its map gets @clusters, unless it has more; not durably yet. */
int pool_raw_lengthen(struct pool_raw *raw, uint32_t id, uint64_t clusters,
		      struct error *err);
/*
 * @n numbers that no object has, the caller having locked @ids; and room for
 * maps of @clusters in all. -ENOSPC.
 */
int pool_raw_new_ids(struct pool_raw *raw, uint32_t *ids, size_t n,
		     uint64_t clusters, struct error *err);
/*
 * Give holes among clusters @from to @end of an object clusters of the pool,
 * one after the other where possible. They go on reading as zeroes. Not durably
 * yet. Nobody writes to them meanwhile. -ENOSPC: some have got one.
 */
int pool_raw_fill(struct pool_raw *raw, uint32_t id, uint64_t from,
		  uint64_t end, struct error *err);
/* The same for as many as there is room for, durably. */
int pool_raw_thicken(struct pool_raw *raw, uint32_t id, uint64_t clusters,
		     struct error *err);
/* Take away @anchor, which is POOL_RAW_MAKING, and all made with it. */
int pool_raw_undo(struct pool_raw *raw, uint32_t anchor, struct error *err);
/* Take an object away; its clusters are free when this returns. */
int pool_raw_drop(struct pool_raw *raw, uint32_t id, struct error *err);

/* ---- blockd/raw/pool_raw_direct.c ---- */

/* Take over the devices that an earlier blockd left, before any change. */
int pool_raw_direct_begin(struct pool_raw *raw, struct error *err);
/* direct_hold() of a map that is to be shared or replaced, and its end. */
int pool_raw_direct_hold(struct pool_raw *raw, uint32_t id, struct error *err);
void pool_raw_direct_release(struct pool_raw *raw, uint32_t id);

/* ---- members of struct pool_ops ---- */

int pool_raw_direct_attach(struct pool *pool, const char *name,
			   const char *uuid, uint64_t epoch, struct error *err);
int pool_raw_direct_detach(struct pool *pool, const char *name,
			   struct error *err);
int pool_raw_direct_count(struct pool *pool, const char *name,
			  struct pool_direct *ret, struct error *err);

int pool_raw_load(struct pool *pool, const struct pool_visitor *visitor,
		  struct error *err);
int pool_raw_create(struct pool *pool, const struct extent_record *record,
		    struct error *err);
int pool_raw_save(struct pool *pool, const struct extent_record *record,
		  struct error *err);
int pool_raw_grow(struct pool *pool, const struct extent_record *record,
		  struct error *err);
int pool_raw_begin_delete(struct pool *pool, const char *name,
			  struct error *err);
int pool_raw_erase(struct pool *pool, const char *name, struct error *err);
int pool_raw_usage(struct pool *pool, const char *name,
		   struct extent_usage *ret, struct error *err);
int pool_raw_sharing(struct pool *pool, const char *const *snapshots, size_t n,
		     struct pool_sharing *ret, struct error *err);
int pool_raw_check_open(struct pool *pool, bool repair,
			void (*finding)(void *context, const char *text,
					bool repaired),
			void *context, struct error *err);
int pool_raw_copy(struct pool *pool, const struct pool_copy *copies, size_t n,
		  pool_copied copied, void *context, struct error *err);
int pool_raw_prepare(struct pool *pool, const char *name, struct error *err);
int pool_raw_hold(struct pool *pool, const char *name, struct error *err);
int pool_raw_release(struct pool *pool, const char *name);
int pool_raw_revert(struct pool *pool, const struct extent_record *record,
		    const char *from, struct error *err);
int pool_raw_ranges(struct pool *pool, const char *name, const char *base,
		    uint64_t start, pool_range visit, void *context,
		    struct error *err);

#endif
