/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who changes attributes of a directory changes all its copies; who makes
 * another copy gives it what the first one has, and then says that it is
 * there. They take turns, one at a time for each directory, or a copy that is
 * made meanwhile would keep what was before.
 *
 * Who has the turn of a directory may take that of the one it is in, not the
 * other way round. It is not needed by who holds their gates (move_lock.h)
 * alone.
 */
#ifndef UNION_DIR_ATTR_LOCK_H
#define UNION_DIR_ATTR_LOCK_H

#include <stdint.h>

struct dir_attr_lock {
	uint64_t id;
	struct dir_attr_lock *next; /* of those that are taken */
};

/*
 * @turn  until dir_attr_lock_give(), in the same function
 * @id    of the directory's node, which is held so long
 */
void dir_attr_lock_take(struct dir_attr_lock *turn, uint64_t id);
void dir_attr_lock_give(struct dir_attr_lock *turn);

#endif
