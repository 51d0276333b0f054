/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/request_use.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* NULL: none. copy_file_range() uses two. */
static _Thread_local struct request_use *uses[2];
static _Thread_local bool watched;

void request_uses_begin(void)
{
	watched = true;
}

void request_uses(struct request_use *use)
{
	unsigned i = 0;

	/* A request that is not watched is not answered early. */
	while (watched && i < array_size(uses) && uses[i] != use && uses[i])
		i++;
	if (!watched || i == array_size(uses) || uses[i])
		return;
	atomic_fetch_add(&use->references, 1);
	uses[i] = use;
}

void request_use_drop(struct request_use *use)
{
	if (atomic_fetch_sub(&use->references, 1) == 1)
		use->free(use);
}

void request_uses_end(void)
{
	unsigned i;

	for (i = 0; i < array_size(uses) && uses[i]; i++) {
		request_use_drop(uses[i]);
		uses[i] = NULL;
	}
	watched = false;
}
