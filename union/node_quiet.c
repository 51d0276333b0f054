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

static bool is_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

struct timespec node_shown_ctime(struct node_table *table,
				 const struct copy *copy, const struct stat *st)
{
	const struct quiet_change *quiet = atomic_load(&copy->quiet);
	struct timespec shown = st->st_ctim;

	if (!quiet)
		return shown;
	node_lock(table, copy->node);
	if (is_time(&quiet->after, &st->st_ctim) &&
	    is_time(&quiet->modified, &st->st_mtim))
		shown = quiet->shown;
	node_unlock(table, copy->node);
	return shown;
}
