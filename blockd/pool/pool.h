/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open pool: the extents of one medium. The kind of pool is a table of
 * functions. blockd/node/node.h holds the pools of a node and decides; a pool
 * only carries out.
 *
 * A pool's functions may be called from any thread and block. Two calls about
 * one extent never run at once: the caller sees to that. Each call that changes
 * something is durable when it returns 0. A kill at any point in it leaves a
 * state that the next load() makes whole again.
 */
#ifndef BLOCKD_POOL_H
#define BLOCKD_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"
#include "base/error.h"
#include "blockd/pool/extent_record.h"
#include "blockd/pool/pool_record.h"
#include "blockd/pool/space.h"
#include "blockd/pool/space_floor.h"

struct pool;

/* What load() found; borrowed during the call. */
struct pool_found {
	const char *name;
	const struct extent_record *record; /* NULL: damaged */
	const char *damage;                 /* why it is; NULL: it is not */
	uint64_t bytes;                     /* that a damaged one counts as */
};

struct pool_visitor {
	void (*extent)(void *context, const struct pool_found *found);
	/* Other news for a person: changes that were undone, foreign files. */
	void (*note)(void *context, const char *text);
	void *context;
};

#define POOL_DIRECT_DEVICE_MAX 128 /* bytes with NUL */

struct extent_usage {
	uint64_t allocated; /* bytes */
	uint64_t shared;    /* of these: others use them too; bytes */
	/* Bytes that erasing it would free; not for all kinds exact. */
	uint64_t reclaimable;
	/* How a loop device on the data file is recognised: */
	uint64_t device; /* stat(2) st_dev and ... */
	uint64_t inode;  /* st_ino; both 0: it has no file */
};

/* What all objects of a pool have in common. */
struct pool_sharing {
	uint64_t shared;      /* bytes that more than one uses, each once */
	uint64_t reclaimable; /* bytes that only snapshots use */
};

/* A snapshot or clone to be made. */
struct pool_copy {
	const char *from; /* an object of the pool */
	/* Of the new one, in state EXTENT_OK; no smaller than @from. */
	const struct extent_record *record;
};

/* What a pool has of the direct runs of an extent (blockd/direct/direct.h). */
struct pool_direct {
	char device[POOL_DIRECT_DEVICE_MAX]; /* its UUID; "": it has none */
	uint64_t runs, bytes;                /* in the table in use */
};

/*
 * How far POOL_COPY_BYTES is, of all copies of a call; at least once for each
 * 16 MiB. Other than 0, a negative errno: stop, undo, return that. NULL:
 * nobody asks.
 */
typedef int (*pool_copied)(void *context, uint64_t done, uint64_t total);

/* A range of bytes; other than 0 ends the listing and is returned. */
typedef int (*pool_range)(void *context, uint64_t offset, uint64_t length);

struct pool_ops {
	const char *kind;

	/*
	 * Finish or undo what a crash cut short, then tell of every extent.
	 * Called once, first. A damaged extent is told of and never touched.
	 */
	int (*load)(struct pool *pool, const struct pool_visitor *visitor,
		    struct error *err);
	/* 1: but something is wrong with the pool, @err says what. */
	int (*measure)(struct pool *pool, struct space_medium *ret,
		       struct error *err);
	/*
	 * Optional. Bytes that are kept free from now on: a write that needs
	 * of them gets -ENOSPC, and the extent lives on. Any thread; quick.
	 */
	void (*keep_free)(struct pool *pool, uint64_t bytes);
	/* Bytes that an extent of @size can come to take at most. */
	uint64_t (*footprint)(struct pool *pool, uint64_t size);

