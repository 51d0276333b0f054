/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st_ino of the union: the branch's id in the top 8 bits, the branch's own
 * number below. So a number is the same after a remount, and two names of one
 * file share it. Branch 0 keeps its own numbers.
 */
#ifndef UNION_INODE_NUMBER_H
#define UNION_INODE_NUMBER_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Attribute that holds a number (8 bytes, little endian). A directory cloned to
 * another branch has the number of its original there. A file that moved to
 * another branch has its first number there.
 */
#define INODE_NUMBER_XATTR "trusted.tributary.ino"

/*
 * Make the union's number of a branch's.
 *
 * @branch  0 to 255
 * @ino     a number of that branch; one past 56 bits is folded by a hash,
 *          since it must share the space with the branch
 */
#define INODE_NUMBER_SHIFT 56
#define INODE_NUMBER_MASK  ((UINT64_C(1) << INODE_NUMBER_SHIFT) - 1)
uint64_t inode_number_fold(uint64_t ino);
static inline uint64_t inode_number(unsigned branch, uint64_t ino)
{
	assert(branch < 256);
	if (ino > INODE_NUMBER_MASK)
		ino = inode_number_fold(ino);
	return (uint64_t)branch << INODE_NUMBER_SHIFT | ino;
}

/*
 * Make the number of a file system that has taken the place of another one
 * @turn times: below the branch come 8 bits of the turn, 1 to 255. Turn 0 is
 * inode_number(). So its numbers are none that the one before it gave, as long
 * as those were below 2^48.
 */
#define INODE_TURN_SHIFT 48
#define INODE_TURN_MAX   255u
uint64_t inode_number_of_turn(unsigned place, unsigned turn, uint64_t ino);

/* Number that users see: mergerfs's inodecalc. */
enum inode_calc {
	INODE_CALC_OWN,  /* the number above: hybrid-hash, devino-hash */
	INODE_CALC_PASS, /* the branch's: passthrough */
	INODE_CALC_PATH, /* of the path, and nothing else: path-hash */
};

struct inode_shown {
	enum inode_calc calc;
	bool narrow; /* 32 bits: for programs that know no others */
};

/* Parse the option's value; false: no such value is known. */
bool inode_shown_parse(const char *value, struct inode_shown *ret);

/*
 * Map @number to what users see, unless inode_shown.calc is INODE_CALC_PATH. Of
 * narrow numbers, those of the first 128 branches below 2^24 stay distinct. The
 * others are hashes, two of which can be the same.
 */
uint64_t inode_shown_narrow(uint64_t number);
static inline uint64_t inode_shown(const struct inode_shown *how,
				   uint64_t number)
{
	if (how->calc == INODE_CALC_PASS)
		return number & INODE_NUMBER_MASK;
	return how->narrow ? inode_shown_narrow(number) : number;
}

/* Hash @path below the union's root: "a/b", "" for the root. Never 0. */
uint64_t inode_shown_path(const struct inode_shown *how, const char *path);

/* Get the id of the branch that gave @number. */
static inline unsigned inode_number_branch(uint64_t number)
{
	return (unsigned)(number >> INODE_NUMBER_SHIFT);
}

/*
 * Read the number that @name in @dirfd carries in its attribute. @name "" is
 * @dirfd itself, which may be O_PATH. -ENODATA: there is no attribute.
 */
int inode_number_read(int dirfd, const char *name, uint64_t *ret);

/* Give the inode @fd (may be O_PATH) that attribute. */
int inode_number_write(int fd, uint64_t number);

#endif
