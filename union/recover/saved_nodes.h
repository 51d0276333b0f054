/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes kept over an unmount. A file handle of the union (name_to_handle_at(2),
 * NFS) names a node by its id and generation, and the next mount must know it.
 * So a union that ends writes its nodes to a file in BRANCH_WORK_DIR of its
 * first branch that can be written. The file lives as long as the branch. Each
 * node has the handle of its first copy.
 *
 * The next mount begins with them as with forgotten nodes (forgotten.h). The
 * branch's file system says whether a handle is still valid. After a crash
 * there are the nodes of the last unmount, or none.
 */
#ifndef UNION_SAVED_NODES_H
#define UNION_SAVED_NODES_H

#include "union/view/unionfs.h"

/*
 * Write the nodes, when nobody is served any more. Nodes that cannot be written
 * are lost, which is logged.
 */
void saved_nodes_write(struct unionfs *fs);

/*
 * Read the nodes into the state memory of a new table, whose branches are
 * there: node_restore() is to follow. False: there is nothing.
 */
bool saved_nodes_read(struct unionfs *fs);

#endif
