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
 * Check every file system of the volume, on this machine. The volume is
 * attached meanwhile, at an epoch of its own, so nobody can use it.
 *
 * @repair  replay journals, and make safe repairs; on XFS, those of
 *          xfs_repair(8). Else nothing is written
 * @ret     volume_found_free(); also set when not all is sound
 *
 * -EBUSY: the volume is attached somewhere, the text says where. -EOPNOTSUPP:
 * the volume is a block device, its content is not known. Stopped or killed,
 * the same call begins anew.
 */
int volume_check(struct volume_context *ctx, const char *name, bool repair,
		 struct volume_found **ret, struct error *err);

/* "sound", "mended", "unclean", "damaged", "unknown". */
const char *branch_verdict_name(enum branch_verdict verdict);

#endif
