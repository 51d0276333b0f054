/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One split in all its stages: the extent on its node, the device on this
 * machine, the file system on the device.
 */
#ifndef VOLUME_SPLIT_H
#define VOLUME_SPLIT_H

#include "volume/op/context.h"
#include "volume/record/mount_options.h"

/* Make the split's extent, or find the extent that was made for it. */
int split_create(struct operation *op, struct volume_split *split,
		 struct error *err);

/*
 * Fill in from where the split's content is copied, and how far it is. Borrows
 * from @split; failures and done stay.
 */
struct extent_pull;
void split_pull_of(const struct volume_split *split, struct extent_pull *ret);

/*
 * Delete its extent, if it is this volume's, and end its copy. Not there: 0.
 */
int split_delete(struct operation *op, struct volume_split *split,
		 struct error *err);

/*
 * Make its extent as large as split->grow_to, if that is set. The new size is
 * saved in the record, also when another process made the extent larger.
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
 * Check that @extent is the split's. If it has grown, its size goes into the
 * record, which is changed, not saved. -EUCLEAN: it is not the split's.
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
	/*
	 * Only the device, for its user. A guest's file system is checked
	 * before, one of ours after its next use.
	 */
	bool bare;
	/* The first splits, which one device is made of; 0: one. */
	size_t n_splits;
	bool device_only; /* whatever its layout, and as it is */
};

/*
 * Make a split usable here: export its extent at the epoch, attach it, format a
 * new one, check it and mount it as a branch. The first split of a device takes
 * the others with it. The file system grows if the extent grew. Parts that are
 * done are left.
 *
 * For a reader, steps that need writing (formatting, a journal) come first,
 * while only this machine is admitted.
 */
int split_attach(struct operation *op, struct volume_split *split,
		 const struct split_attach *how, struct error *err);

/* Steps of split_attach() at most, for the progress. */
#define SPLIT_ATTACH_STEPS 4

/* ---- all of a volume, side by side ---- */

struct split_work {
	/*
	 * Called from any thread; changes of the record need the operation's
	 * lock.
	 */
	int (*each)(struct operation *op, struct volume_split *split,
		    const void *context, struct error *err);
	const void *context;
	bool stop_at_first; /* problem: begin no other split */
};

/*
 * Call work->each for every split that is not lost, several at a time. Returns
 * the first problem, once all calls have ended. No other split of a silent node
 * is begun.
 *
 * @silent  nodes that did not answer before; those that do not now are added.
 *          name_list_done(); may be NULL
 */
int split_foreach(struct operation *op, const struct split_work *work,
		  struct name_list *silent, struct error *err);

/*
 * Check that no device of the extent's own node uses it: -EBUSY, as it cannot
 * be taken away. Other errors: unknown.
 */
int split_check_held(struct operation *op, const struct volume_split *split,
		     struct error *err);

enum splits_look {
	/*
	 * Attachments unknown to the record will be ended: the record learns of
	 * them.
	 */
	SPLITS_FORCE = 1,
	/* Devices of the extents' own nodes are refused, too. */
	SPLITS_HELD = 2,
	/* Extents that are missing or on silent nodes are passed over. */
	SPLITS_FOUND = 4,
};

/*
 * Check the extents of the volume before they are taken or lost. -EBUSY: one is
 * served to an attachment unknown to the record, or (SPLITS_HELD) is used by a
 * device that cannot be taken away.
 *
 * @flags      enum splits_look
 * @ret_above  the highest epoch of any; may be NULL
 */
int splits_look(struct operation *op, unsigned flags, uint64_t *ret_above,
		struct error *err);
/* Check one extent in the same way: -EBUSY. */
int split_check_known(struct operation *op, const struct volume_split *split,
		      const struct node_extent *extent, struct error *err);
/*
 * Check as split_adopt() and split_check_known() do, and that no device of its
 * own node uses the extent: -EBUSY.
 *
 * @ret_epoch  the extent's
 */
int split_check_unused(struct operation *op, struct volume_split *split,
		       uint64_t *ret_epoch, struct error *err);

/*
 * Grants whose exports the record may end; never empty, which would mean all.
 */
struct split_grants {
	const char *items[VOLUME_GRANTS_MAX]; /* borrowed from the record */
	size_t n;
};
void split_grants_of(const struct volume_record *record,
		     struct split_grants *ret);

/* Tell whether another node reads at the epoch of @a. */
bool splits_are_shared(const struct operation *op,
		       const struct volume_attachment *a);

/*
 * Withdraw the extents from the node of @a: end their exports or, with other
 * readers, exclude that node. What fails now is ended by the next epoch.
 *
 * @silent  as split_foreach()
 */
void splits_withdraw(struct operation *op, const struct volume_attachment *a,
		     struct name_list *silent);

/* Find out which nodes of the volume's extents do not answer. @silent: as
 * above. */
void splits_find_silent(struct operation *op, struct name_list *silent);

/*
 * Cut off all users of the volume: no extent is served below @epoch any more.
 * Silent nodes are passed over, as above. -EBUSY: a device of the extent's own
 * node uses it.
 *
 * @silent  on success as split_foreach(), else empty
 */
int splits_fence(struct operation *op, uint64_t epoch, struct name_list *silent,
		 struct error *err);

/* Limits of one of @record's splits, by its final size. */
struct node_limits split_limits(const struct volume_record *record,
				const struct volume_split *split);

#endif
