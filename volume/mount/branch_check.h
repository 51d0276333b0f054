/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the file system of a split whole, and can it be made so? What it says of
 * itself, and what e2fsck(8) and xfs_repair(8) find. None of them is ended
 * because it takes long; what is stopped begins anew the next time.
 */
#ifndef VOLUME_BRANCH_CHECK_H
#define VOLUME_BRANCH_CHECK_H

#include <stdbool.h>

#include "base/error.h"

#define BRANCH_FOUND_SIZE 200 /* bytes with NUL; what was found first */

struct branch_check {
	const char *device; /* nobody else has it open */
	const char *type;   /* "ext4" or "xfs" */
	/*
	 * A directory, made if missing, where nothing is mounted: XFS is,
	 * while its log is replayed. NULL: there is none, and it is not
	 * looked at whole.
	 */
	const char *target;
	/* All of it, though nothing on it says that it has to be. */
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
 * Does it say of itself that it has to be checked, or that it was not
 * unmounted, in its superblock? Of XFS's log that does not tell.
 */
int branch_check_due(const char *device, const char *type, bool *ret,
		     struct error *err);

/*
 * Before it is mounted for writing: replay what a crash left, and mend what
 * takes no decision. ext4 by `e2fsck -p`, which looks at all of it where it
 * says that there were errors. XFS is replayed by its mount; only when @whole
 * that is done here, and `xfs_repair -n` looks at it.
 *
 * 0, and SOUND, MENDED or DAMAGED: that needs a person. Errors: it could not
 * be found out, as for want of the program.
 */
int branch_check_mend(const struct branch_check *check,
		      struct branch_found *ret, struct error *err);

/* Look at all of it, change nothing: @check->device may be read-only. */
int branch_check_look(const struct branch_check *check,
		      struct branch_found *ret, struct error *err);

/*
 * A person wants it repaired: `e2fsck -fp`, or, after its log was replayed,
 * `xfs_repair`, which knows nothing less. Never UNCLEAN.
 */
int branch_check_repair(const struct branch_check *check,
			struct branch_found *ret, struct error *err);

/* May a mount fail so (a negative errno) because of what is on the device? */
bool branch_check_is_damage(int r);

#endif
