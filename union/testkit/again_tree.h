/* SPDX-License-Identifier: Apache-2.0 */
/* What again_test.c compares branches by: all but times and numbers. */
#ifndef UNION_AGAIN_TREE_H
#define UNION_AGAIN_TREE_H

#include <stddef.h>

struct again_tree {
	char data[4096];
	size_t used;
};

/* What is in the directory @top. A test that cannot tell has failed. */
void again_tree_describe(const char *top, struct again_tree *tree);

#endif