	/* All of it or nothing; @record is in state EXTENT_OK. */
	int (*create)(struct pool *pool, const struct extent_record *record,
		      struct error *err);
	/* Replace the record. */
	int (*save)(struct pool *pool, const struct extent_record *record,
		    struct error *err);
	/* Make the data record->size bytes long, which is more, then save. */
	int (*grow)(struct pool *pool, const struct extent_record *record,
		    struct error *err);
	/*
	 * Note durably that an extent is going. This needs no space, as the
	 * medium may be full. The next load() finishes an erase() that was not
	 * done.
	 */
	int (*begin_delete)(struct pool *pool, const char *name,
			    struct error *err);
	/* Data, then record, after begin_delete(). Repeat it after a failure.
	 */
	int (*erase)(struct pool *pool, const char *name, struct error *err);

	int (*usage)(struct pool *pool, const char *name,
		     struct extent_usage *ret, struct error *err);
	/*
	 * The data file on this node. Returned owned; "": it has none; NULL:
	 * out of memory.
	 */
	char *(*path)(struct pool *pool, const char *name);
	/*
	 * The medium of an extent, on @loop; blocks briefly. @size: bytes,
	 * from the record. @flags: enum blockdev_file_flag.
	 */
	int (*open)(struct pool *pool, const char *name, uint64_t size,
		    unsigned flags, struct loop *loop, struct blockdev **ret,
		    struct error *err);
	/* Make all writes durable that were acknowledged by now. Blocks. */
	int (*flush)(struct pool *pool, const char *name, struct error *err);

	/* ---- Optional: NULL, the pool can't ---- */

	/*
	 * For a device that writes to the extent: a share of the space above
	 * keep_free(). @ret returned owned.
	 */
	int (*share)(struct pool *pool, const char *name,
		     struct space_share **ret, struct error *err);

	/*
	 * Quick, also where there is much. @snapshots: the names of all of
	 * them, @n. Changes meanwhile are counted or not. Writes of the last
	 * moment may be missing. -EOPNOTSUPP: the look would take too long, or
	 * the file system does not tell;
	 * -EBADMSG: a damaged object may have used anything.
	 */
	int (*sharing)(struct pool *pool, const char *const *snapshots,
		       size_t n, struct pool_sharing *ret, struct error *err);

	/* Probed when the pool is opened. */
	enum pool_copy_method (*copy_method)(struct pool *pool);
	/*
	 * Make @n objects: all of them or none, also after a crash. Nobody
	 * writes to their sources meanwhile. The range past the end of a
	 * shorter source reads as zeroes.
	 */
	int (*copy)(struct pool *pool, const struct pool_copy *copies, size_t n,
		    pool_copied copied, void *context, struct error *err);
	/*
	 * An extent may have a device with requests that do not pass those of
	 * open(). Make ready to hold that, until release(): what takes long.
	 * These of one extent add up.
	 *
	 * 1: release() ends it; 0: it has no such device.
	 */
	int (*prepare)(struct pool *pool, const char *name, struct error *err);
	/*
	 * After prepare(). The requests wait from now on, and those in flight
	 * have ended: until release(). A file system that makes them is frozen.
	 * Meanwhile the caller does not stop requests to the devices of open():
	 * some may be waited for. On failure release() ends it, too.
	 */
	int (*hold)(struct pool *pool, const char *name, struct error *err);
	/* -ESTALE: after hold() they did not wait all the time. */
	int (*release)(struct pool *pool, const char *name);
	/*
	 * Requests to a mapper device of this node are to pass by blockd where
	 * they can (blockd/direct/direct.h). The extent has one such device: an
	 * earlier one is given up.
	 *
	 * @uuid   of device mapper
	 * @epoch  of the export that the device's attachment has
	 *
	 * -EOPNOTSUPP: not here, the text says why; -EINVAL: no such device as
	 * an attachment has; -EAGAIN: it is held.
	 */
	int (*direct_attach)(struct pool *pool, const char *name,
			     const char *uuid, uint64_t epoch,
			     struct error *err);
	/*
	 * All requests to that device pass blockd again, and those that did not
	 * have ended. Without one: 0. -EAGAIN: it is held.
	 */
	int (*direct_detach)(struct pool *pool, const char *name,
			     struct error *err);
	int (*direct_count)(struct pool *pool, const char *name,
			    struct pool_direct *ret, struct error *err);
	/*
	 * The content of @record->name becomes that of @from, and its record
	 * @record; together or not at all. Nobody has it open.
	 */
	int (*revert)(struct pool *pool, const struct extent_record *record,
		      const char *from, struct error *err);
	/*
	 * Visit the ranges from @start on that @name has allocated. With @base:
	 * those where the two may differ (a difference is never left out). In
	 * order, no overlaps, neighbours joined; nobody writes to either.
	 */
	int (*ranges)(struct pool *pool, const char *name, const char *base,
		      uint64_t start, pool_range visit, void *context,
		      struct error *err);
	/*
	 * Verify the metadata while it is used; @finding gets a sentence for
	 * each thing that is wrong. @repair: give back space that nobody uses.
	 */
	int (*check)(struct pool *pool, bool repair,
		     void (*finding)(void *context, const char *text,
				     bool repaired),
		     void *context, struct error *err);
	/* Use all of a medium that has become larger. */
	int (*extend)(struct pool *pool, struct error *err);

