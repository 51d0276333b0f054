/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st_ino of the union: the branch's id in the top 8 bits, the branch's own
 * number below, so that it is the same after a remount and two names of one
 * file share it. Branch 0 keeps its own numbers.
 */
#ifndef UNION_INODE_NUMBER_H
#define UNION_INODE_NUMBER_H

#include <stdint.h>

/*
 * A directory made on another branch to hold a file there answers to the
 * number of the directory it is a copy of, and a file that moved to another
 * branch to its first; this attribute holds it (8 bytes, little endian).
 */
#define INODE_NUMBER_XATTR "trusted.tributary.ino"

/*
 * @branch  0 to 255
 * @ino     a number of that branch; one past 56 bits is folded by a hash,
 *          since it must share the space with the branch
 */
uint64_t inode_number(unsigned branch, uint64_t ino);

/* The branch that gave it. */
static inline unsigned inode_number_branch(uint64_t number)
{
	return (unsigned)(number >> 56);
}

/*
 * The number that @name in @dirfd (@name "" : @dirfd itself,
 * which may be O_PATH) carries in its attribute. -ENODATA when it carries
 * none.
 */
int inode_number_read(int dirfd, const char *name, uint64_t *ret);

/* Give the inode @fd (may be O_PATH) that attribute. */
int inode_number_write(int fd, uint64_t number);

#endif
