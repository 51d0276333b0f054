/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_copies.h"

#include <string.h>
#include <sys/stat.h>

#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"

bool copy_has(const struct copy *copy, const struct handle *handle)
{
	return copy->handle_bytes == handle->length &&
	       copy->handle_type == handle->type &&
	       memcmp(copy->handle, handle->data, handle->length) == 0;
}

void copy_link(struct copy *copy)
{
	struct node *node = copy_node(copy);
	struct copy *next = node_copies(node);
	atomic_uint *at = &node->copies;

	while (next && next->branch <= copy->branch) {
		at = &next->next;
		next = copy_after(next);
	}
	atomic_store(&copy->next, next ? copy_how_far(next, node) : 0);
	atomic_store(at, copy->node_back);
}

/* A file has no other copy than that on a failed branch. */
struct copy *copy_live(struct copy *copy)
{
	copy = copy_there(copy);
	while (copy && !branch_usable(copy->branch) &&
	       S_ISDIR(copy_node(copy)->type))
		copy = copy_there(copy_after(copy));
	return copy;
}

void copy_lose(struct copy *copy)
{
	copy_set(copy, COPY_GONE, true);
	dir_fd_drop(copy);
}

struct copy *node_failed_copy(const struct node *node, const struct copy *after)
{
	struct copy *copy = copy_there(after ? copy_after(after)
					     : node_copies(node));

	if (!branch_any_doubted())
		return NULL;
	while (copy && branch_usable(copy->branch))
		copy = copy_there(copy_after(copy));
	return copy;
}

bool node_is_failed(const struct node *node)
{
	struct copy *copy = copy_there(node_copies(node));

	if (!copy || !branch_any_doubted())
		return false;
	while (copy && !branch_usable(copy->branch))
		copy = copy_there(copy_after(copy));
	return copy == NULL;
}

bool node_in_doubt(const struct node *node)
{
	return branch_any_doubted() && S_ISDIR(node->type) &&
	       atomic_load(&node->of.dir.doubt) == branch_doubt_mark();
}

struct copy *node_copy_on(const struct node *node, unsigned branch)
{
	struct copy *copy = node_first(node);

	while (copy && copy->branch != branch)
		copy = copy_next(copy);
	return copy;
}
