/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of a node: one with a dir pool "a" of 64 MiB, in a directory that
 * is made and removed here.
 */
#ifndef BLOCKD_NODE_KIT_H
#define BLOCKD_NODE_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "blockd/node/node.h"

#define CAPACITY (64 * MIB) /* bytes, of pool "a" */

struct kit {
	char dir[64];
	char path[128]; /* the last one that node_kit_at() made */
	struct node *node;
};

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, node_kit_setup, node_kit_teardown)

/* Of cmocka. */
int node_kit_setup(void **state);
int node_kit_teardown(void **state);

/* The path of something in the directory, until the next call. */
const char *node_kit_at(struct kit *k, const char *name);
/* k->node, which was freed. */
void node_kit_start(struct kit *k);
void node_kit_restart(struct kit *k);
/* @dir: in the directory. It is made a pool of CAPACITY if it is empty. */
int node_kit_add_pool(struct kit *k, const char *name, const char *dir,
		      struct error *err);
/* An extent of zeroes, in "a". */
int node_kit_create(struct kit *k, const char *name, uint64_t size,
		    struct error *err);
/* A reference; NULL: there is none. */
struct extent *node_kit_find(struct kit *k, const char *name);
struct node_pool_info node_kit_info(struct kit *k, const char *pool);
/*
 * Tell whether the extent is there, and damaged, for a reason that has @why in
 * it.
 */
bool node_kit_damaged(struct kit *k, const char *name, const char *why);
void node_kit_put_file(struct kit *k, const char *name, const char *text);

#endif
