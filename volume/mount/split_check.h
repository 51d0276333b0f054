/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the file systems of splits. A file system that failed or was found
 * damaged is marked in the record, and checked whole before its next use.
 */
#ifndef VOLUME_SPLIT_CHECK_H
#define VOLUME_SPLIT_CHECK_H

#include "volume/mount/branch_check.h"
#include "volume/op/context.h"

/*
 * Check and mend a split that is READY, by branch_check_mend() on @device,
 * which may be written. Repairs are logged.
 *
 * @whole   check all of it, for a suspect one
 * @target  as branch_check.target
 *
 * -EUCLEAN: it needs a person; the text says which command to run, the record
 * marks it. Safe repairs may have been made.
 */
int split_check(struct operation *op, struct volume_split *split, bool whole,
		const char *device, const char *target, struct error *err);

/*
 * Handle a failed mount, for the reason @r. Returns that or, where the device's
 * content may be the cause, the same as split_check() of a damaged one.
 */
int split_check_unmountable(struct operation *op, struct volume_split *split,
			    const char *device, int r, struct error *err);

/*
 * Mark the split as suspect or not, and save that.
 *
 * @problem  for a person; NULL: none
 */
int split_suspect_set(struct operation *op, struct volume_split *split,
		      bool suspect, const char *problem, struct error *err);

/* Write the commands that a person runs for a damaged one, ready to copy. */
void split_check_advice(const struct operation *op,
			const struct volume_split *split,
			enum branch_verdict verdict, char *ret, size_t size);

/* -EUCLEAN, as split_check() says it. */
int split_check_refuse(struct operation *op, struct volume_split *split,
		       const struct branch_found *found, struct error *err);
void split_check_tell(struct operation *op, const struct volume_split *split,
		      const struct branch_found *found);

/*
 * Note branches as suspect before the branches here are unmounted: those whose
 * file system gave up, and those where the union met damage.
 */
void split_check_note_failed(struct operation *op);

/*
 * Say in the record that all file systems of the volume were checked, if it
 * does not say so yet. Not saved.
 */
void split_check_sound(struct volume_record *record);

#endif
