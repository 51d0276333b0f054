/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One split on its way: the extent on its node, the device on this machine,
 * the file system on the device.
 */
#ifndef VOLUME_SPLIT_H
#define VOLUME_SPLIT_H

#include "volume/op/context.h"
#include "volume/record/mount_options.h"

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

/* Set split->fs_behind, and save that. */
int split_set_behind(struct operation *op, struct volume_split *split,
		     bool behind, struct error *err);

/*
 * @extent is the split's: then what it has grown by belongs in the record,
 * which is changed, not saved. -EUCLEAN: it is not.
 */
int split_adopt(struct operation *op, struct volume_split *split,
		const struct node_extent *extent, struct error *err);

struct split_attach {
	uint64_t epoch;
	const char *transport;               /* "auto" or a transport */
	const struct mount_options *options; /* of the branch */
	bool read_only;
	/* Others read at this epoch: they are let in too, as they were. */
	bool joins;
	bool linear; /* only the device, of one that a guest mounts checked */
	bool device_only; /* whatever its layout, and as it is */
};

/*
 * Export the extent at the epoch, attach it, format it if it never was,
 * check it, mount it as a branch, grow its file system if the extent grew.
 * Each part that is done already is left.
 *
 * For a reader, what needs writing (formatting, a journal) is done first,
 * while nobody else is let in.
 */
int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err);

/* Steps of split_attach() at most, for the progress. */
#define SPLIT_ATTACH_STEPS 4

/* ---- all of a volume, side by side ---- */

struct split_work {
	/* From any thread; what it changes of the record, under the lock. */
	int (*each)(struct operation *op, struct volume_split *split,
		    const void *context, struct error *err);
	const void *context;
	bool stop_at_first; /* problem: begin no other split */
};

/*
 * Returns the first problem, when all that were begun have ended. Of a node
 * that is silent no other split is begun.
 *
 * @ret_silent  those nodes; name_list_done(); may be NULL
 */
int split_foreach(struct operation *op, const struct split_work *work,
		  struct name_list *ret_silent, struct error *err);

/*
 * -EBUSY: a device of the extent's own node holds it, and nobody can take
 * that away. Other errors: it cannot be known.
 */
int split_check_held(struct operation *op, const struct volume_split *split,
		     struct error *err);

enum splits_look {
	/* Who the record does not know of is to end: it learns of them. */
	SPLITS_FORCE = 1,
	/* A device of the extent's own node is in the way, too. */
	SPLITS_HELD = 2,
	/* Only those that answer, and have the extent. */
	SPLITS_FOUND = 4,
};

/*
 * Before the extents of the volume are taken, or lost: -EBUSY when one is
 * served to an attachment that the record does not know of, or SPLITS_HELD and
 * a device holds it, which nobody can take away.
 *
 * @flags      enum splits_look
 * @ret_above  the highest epoch of any; may be NULL
 */
int splits_look(struct operation *op, unsigned flags, uint64_t *ret_above,
		struct error *err);
/* The same of one that is at hand: -EBUSY. */
int split_check_known(struct operation *op, const struct volume_split *split,
		      const struct node_extent *extent, struct error *err);

/* Whose exports the record may end; never none, which would mean anybody's. */
struct split_grants {
	const char *items[VOLUME_GRANTS_MAX]; /* borrowed from the record */
	size_t n;
};
void split_grants_of(const struct volume_record *record,
		     struct split_grants *ret);

/* Does another node read at the epoch of @a? */
bool splits_are_shared(const struct operation *op,
		       const struct volume_attachment *a);

/*
 * The node of @a uses the volume no more: its extents are not served any
 * longer, or, when others read them, not to that node. What cannot be done
 * now the next epoch does.
 *
 * @ret_silent  nodes that did not answer; name_list_done()
 */
void splits_withdraw(struct operation *op, const struct volume_attachment *a,
		     struct name_list *ret_silent);

/*
 * Cut off whoever uses the volume: no extent is served below @epoch any more.
 * A node that does not answer is passed over, as above. -EBUSY: a device of
 * the extent's own node holds it.
 *
 * @ret_silent  on success: those nodes; name_list_done()
 */
int splits_fence(struct operation *op, uint64_t epoch,
		 struct name_list *ret_silent, struct error *err);

/* Of one of @record's splits, as large as it is going to be. */
struct node_limits split_limits(const struct volume_record *record,
				const struct volume_split *split);

#endif
