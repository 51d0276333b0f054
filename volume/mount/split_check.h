/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the file systems of splits, beside the record: one that gave up, or
 * was found damaged, is remembered there and looked at whole before it is used
 * again.
 */
#ifndef VOLUME_SPLIT_CHECK_H
#define VOLUME_SPLIT_CHECK_H

#include "volume/mount/branch_check.h"
#include "volume/op/context.h"

/*
 * branch_check_mend() of a split that is READY, on @device, which may be
 * written. What was mended is logged.
 *
 * @whole   look at all of it, as where it is suspect
 * @target  as branch_check.target
 *
 * -EUCLEAN: it needs a person; the text says what to run, the record that it is
 * so. What else was safe to mend may have been.
 */
int split_check(struct operation *op, struct volume_split *split, bool whole,
		const char *device, const char *target, struct error *err);

/*
 * It could not be mounted, for the reason @r. Returns that, or, where what is
 * on the device may be the cause, the same as split_check() of a damaged one.
 */
int split_check_unmountable(struct operation *op, struct volume_split *split,
			    const char *device, int r, struct error *err);

/*
 * Is it suspect from now on, in the record, too?
 *
 * @problem  NULL: none that a person has to see to
 */
int split_suspect_set(struct operation *op, struct volume_split *split,
		      bool suspect, const char *problem, struct error *err);

/* What a person runs, of a damaged one; in words that can be copied. */
void split_check_advice(const struct operation *op,
			const struct volume_split *split,
			enum branch_verdict verdict, char *ret, size_t size);

/* -EUCLEAN, as split_check() says it. */
int split_check_refuse(struct operation *op, struct volume_split *split,
		       const struct branch_found *found, struct error *err);
void split_check_tell(struct operation *op, const struct volume_split *split,
		      const struct branch_found *found);

/*
 * Before the branches here are unmounted: those whose file system gave up are
 * suspect from now on.
 */
void split_check_note_failed(struct operation *op);

/* All of its file systems were checked: it says so if it did not. Not saved. */
void split_check_sound(struct volume_record *record);

#endif
