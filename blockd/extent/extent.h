/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extent of this node: a name, the pool it lives in, its record.
 *
 * Each operation is idempotent by name (proto/blockd.proto says how) and
 * durable when it returns 0. Operations on one extent wait for each other;
 * those on different extents do not, nor does a reader wait for either.
 *
 * Locks, in the order they are taken: extent.op; node.space; node.tables. An
 * operation holds extent.op over its I/O. The op locks of several extents are
 * taken in the order of their names. An extent that is not in the table yet is
 * locked before it gets there. node.tables is never held over I/O. A record is
 * changed with both op and node.tables held, so either suffices to read it.
 *
 * While its content is copied byte by byte a new extent is in state
 * EXTENT_COPYING. Nobody holds its op then: only a delete gets at it.
 */
#ifndef BLOCKD_EXTENT_H
#define BLOCKD_EXTENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "blockd/extent/gate.h"
#include "blockd/pool/extent_record.h"
#include "blockd/pool/pool.h"

struct copy_job;
struct pull_end;
struct pull_job;
struct node;
struct node_pool;

struct extent {
	atomic_uint refs;
	struct node *node;      /* borrowed */
	struct node_pool *pool; /* stays while the extent is in the table */
	pthread_mutex_t op;
	/* Its name never changes. EXTENT_CREATING: not there for readers. */
	struct extent_record record;
	char *damage; /* owned; why it can't be used; NULL: it can */
	/* Counted as reserved in its pool; changed as the record is. */
	uint64_t bytes;
	bool gone;                /* out of the table; guarded by op */
	struct gate gate;         /* before all its open devices */
	atomic_uint copied_from;  /* copies that read it; raised under op */
	struct copy_job *copying; /* its content is; guarded by node.tables */
	struct pull_job *pulling; /* into it; guarded by node.tables */
	struct pull_end *pulled;  /* owned; how the last ended; the same */
	LIST_ENTRY(extent) in_bucket; /* guarded by node.tables */
};

LIST_HEAD(extent_list, extent);

/*
 * Users of extents: told by extent_resize(), asked by extent_delete(). The
 * extent's op lock is held meanwhile. NULL functions: there are no users.
 */
struct extent_users {
	/*
	 * Let everybody reach the new end of a longer extent; its record has
	 * the size.
	 */
	void (*grown)(void *context, struct extent *extent);
	/*
	 * -EBUSY with the name of a user. @before: what is wanted, "it is
	 * deleted".
	 */
	int (*check_idle)(void *context, struct extent *extent,
			  const char *before, struct error *err);
	/* Stop serving an extent that is going. */
	int (*drop)(void *context, struct extent *extent, struct error *err);
	/* A pool is back, with its extents. No extent's op is held. */
	void (*back)(void *context, const char *pool);
	void *context;
};

struct extent_request {
	const char *pool; /* "" or NULL: the pool with the most room */
	const char *name;
	uint64_t size;                     /* bytes */
	const struct extent_label *labels; /* borrowed */
	size_t n_labels;
	/* An extent or snapshot that it begins as; "" or NULL: zeroes. */
	const char *source;
	const char *source_id; /* that this has to have; "" or NULL: any */
	bool thick;            /* allocate it; not with a source */
	struct extent_limits limits;
};

/* One reference, no pool, no record; NULL: out of memory. */
struct extent *extent_new(struct node *node);
struct extent *extent_ref(struct extent *extent);
void extent_unref(struct extent *extent); /* NULL is fine */

/* Return the bytes to reserve in the pool for an object of this record. */
uint64_t extent_promise(struct pool *pool, const struct extent_record *record);

/* Bytes that its pool counts as reserved for it now. */
uint64_t extent_reserved(struct extent *extent);

/* @ret gets a reference. -ENOENT. Damaged ones are found too. */
int extent_find(struct node *node, const char *name, struct extent **ret,
		struct error *err);

/*
 * @ret_made  false when it was there already; may be NULL
 *
 * -EINVAL: name, size or labels. -EEXIST: an extent that differs has the name
 * (says in what). -ENOSPC: says how much there is and where. -ENOENT: no such
 * pool. -ENODEV: the pool is not online. With a source also -ENOENT and
 * -ESTALE: the source; -ERANGE: smaller than it; -EOPNOTSUPP: its pool can't
 * copy;
 * -EBUSY: it is written to, and its pool copies byte by byte. Where the pool
 * copies so, the new extent is in state EXTENT_COPYING for a while; a crash
 * meanwhile undoes it.
 */
int extent_create(struct node *node, const struct extent_request *request,
		  struct extent **ret, bool *ret_made, struct error *err);

/*
 * Change the size of data and record, durably; then tell its users, so live
 * connections reach the new end once this returns.
 *
 * -ERANGE: smaller than now; -ENOSPC; -EINVAL; -EIO: damaged.
 */
int extent_resize(struct extent *extent, uint64_t size, struct error *err);

/*
 * @id  of the extent meant; "" or NULL: whichever has the name
 *
 * 0 when it is not there. -EBUSY: in use; -ESTALE: it has another id; -EIO:
 * damaged, the text says which files to look at.
 */
int extent_delete(struct node *node, const char *name, const char *id,
		  struct error *err);

/*
 * Lock the extent for an operation: -ENOENT when it is gone, -EIO: damaged,
 * -EBUSY: it is going, or its content is still on its way.
 */
int extent_begin(struct extent *extent, struct error *err);
void extent_end(struct extent *extent);

/*
 * -EBUSY while a copy is made of it, byte by byte, or it pulls; @before as in
 * struct extent_users. Between begin and end.
 */
int extent_check_not_copied(const struct extent *extent, const char *before,
			    struct error *err);

/*
 * Save @changed as the extent's record, then make it the one in memory.
 * Takes what @changed owns, also on failure. Between begin and end.
 */
int extent_save(struct extent *extent, struct extent_record *changed,
		struct error *err);

/*
 * End its direct runs (pool_ops.direct_detach): from now on all requests to it
 * pass blockd. Between begin and end. -EAGAIN: a snapshot is being taken.
 */
int extent_direct_end(struct extent *extent, struct error *err);

/* Make its acknowledged writes durable. Between begin and end; blocks. */
int extent_flush(struct extent *extent, struct error *err);

/* Its data as a device on @loop, behind its gate; blockdev_file_flag. */
int extent_open(struct extent *extent, unsigned flags, struct loop *loop,
		struct blockdev **ret, struct error *err);

/* -ENOENT for a damaged one without data. */
int extent_usage(struct extent *extent, struct extent_usage *ret,
		 struct error *err);

/* A copy of the record at one instant; extent_record_done() frees it. */
int extent_copy_record(struct extent *extent, struct extent_record *ret);

#endif
