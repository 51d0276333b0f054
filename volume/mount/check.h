/* SPDX-License-Identifier: Apache-2.0 */
/* The file systems of a volume that is in use nowhere, looked at by hand. */
#ifndef VOLUME_CHECK_H
#define VOLUME_CHECK_H

#include "volume/mount/branch_check.h"
#include "volume/volume.h"

struct split_found {
	struct volume_split split; /* as in the record */
	bool looked;               /* false: it was never formatted */
	struct branch_found found;
	char advice[ERROR_TEXT_MAX]; /* what to run, or why it is UNKNOWN */
};

struct volume_found {
	struct split_found *splits; /* owned, by index */
	size_t n_splits;
	bool sound; /* all of them, or mended */
};

void volume_found_free(struct volume_found *found); /* NULL is fine */

/*
 * Check every file system of the volume, on this machine. It is attached
 * meanwhile, at an epoch of its own, so nobody can use it.
 *
 * @repair  replay journals, mend what is safe to; of XFS, what xfs_repair(8)
 *          does. Else nothing is written
 * @ret     volume_found_free(); also set when not all is sound
 *
 * -EBUSY: it is attached somewhere, the text says where. -EOPNOTSUPP: what is
 * on it is not known, it is a block device. Stopped or killed, the same call
 * begins anew.
 */
int volume_check(struct volume_context *ctx, const char *name, bool repair,
		 struct volume_found **ret, struct error *err);

/* "sound", "mended", "unclean", "damaged", "unknown". */
const char *branch_verdict_name(enum branch_verdict verdict);

#endif
