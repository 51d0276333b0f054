/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A description by which replay_test.c compares branches: all but times and
 * numbers.
 */
#ifndef UNION_REPLAY_TREE_H
#define UNION_REPLAY_TREE_H

#include <stddef.h>

struct replay_tree {
	char data[4096];
	size_t used;
};

/*
 * Describe the content of the directory @top. A test that cannot tell has
 * failed.
 */
void replay_tree_describe(const char *top, struct replay_tree *tree);

#endif
