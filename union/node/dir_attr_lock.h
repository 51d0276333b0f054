/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns at the attributes of a directory, one at a time for each. A change of
 * attributes changes all copies of a directory. A new copy gets those of the
 * first one, and is then known. Without turns, a copy made during a change
 * would keep the old attributes.
 *
 * The holder of a directory's turn may take that of its parent, not the other
 * way round. A thread that holds their locks (migrate_lock.h) alone needs no
 * turn.
 */
#ifndef UNION_DIR_ATTR_LOCK_H
#define UNION_DIR_ATTR_LOCK_H

#include <stdint.h>

struct dir_attr_lock {
	uint64_t id;
	struct dir_attr_lock *next; /* of those that are taken */
};

/*
 * Take and give the turn of a directory.
 *
 * @turn  until dir_attr_lock_give(), in the same function
 * @id    of the directory's node, which is held so long
 */
void dir_attr_lock_take(struct dir_attr_lock *turn, uint64_t id);
void dir_attr_lock_give(struct dir_attr_lock *turn);

#endif
