/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mounted inside a branch is no part of it: its names are other file
 * systems', or of this one once more. The handle of such a name is opened on
 * the branch, so it would be another file, or none. So a name that something
 * is mounted on is absent: it is in no listing, and nothing walks through it.
 *
 * So it is with a subvolume of a Btrfs, which has numbers of its own and cannot
 * be linked or renamed into. It may be made at any time.
 */
#ifndef UNION_SUBMOUNT_H
#define UNION_SUBMOUNT_H

#include "union/branch/branch.h"

/*
 * handle_get() of @name in @dirfd, a directory of @branch; -EXDEV: something
 * is mounted there.
 */
int submount_handle_get(const struct branch *branch, int dirfd,
			const char *name, struct handle *ret);

/* What a placeholder of a subvolume has as its number. */
#define SUBMOUNT_PLACEHOLDER 2 /* Btrfs' BTRFS_EMPTY_SUBVOL_DIR_OBJECTID */

/* Is something mounted on @name in the directory @dirfd? */
bool submount_is_on(int dirfd, const char *name);

/*
 * openat(2) that is -EXDEV where something is mounted. A descriptor, or -errno.
 * O_CLOEXEC is added. The second makes the file when it is not there.
 */
int submount_open_none(int dirfd, const char *path, int flags);
int submount_create_none(int dirfd, const char *name, int flags, mode_t mode);

/*
 * Of which names in a list it is worth to ask, inside @branch? The kernel's
 * table of mounts is read when it has changed; if there is no /proc: of all.
 */
enum mounted {
	SUBMOUNT_NOWHERE,
	SUBMOUNT_ON_DIRS, /* there may be subvolumes */
	SUBMOUNT_ANYWHERE,
};
enum mounted submount_inside(struct branch *branch);

/* Is @name, of @type (DT_DIR and the like), left out of a list for that? */
bool submount_hides(enum mounted inside, int dirfd, const char *name,
		    unsigned char type);

/* A path as mountinfo has it, in place: a space is "\\040" there (proc(5)). */
void submount_unescape(char *path);

#endif
