/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of directories' copies that are not to be seen: struct quiet_change.
 */
#include <stdlib.h>

#include "union/node.h"
#include "union/node_record.h"

void node_change_quietly(struct node_table *table, unsigned branch,
			 const struct handle *handle,
			 const struct quiet_change *change)
{
	struct node *node = node_hold(table, branch, handle);
	struct copy *copy = node ? node_copy_on(node, branch) : NULL;
	struct quiet_change *quiet;

	if (copy) {
		node_lock(table, node);
		quiet = atomic_load(&copy->quiet);
		if (!quiet)
			quiet = malloc(sizeof(*quiet));
		if (quiet) {
			*quiet = *change;
			node_record_quiet(table, copy, quiet);
		}
		atomic_store(&copy->quiet, quiet);
		node_unlock(table, node);
	}
	if (node)
		node_let_go(table, node);
}

struct timespec node_shown_ctime(struct node_table *table,
				 const struct copy *copy,
				 const struct timespec *ctime)
{
	const struct quiet_change *quiet = atomic_load(&copy->quiet);
	struct timespec shown = *ctime;

	if (!quiet)
		return shown;
	node_lock(table, copy->node);
	if (quiet->after.tv_sec == ctime->tv_sec &&
	    quiet->after.tv_nsec == ctime->tv_nsec)
		shown = quiet->shown;
	node_unlock(table, copy->node);
	return shown;
}
