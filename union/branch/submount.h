/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts inside a branch, which are no part of it. The names below a mount are
 * of another file system, or of this one once more. Their handles, opened on
 * the branch, would give another file, or none. So a mount point is absent: it
 * is in no listing, and nothing walks through it.
 *
 * The same holds for a subvolume of a Btrfs, which has numbers of its own and
 * cannot be linked or renamed into. A subvolume may be made at any time.
 */
#ifndef UNION_SUBMOUNT_H
#define UNION_SUBMOUNT_H

#include "union/branch/branch.h"

/*
 * Get the handle of @name in @dirfd, a directory of @branch, by handle_get();
 * -EXDEV: something is mounted there.
 */
int submount_handle_get(const struct branch *branch, int dirfd,
			const char *name, struct handle *ret);

/* Inode number of a placeholder of a subvolume. */
#define SUBMOUNT_PLACEHOLDER 2 /* Btrfs' BTRFS_EMPTY_SUBVOL_DIR_OBJECTID */

/* Is something mounted on @name in the directory @dirfd? */
bool submount_is_on(int dirfd, const char *name);

/*
 * Open by openat(2), but fail with -EXDEV where something is mounted. A
 * descriptor, or -errno. O_CLOEXEC is added. The second makes the file when it
 * is not there.
 */
int submount_open_none(int dirfd, const char *path, int flags);
int submount_create_none(int dirfd, const char *name, int flags, mode_t mode);

/*
 * Which names in a list have to be asked for mounts, inside @branch? The
 * kernel's table of mounts is read when it has changed. Without /proc all names
 * are asked.
 */
enum mounted {
	SUBMOUNT_NOWHERE,
	SUBMOUNT_ON_DIRS, /* there may be subvolumes */
	SUBMOUNT_ANYWHERE,
};
enum mounted submount_inside(struct branch *branch);

/*
 * Is @name, of @type (DT_DIR and the like), left out of a list as a mount
 * point?
 */
bool submount_hides(enum mounted inside, int dirfd, const char *name,
		    unsigned char type);

/* Decode a path of mountinfo in place: a space is "\\040" there (proc(5)). */
void submount_unescape(char *path);

#endif
