/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes in one copy of a directory that are not to be seen: the times stay.
 * For example a name is made there because a file moves, or a directory is
 * cloned. A stat meanwhile does not show the change either
 * (preserve_mtime_stat()). After a kill in between the next server sets the
 * times back.
 */
#ifndef UNION_PRESERVE_MTIME_H
#define UNION_PRESERVE_MTIME_H

#include "union/view/unionfs.h"

struct state;

struct preserve_mtime {
	struct handle handle;
	struct timespec shown;    /* its change time */
	struct timespec times[2]; /* access, modification */
	uint64_t mark;            /* names_change_mark() of the directory */
	unsigned branch;
	struct quiet_slot *slot;     /* NULL: there was none left */
	struct preserve_mtime *next; /* of those that have begun */
};

/*
 * Begin and end a change in the directory @fd (may be O_PATH) of @branch. 0 or
 * -errno; after an error there is no end. After a beginning there is always an
 * end, even if nothing was changed. If a user changes names in it meanwhile,
 * the times of that stay. Of several changes at a time each sets back the times
 * from before the first. No user sets other times meanwhile: that waits
 * (dir_attr_lock.h, migrate_lock.h).
 *
 * @ret  until preserve_mtime_end(), in the same function
 */
int preserve_mtime_begin(struct unionfs *fs, unsigned branch, int fd,
			 struct preserve_mtime *ret);
void preserve_mtime_end(struct unionfs *fs, int fd,
			struct preserve_mtime *quietly);

/* Let the change end with the times of @st, whose change time is then shown. */
void preserve_mtime_show(struct preserve_mtime *quietly, const struct stat *st);

/*
 * Get the stat of @copy of a directory, as unionfs_stat_copy(), with the times
 * that are to be seen.
 */
int preserve_mtime_stat(struct unionfs *fs, struct copy *copy,
			struct stat *ret);

/*
 * Take over the changes that a killed server was in. The first function is
 * called before the nodes are restored. It passes over directories in which a
 * user changed names. The second sets the times back, after interrupted
 * requests are finished and before the first request. Times on a branch that
 * cannot be used stay as they are.
 */
void preserve_mtime_take_over(struct state *state);
void preserve_mtime_restore(struct unionfs *fs);

#endif
