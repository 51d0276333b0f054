/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/request_use.h"

#include <stddef.h>

void request_uses(struct request *request, struct request_use *use)
{
	unsigned i = 0;

	/* A request that is not watched is not answered early. */
	if (!request || !request->watched)
		return;
	while (i < REQUEST_USES && request->uses[i] && request->uses[i] != use)
		i++;
	if (i == REQUEST_USES || request->uses[i])
		return;
	atomic_fetch_add(&use->references, 1);
	request->uses[i] = use;
}

void request_use_drop(struct request_use *use)
{
	if (atomic_fetch_sub(&use->references, 1) == 1)
		use->free(use);
}

void request_uses_end(struct request *request)
{
	unsigned i;

	for (i = 0; i < REQUEST_USES && request->uses[i]; i++) {
		request_use_drop(request->uses[i]);
		request->uses[i] = NULL;
	}
	request->watched = false;
}
