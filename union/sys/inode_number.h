/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st_ino of the union: the branch's id in the top 8 bits, the branch's own
 * number below, so that it is the same after a remount and two names of one
 * file share it. Branch 0 keeps its own numbers.
 */
#ifndef UNION_INODE_NUMBER_H
#define UNION_INODE_NUMBER_H

#include <stdbool.h>
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

/* What is shown of it: mergerfs's inodecalc. */
enum inode_calc {
	INODE_CALC_OWN,  /* the number above: hybrid-hash, devino-hash */
	INODE_CALC_PASS, /* the branch's: passthrough */
	INODE_CALC_PATH, /* of the path, and nothing else: path-hash */
};

struct inode_shown {
	enum inode_calc calc;
	bool narrow; /* 32 bits: for programs that know no others */
};

/* By the option's value; false: there is no such one. */
bool inode_shown_parse(const char *value, struct inode_shown *ret);

/*
 * What is shown of @number, unless it is of a path. Narrow ones: of the first
 * 128 branches' numbers below 2^24 each has its own; the others are hashes, two
 * of which can be the same.
 */
uint64_t inode_shown(const struct inode_shown *how, uint64_t number);

/* Of @path below the union's root, "a/b", "" for the root. Never 0. */
uint64_t inode_shown_path(const struct inode_shown *how, const char *path);

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
