/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of directories' copies that are not to be seen: struct quiet_change.
 */
#include "union/node/node.h"
#include "union/node/node_index.h"
#include "union/state/state.h"
#include "union/sys/attrs.h"

/* Guarded by node_lock(). */
static struct quiet_change *change_of(const struct node_table *table,
				      const struct copy *copy)
{
	return &table->state->quiet[copy_place(table, copy) - 1];
}

/* Find a copy, also one that is not in its place yet. */
static struct copy *find_copy(const struct node *node, unsigned branch,
			      const struct handle *handle)
{
	struct copy *copy = node_copies(node);

	while (copy && (copy->branch != branch || copy_is(copy, COPY_GONE) ||
			!copy_has(copy, handle)))
		copy = copy_after(copy);
	return copy;
}

void preserve_ctime_change(struct node_table *table, unsigned branch,
			   const struct handle *handle,
			   const struct quiet_change *change)
{
	struct node *node = node_hold(table, branch, handle);
	struct copy *copy = node ? find_copy(node, branch, handle) : NULL;

	if (copy) {
		node_lock(table, node);
		/* After a kill here the next server ignores the record. */
		copy_set(copy, COPY_QUIETENED, true);
		*change_of(table, copy) = *change;
		copy_set(copy, COPY_QUIET, true);
		copy_set(copy, COPY_QUIETENED, false);
		node_unlock(table, node);
	}
	if (node)
		node_let_go(table, node);
}

struct timespec preserve_ctime_shown(struct node_table *table,
				     const struct copy *copy,
				     const struct stat *st)
{
	const struct quiet_change *quiet = change_of(table, copy);
	const struct node *node = copy_node(copy);
	struct timespec shown = st->st_ctim;

	if (!copy_is(copy, COPY_QUIET))
		return shown;
	node_lock(table, node);
	if (time_equal(&quiet->after, &st->st_ctim) &&
	    time_equal(&quiet->modified, &st->st_mtim))
		shown = quiet->shown;
	node_unlock(table, node);
	return shown;
}
