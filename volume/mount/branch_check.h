/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and repairs of the file system of a split, by its superblock,
 * e2fsck(8) and xfs_repair(8). A check may take any time. A stopped one begins
 * anew.
 */
#ifndef VOLUME_BRANCH_CHECK_H
#define VOLUME_BRANCH_CHECK_H

#include <stdbool.h>

#include "base/error.h"

#define BRANCH_FOUND_SIZE 200 /* bytes with NUL; the first finding */

struct branch_check {
	const char *device; /* nobody else has it open */
	const char *type;   /* "ext4" or "xfs" */
	/*
	 * A directory, made if missing, where nothing is mounted. XFS is
	 * mounted there while its log is replayed. NULL: there is none, and XFS
	 * is not checked whole.
	 */
	const char *target;
	/* Check all of the file system, though nothing on it asks for that. */
	bool whole;
	int cancel_fd; /* base/process.h */
};

enum branch_verdict {
	BRANCH_SOUND,
	BRANCH_MENDED,
	BRANCH_UNCLEAN, /* not unmounted; unknown before its log is replayed */
	BRANCH_DAMAGED,
	BRANCH_DAMAGED_LOG, /* XFS: nothing goes without losing its log */
	BRANCH_UNKNOWN,     /* it could not be looked at */
};

struct branch_found {
	enum branch_verdict verdict;
	char what[BRANCH_FOUND_SIZE]; /* "" when SOUND */
};

/*
 * Tell whether its superblock asks for a check, or was not unmounted. The log
 * of XFS is not known by that.
 */
int branch_check_due(const char *device, const char *type, bool *ret,
		     struct error *err);

/*
 * Prepare a file system for a mount for writing: replay its journal, and make
 * safe repairs. For ext4, `e2fsck -p` does both, and checks the whole file
 * system after recorded errors. The journal of XFS is replayed by the later
 * mount. With
 * @whole, XFS is replayed and checked here, by a mount and `xfs_repair -n`.
 *
 * 0, and SOUND, MENDED or DAMAGED, which needs a person. Errors: the check
 * failed, as for want of the program.
 */
int branch_check_mend(const struct branch_check *check,
		      struct branch_found *ret, struct error *err);

/*
 * Check all of the file system without a change: @check->device may be
 * read-only.
 */
int branch_check_look(const struct branch_check *check,
		      struct branch_found *ret, struct error *err);

/*
 * Repair on a person's request: `e2fsck -fp`, or, once its log was replayed,
 * `xfs_repair`, which has no safe mode. Never UNCLEAN.
 */
int branch_check_repair(const struct branch_check *check,
			struct branch_found *ret, struct error *err);

/* Tell whether a mount may fail with @r because of the device's content. */
bool branch_check_is_damage(int r);

#endif
