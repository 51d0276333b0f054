/* SPDX-License-Identifier: Apache-2.0 */
/* A move while it runs, shared by its files. */
#ifndef VOLUME_MOVE_COPY_H
#define VOLUME_MOVE_COPY_H

#include "volume/move/move.h"
#include "volume/op/split.h"

struct move_way;

struct move {
	struct operation op;
	const struct volume_move_request *request;
	const struct move_way *way; /* NULL: nothing is left to be done */
	bool cancels;
	bool drains; /* move_union.c has told the union so, at this rate */
	/* How many files had moved when that was seen last to change, and when.
	 */
	uint64_t moved_files;
	int64_t moved_ms;
	/* The new extent, since somebody was waited for. "": nobody was. */
	char waited_for[UUID_TEXT_SIZE];
	size_t index;                       /* the split */
	char export[RECORD_NAME_SIZE + 24]; /* as node_extent.nbd_name */
	char address[NODE_ADDRESS_SIZE];    /* of the server that has it */
	struct node_client *to;             /* borrowed */
};

/* The split of a move. */
struct volume_split *move_split(struct operation *op);
/* Make a split at the place split->move, for what works on splits. */
struct volume_split move_other_place(const struct volume_split *split);

/*
 * Make the extent at the other place, which has to be blank, and save its id.
 * Made already: 0.
 */
int move_make_extent(struct operation *op, struct volume_split *split,
		     struct error *err);

/* Make the extent of @split, which has to be blank. Nothing is saved. */
int move_make_blank(struct operation *op, struct volume_split *split,
		    struct error *err);

/* ---- move_copy.c: phases ---- */

int move_export(struct operation *op, struct error *err);
int move_make(struct operation *op, struct error *err);
int move_copy(struct operation *op, struct error *err);
/* Check that the copy is there, whole. -EIO. */
int move_check_copy(struct operation *op, struct error *err);

/* ---- move_drop.c ---- */

/*
 * Delete the extent at the other place. While its id is not known, only one
 * that was never written to can have been made for it.
 */
int move_drop_other(struct operation *op, struct volume_split *split,
		    struct error *err);
/* Delete what an earlier move of the split has left, and save that. */
int move_drop_left(struct operation *op, struct volume_split *split,
		   struct error *err);
/* End the export that serves the copy. The next epoch ends it otherwise. */
void move_unexport(struct operation *op, const struct volume_split *split);

#endif
