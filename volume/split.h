/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One split on its way: the extent on its node, the device on this machine,
 * the file system on the device.
 */
#ifndef VOLUME_SPLIT_H
#define VOLUME_SPLIT_H

#include "volume/context.h"

/* Make the extent, or find the one that was made for this split. */
int split_create(struct operation *op, struct volume_split *split,
		 struct error *err);

/* Delete its extent, if it is this volume's. Not there: 0. */
int split_delete(struct operation *op, struct volume_split *split,
		 struct error *err);

/*
 * Make its extent as large as split->grow_to, if that is set. What it has
 * become is in the record, which is saved, also when only somebody else made
 * it larger.
 */
int split_grow(struct operation *op, struct volume_split *split,
	       struct error *err);

/*
 * Find out how large its extent is, and forget split->grow_to. The record is
 * changed, not saved.
 */
int split_settle(struct operation *op, struct volume_split *split,
		 struct error *err);

/*
 * Make its file system on @device, mounted at @branch, as large as the
 * device, and save that. @branch NULL: as branch_fs_grow() has it.
 */
int split_grow_fs(struct operation *op, struct volume_split *split,
		  const char *device, const char *branch, struct error *err);

struct split_attach {
	uint64_t epoch;
	const char *transport; /* "auto" or a transport */
	bool read_only;
};

/*
 * Export the extent at the epoch, attach it, format it if it never was,
 * check it, mount it as a branch, grow its file system if the extent grew.
 * Each part that is done already is left.
 */
int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err);

/*
 * Stop serving every extent of the volume that is still at @epoch or older.
 * A node that does not answer is passed over: the next epoch fences it.
 *
 * @ret_silent  those nodes; name_list_done()
 */
void splits_unexport(struct operation *op, uint64_t epoch,
		     struct name_list *ret_silent);

/* Steps of split_attach() at most, for the progress. */
#define SPLIT_ATTACH_STEPS 4

#endif
