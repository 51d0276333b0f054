/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of volumes, volumes made from them, and limits: the other half of
 * volume.h, with its conventions. Every operation is idempotent and may be
 * repeated after a crash. -EHOSTUNREACH, -ETIMEDOUT, -EAGAIN and -ECANCELED are
 * not final. After any other error nothing is left behind.
 *
 * A snapshot is one instant of all extents of a volume, on any nodes. Its file
 * systems are as a crash at that instant would have left them; their journals
 * are replayed at the first use. Writes wait meanwhile. A snapshot has extents
 * of its own: it, its volume and clones of either can be deleted in any order.
 *
 * A volume made from a snapshot, or from a volume (a clone), is like any other:
 * volume_create() with volume_spec.source. Its extents are in the pools of the
 * source's. It may be larger, by larger extents and more of them.
 */
#ifndef VOLUME_SNAPSHOT_H
#define VOLUME_SNAPSHOT_H

#include "volume/record/snapshot_record.h"
#include "volume/store/record_place.h"
#include "volume/volume.h"

/* ---- of one volume ---- */

struct snapshot_create_request {
	const char *name;            /* at most SNAPSHOT_NAME_MAX bytes */
	const char *volume;          /* attached anywhere, or not at all */
	const struct labels *labels; /* NULL: none */
};

/*
 * Cut a snapshot, complete when this returns 0. Its phase is then READY or, in
 * pools that have to copy, COPYING; a repeated call reports the progress.
 *
 * @ret  snapshot_record_free(); may be NULL
 *
 * There already, of that volume: 0 (an unfinished one is cut anew). -EEXIST: of
 * another volume, or with other labels. -ENOENT: no such volume. -ENOSPC: a
 * pool has too little room for its largest size. -EOPNOTSUPP: a pool's kind
 * can't. -EBUSY: the volume is not finished, being deleted or reverted, or half
 * resized. -EBUSY, too: a bare device on its own node uses an extent, or the
 * snapshot is being deleted. -ESTALE: a hold of writes ended too early; try
 * again. -EHOSTUNREACH: a node did not answer; nothing is held, and nothing
 * left, unless a record says so.
 */
int volume_snapshot_create(struct volume_context *ctx,
			   const struct snapshot_create_request *request,
			   struct snapshot_record **ret, struct error *err);

/* The record as it is kept. -ENOENT. snapshot_record_free(). */
int volume_snapshot_get(struct volume_context *ctx, const char *name,
			struct snapshot_record **ret, struct error *err);

/*
 * The same, after asking the nodes for the progress of one that is COPYING; the
 * record is written. -EAGAIN: another operation works on it.
 */
int volume_snapshot_refresh(struct volume_context *ctx, const char *name,
			    struct snapshot_record **ret, struct error *err);

struct snapshot_filter {
	const char *volume;     /* only of that; NULL: all */
	const char *group;      /* only members of that; NULL: all */
	const char *volume_uid; /* only of the volume with it; NULL: any */
	/* From there on; moved just before the next one. NULL: all. */
	struct record_place *place;
	size_t max;     /* at most so many; 0: all */
	bool cut;       /* only cut ones that are not being deleted */
	bool temporary; /* those too that a clone is being made from */
};

/*
 * By name. A snapshot that stays is in exactly one of a row of pages. @filter
 * NULL: all but the temporary ones. @ret_more: there are more than filter->max;
 * may be NULL. @ret_problem as volume_list() has it.
 * snapshot_records_free().
 */
int volume_snapshot_list(struct volume_context *ctx,
			 const struct snapshot_filter *filter,
			 struct snapshot_record ***ret, size_t *ret_count,
			 bool *ret_more, char *ret_problem, struct error *err);

/*
 * @name  NAME or NAME@UID, as volume_delete() has it
 *
 * Not there: 0. -EPERM: a member of a group goes with its group. -EBUSY:
 * somebody uses an extent of it.
 */
int volume_snapshot_delete(struct volume_context *ctx, const char *name,
			   struct error *err);

struct snapshot_split_status {
	bool reachable;       /* its node answered */
	bool found;           /* the extent is there and is the record's */
	uint64_t allocated;   /* bytes */
	uint64_t shared;      /* of these: others use them too */
	uint64_t reclaimable; /* what deleting it would free */
	char method[16];      /* "shared", "reflink", "copy" */
	/* "ok" "copying" "damaged" "unreachable" "missing" "lost" */
	char state[32];
	char problem[ERROR_TEXT_MAX]; /* "" when there is none */
};

