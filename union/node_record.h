/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a table as the state memory has them (state.h), so that the
 * next server can go on with them. Each of these does nothing when the table
 * has no such memory. The table's lock is held but where it says else.
 */
#ifndef UNION_NODE_RECORD_H
#define UNION_NODE_RECORD_H

#include "union/node.h"

/* @copy is new; it counts once its node does. 0 or -ENOMEM. */
int node_record_copy(struct node_table *table, struct copy *copy);

/* @node is to be known again: all of it is as it is to be. */
void node_record_new(struct node_table *table, const struct node *node);

/* Its count of lookups is another. */
void node_record_lookups(struct node_table *table, const struct node *node);

/* It is freed: before its copies are. */
void node_record_end(struct node_table *table, const struct node *node);
void node_record_copy_end(struct node_table *table, const struct copy *copy);

void node_record_buried(struct node_table *table, const struct node *node);
void node_record_gone(struct node_table *table, const struct copy *copy);

/*
 * @copy is about to be removed from its branch; or was not, after all. No lock
 * is needed: killed in between, it is the next server that looks.
 */
void node_record_going(struct node_table *table, const struct copy *copy,
		       bool going);

/* node_lock() is held, the table's need not be. */
void node_record_use(struct node_table *table, const struct node *node);
void node_record_quiet(struct node_table *table, const struct copy *copy,
		       const struct quiet_change *change);

/*
 * Build the empty @table as an earlier server left it. Nodes that the kernel
 * does not know sleep, or are left out; ids and generations are not used again.
 * Descriptors of buried nodes are those kept (keep.h). 0 or -ENOMEM.
 */
int node_restore(struct node_table *table);

#endif