	/*
	 * Try whether the pool can be written and read, by doing it in a place
	 * of its own, durably. Blocks for as long as the medium takes. One at a
	 * time.
	 *
	 * 0: it can, or could if there was room; -EROFS: it can only be read;
	 * -ENODEV: it is gone, as lost() has it; others: it fails.
	 */
	int (*try)(struct pool *pool, struct error *err);
	/*
	 * Is the medium gone? -ENODEV: it is, @err says how; then nothing is
	 * written to it any more, and the pool can only be closed. 0: it is
	 * there. Quick.
	 */
	int (*lost)(struct pool *pool, struct error *err);
	/*
	 * Tell whether metadata can be written and read by now that could not
	 * be, so that the pool takes no changes. 0: nothing of that kind has
	 * happened; 1: yes, when it is closed and opened again; negative: not
	 * yet. Blocks for an attempt.
	 */
	int (*retry)(struct pool *pool, struct error *err);
	/*
	 * Give a pool a new incarnation, durably. The pool was gone, or was
	 * closed by us, and is back: writes that were acknowledged and not
	 * flushed may be lost.
	 */
	int (*renew)(struct pool *pool, struct error *err);

	/* Replace the pool's own record, durably; pool->record follows. */
	int (*put_record)(struct pool *pool, const struct pool_record *record,
			  struct error *err);
	/* Take the pool's identity off the medium; it holds no extent. */
	int (*destroy)(struct pool *pool, struct error *err);
	/* Give up the lock and free it. */
	void (*close)(struct pool *pool);
};

struct pool {
	const struct pool_ops *ops;
	struct pool_record record;
	char *path; /* owned; absolute, no symbolic links: of a directory
		     * ("dir"), a block device or a file ("raw") */
	uint64_t cluster_size; /* bytes; 0: it has no clusters */
	/*
	 * Called when the medium failed: the owner of the pool may ask lost().
	 * Any thread; brief. NULL: nobody wants to know.
	 */
	void (*fault)(void *context);
	void *fault_context;
};

/* The content found at a path. */
enum pool_content {
	POOL_CONTENT_EMPTY,   /* or what a format() cut short left */
	POOL_CONTENT_POOL,    /* has an identity that decodes */
	POOL_CONTENT_DAMAGED, /* has an identity that does not: -> err */
	POOL_CONTENT_OTHER,   /* somebody's; -> err says what */
};

/* Report a failure that may be the medium's fault. Any thread. */
static inline void pool_fault(const struct pool *pool)
{
	if (pool->fault)
		pool->fault(pool->fault_context);
}

static inline void pool_close(struct pool *pool)
{
	if (pool)
		pool->ops->close(pool);
}

#endif