struct snapshot_status {
	struct snapshot_record *record;       /* owned */
	struct snapshot_split_status *splits; /* owned, record->n_splits */
};

/* Ask the nodes. -ENOENT. */
int volume_snapshot_status_get(struct volume_context *ctx, const char *name,
			       struct snapshot_status **ret, struct error *err);
void volume_snapshot_status_free(struct snapshot_status *status);

/*
 * Set @volume back to @snapshot (both NAME or NAME@UID); later writes are lost.
 * The volume must not be attached or published. The file systems keep their
 * size, also one that has grown since.
 *
 * -EBUSY: attached or published, or an extent of it is in use. -EINVAL: not a
 * snapshot of this volume, or the volume has more extents since (make a new
 * volume of the snapshot). A volume half reverted can't be used: repeat it, or
 * revert to another snapshot.
 */
int volume_revert(struct volume_context *ctx, const char *volume,
		  const char *snapshot, struct error *err);

/* ---- of several volumes ---- */

struct group_create_request {
	const char *name; /* at most SNAPSHOT_NAME_MAX bytes */
	/* NAME or NAME@UID; 1 to SNAPSHOT_MEMBERS_MAX, in any order. */
	const char *const *volumes;
	size_t n_volumes;
	const struct labels *labels;     /* NULL: none */
	const struct labels *parameters; /* NULL: none */
};

/*
 * Cut snapshots of all of them at one instant, called "NAME-INDEX"; all or
 * none. Errors as volume_snapshot_create(). There already with the same volumes
 * and parameters: 0. -EEXIST: with others, or a member's name is taken.
 */
int volume_group_create(struct volume_context *ctx,
			const struct group_create_request *request,
			struct group_record **ret, struct error *err);
/* -ENOENT. group_record_free(). */
int volume_group_get(struct volume_context *ctx, const char *name,
		     struct group_record **ret, struct error *err);
/* As volume_snapshot_refresh(), for all members. */
int volume_group_refresh(struct volume_context *ctx, const char *name,
			 struct group_record **ret, struct error *err);
/* All, by name. group_records_free(). */
int volume_group_list(struct volume_context *ctx, struct group_record ***ret,
		      size_t *ret_count, char *ret_problem, struct error *err);
/* With its members. NAME or NAME@UID, as above. Not there: 0. */
int volume_group_delete(struct volume_context *ctx, const char *name,
			struct error *err);

/* ---- changed blocks ---- */

struct snapshot_ranges_request {
	const char *snapshot;
	const char *older; /* of the same volume; NULL: allocated ranges */
	uint64_t start;    /* bytes; ranges that end after it */
};

struct snapshot_range {
	uint64_t offset, length; /* bytes */
};

/*
 * Ranges in order, none overlaps; @size: of the snapshot, bytes. Borrowed.
 * Called at least once, with no ranges when there are none. Other than 0 ends
 * it and is returned.
 */
typedef int (*snapshot_ranges_visit)(void *context, uint64_t size,
				     const struct snapshot_range *ranges,
				     size_t count);

/*
 * List the ranges where a snapshot of a device, or of one extent, has data, or
 * differs from an older one. The extents of an older one may be fewer: the
 * volume has grown. To go on after an interruption: start at the end of the
 * last range.
 *
 * -ENOENT: no such snapshot. -EINVAL: it is of a union of several extents, or
 * the two are not of the same volume. -ERANGE: start is past its end. -EAGAIN:
 * not READY. -EOPNOTSUPP: its pool does not know.
 */
int volume_snapshot_ranges(struct volume_context *ctx,
			   const struct snapshot_ranges_request *request,
			   snapshot_ranges_visit visit, void *context,
			   struct error *err);

/* ---- limits ---- */

/*
 * Limit the I/O of a volume, also while it is used. Each extent gets the part
 * of a limit that its size is of the volume's, at least 1. A file lies on one
 * extent, so it gets that extent's part.
 *
 * @name  NAME or NAME@UID
 * @ret   volume_record_free(); may be NULL
 *
 * -ENOENT. -EBUSY: not finished, or being deleted. After a final error the old
 * limits are in force again.
 */
int volume_limit(struct volume_context *ctx, const char *name,
		 const struct volume_limits *limits, struct volume_record **ret,
		 struct error *err);

#endif
