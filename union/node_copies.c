/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node_copies.h"

#include <sys/stat.h>

#include "union/branch_health.h"

struct copy *copy_there(struct copy *copy)
{
	while (copy && atomic_load(&copy->gone))
		copy = atomic_load(&copy->next);
	return copy;
}

/* A file has no other copy: who opens it is told. */
static struct copy *live(struct copy *copy)
{
	copy = copy_there(copy);
	while (copy && !branch_usable(copy->branch) &&
	       S_ISDIR(copy->node->type))
		copy = copy_there(atomic_load(&copy->next));
	return copy;
}

struct copy *node_failed_copy(const struct node *node, const struct copy *after)
{
	struct copy *copy = copy_there(after ? atomic_load(&after->next)
					     : atomic_load(&node->copies));

	if (!branch_any_doubted())
		return NULL;
	while (copy && branch_usable(copy->branch))
		copy = copy_there(atomic_load(&copy->next));
	return copy;
}

bool node_is_failed(const struct node *node)
{
	struct copy *copy = copy_there(atomic_load(&node->copies));

	if (!copy || !branch_any_doubted())
		return false;
	while (copy && !branch_usable(copy->branch))
		copy = copy_there(atomic_load(&copy->next));
	return copy == NULL;
}

bool node_in_doubt(const struct node *node)
{
	return branch_any_doubted() &&
	       atomic_load(&node->doubt) == branch_doubt_mark();
}

struct copy *node_first(const struct node *node)
{
	return live(atomic_load(&node->copies));
}

struct copy *copy_next(const struct copy *copy)
{
	return live(atomic_load(&copy->next));
}

struct copy *node_copy_on(const struct node *node, unsigned branch)
{
	struct copy *copy = node_first(node);

	while (copy && copy->branch != branch)
		copy = copy_next(copy);
	return copy;
}
