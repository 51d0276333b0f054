/* SPDX-License-Identifier: Apache-2.0 */
/* What replay_test.c compares branches by: all but times and numbers. */
#ifndef UNION_REPLAY_TREE_H
#define UNION_REPLAY_TREE_H

#include <stddef.h>

struct replay_tree {
	char data[4096];
	size_t used;
};

/* What is in the directory @top. A test that cannot tell has failed. */
void replay_tree_describe(const char *top, struct replay_tree *tree);

#endif
