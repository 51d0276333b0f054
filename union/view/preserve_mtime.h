/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes in one copy of a directory (a name is made there because a
 * file moves, a directory is cloned) and is not to be seen: its times stay.
 * Nor is it seen by who asks for them meanwhile (preserve_mtime_stat()), and
 * when the server is killed in between the next one sets them back.
 */
#ifndef UNION_PRESERVE_MTIME_H
#define UNION_PRESERVE_MTIME_H

#include "union/view/unionfs.h"

struct state;

struct preserve_mtime {
	struct handle handle;
	struct timespec shown;    /* its change time */
	struct timespec times[2]; /* access, modification */
	uint64_t mark;            /* naming_mark() of the directory */
	unsigned branch;
	struct quiet_slot *slot;     /* NULL: there was none left */
	struct preserve_mtime *next; /* of those that have begun */
};

/*
 * Before and after a change in the directory @fd (may be O_PATH) of @branch.
 * 0 or -errno; without a beginning there is no end, and after one there is:
 * also when nothing was changed then. If a user changes names in it meanwhile
 * the times stay what that made them. Of several at a time each sets back what
 * was before the first. Who may be changed quietly is not given other times
 * by a user meanwhile: that waits (dir_attr_lock.h, move_lock.h).
 *
 * @ret  until preserve_mtime_end(), in the same function
 */
int preserve_mtime_begin(struct unionfs *fs, unsigned branch, int fd,
			 struct preserve_mtime *ret);
void preserve_mtime_end(struct unionfs *fs, int fd,
			struct preserve_mtime *quietly);

/* It ends with the times of @st, of which the change time is what is shown. */
void preserve_mtime_show(struct preserve_mtime *quietly, const struct stat *st);

/*
 * stat of @copy of a directory, as unionfs_stat_copy(), with the times that
 * are to be seen.
 */
int preserve_mtime_stat(struct unionfs *fs, struct copy *copy,
			struct stat *ret);

/*
 * For what a server was killed in: first, before the nodes are restored, pass
 * over those in which a user changed names; then, when what was interrupted is
 * finished and before the first request, set the times back. Those on a branch
 * that cannot be used stay as they are.
 */
void preserve_mtime_take_over(struct state *state);
void preserve_mtime_restore(struct unionfs *fs);

#endif
