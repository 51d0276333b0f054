/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the flows of snapshots: one snapshot, or one group, under its
 * lease, and the extents of a snapshot on their nodes.
 */
#ifndef VOLUME_SNAPSHOT_OP_H
#define VOLUME_SNAPSHOT_OP_H

#include "volume/op/context.h"
#include "volume/snapshot/snapshot.h"

struct snapshot_op {
	struct volume_context *ctx;
	char name[RECORD_NAME_SIZE];
	struct snapshot_record *record; /* owned; NULL: there is none */
};

/*
 * Take the lease on snapshot @id (NAME or NAME@UID) and load its record, if
 * there is one. snapshot_op_end() gives it back.
 */
int snapshot_op_begin(struct snapshot_op *s, struct volume_context *ctx,
		      const char *id, const char *doing, struct error *err);
void snapshot_op_end(struct snapshot_op *s);
int snapshot_op_save(struct snapshot_op *s, struct error *err);
int snapshot_op_remove(struct snapshot_op *s, struct error *err);

struct group_op {
	struct volume_context *ctx;
	char name[RECORD_NAME_SIZE];
	struct group_record *record; /* owned; NULL: there is none */
};

int group_op_begin(struct group_op *g, struct volume_context *ctx,
		   const char *id, const char *doing, struct error *err);
void group_op_end(struct group_op *g);
int group_op_save(struct group_op *g, struct error *err);
int group_op_remove(struct group_op *g, struct error *err);

/*
 * Complete one member of a group that is cut, as far as it is; @ret_ready:
 * whole.
 */
int group_member_complete(struct snapshot_op *s, struct operation *steps,
			  const struct group_record *group, bool *ret_ready,
			  struct error *err);
/* @ready: all of them are. */
int group_complete_end(struct group_op *g, bool ready, struct error *err);
/* Complete all members of a group that is cut; their leases are free. */
int group_complete(struct group_op *g, struct error *err);

/* Mark it, delete its extents, then the record. */
int snapshot_delete(struct snapshot_op *s, struct operation *op,
		    struct error *err);

/* A name that a snapshot or group may have. */
int snapshot_name_check(const char *what, const char *name, struct error *err);

/* ---- extents ---- */

/*
 * Plan a snapshot of the operation's volume: its spec and splits as they are.
 * -EBUSY: it is in no state for that.
 */
int snapshot_plan(const struct operation *op, struct snapshot_record *record,
		  struct error *err);

/* Possible remains of a cut that failed. */
enum snapshot_left {
	SNAPSHOT_LEFT_NONE,   /* no node was asked to cut */
	SNAPSHOT_LEFT_SOME,   /* extents may be there */
	SNAPSHOT_LEFT_COMING, /* a node may still be making some */
};

/*
 * Tell whether cut number @runs, which failed with @r, is worth another: a node
 * could not hold writes for long enough.
 */
bool snapshot_cuts_again(int r, unsigned runs, enum snapshot_left left);

/*
 * Cut all records, whose extents are planned, at one instant, records[0]->cut.
 * The new state is in the records, not saved. After an error nothing is held.
 * @ret_left: set in any case.
 *
 * @op       for the progress
 * @volumes  those of the records, in the same order
 *
 * Errors as volume_snapshot_create().
 */
int snapshot_take(struct operation *op, const struct operation *volumes,
		  struct snapshot_record *const *records, size_t n,
		  enum snapshot_left *ret_left, struct error *err);

/*
 * Delete every extent that may have been made. @state: what a split is then.
 * Those of silent nodes stay. Returns the first problem.
 */
int snapshot_extents_delete(struct operation *op,
			    struct snapshot_record *record,
			    enum snapshot_split_state state, struct error *err);

/* Ask how far copying is; the record is changed, not saved. */
int snapshot_extents_look(struct operation *op, struct snapshot_record *record,
			  struct error *err);

/* Check that no extent of it is lost for good: -EBUSY. */
int snapshot_check_whole(const struct snapshot_record *record,
			 struct error *err);

/* @extent, which has the split's name, was made for it. */
bool snapshot_split_is(const struct snapshot_record *record,
		       const struct snapshot_split *split,
		       const struct node_extent *extent);

/* ---- a copy for a moment, to clone a volume from ---- */

/*
 * Cut a snapshot of @source, named after the uid of the operation's volume, or
 * find the present one. Returns once it can be used.
 */
int snapshot_temporary(struct operation *op, const struct volume_source *source,
		       struct snapshot_record **ret, struct error *err);
/* Not there: 0. */
int snapshot_temporary_delete(struct operation *op, struct error *err);

#endif
