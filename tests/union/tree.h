/* SPDX-License-Identifier: Apache-2.0 */
/* Whole directory trees: made at random, copied as merged, described. */
#ifndef TESTS_UNION_TREE_H
#define TESTS_UNION_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_BRANCHES_MAX 16

/* "@dir/@name" into @buf of PATH_MAX bytes. Aborts where that is too short. */
void tree_path(char *buf, const char *dir, const char *name);

/*
 * All below @path but @path itself goes away, also what is immutable. 0 or
 * -errno.
 */
int tree_clear(const char *path);

/*
 * Fill the directories @branches with names that overlap, and the directory
 * @plain with what a union of them, the lowest first, is to show. @lanes
 * empty directories "laneN" are in the first.
 */
int tree_populate(uint64_t seed, char *const *branches, unsigned count,
		  unsigned lanes, const char *plain);

/*
 * Text of all below @path, a line for each name. A line has type, mode, owner,
 * links, size, content, attributes, times that calls set, and the names of the
 * same inode. Trees that are alike give the same text. @numbers: and inode
 * numbers. Returned owned; NULL: errno.
 */
char *tree_describe(const char *path, bool numbers);

/* The first line that differs, for people. */
void tree_difference(const char *a, const char *b, char *buf, size_t size);

#endif
