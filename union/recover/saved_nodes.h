/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes over an unmount: who has a file handle of the union
 * (name_to_handle_at(2), NFS) names a node by its id and generation, and the
 * next mount is to know it. So a union that ends writes those it knows to
 * /var/lib/tributary/handles, a file for the branches in their order, each with
 * the handle of its first copy, and the next begins with them as with nodes
 * that sleep (node_sleep.h). The branch's file system says whether a handle
 * still is what it was. After a crash there are those of the last unmount, or
 * none.
 */
#ifndef UNION_SAVED_NODES_H
#define UNION_SAVED_NODES_H

#include "union/view/unionfs.h"

/* Nobody is served any more. What cannot be written is lost, and logged. */
void saved_nodes_write(struct unionfs *fs);

/*
 * Into the state memory of a new table, whose branches are there:
 * node_restore() is to follow. False: there is nothing.
 */
bool saved_nodes_read(struct unionfs *fs);

#endif
