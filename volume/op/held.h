/* SPDX-License-Identifier: Apache-2.0 */
/* What all nodes of the store have, asked at the same time. */
#ifndef VOLUME_HELD_H
#define VOLUME_HELD_H

#include "volume/op/context.h"

/* What one node has. */
struct held {
	char node[RECORD_NAME_SIZE];
	bool has_none; /* it only uses volumes: there is nothing to ask */
	/* It answered, by that name. */
	bool asked;
	struct node_extent *extents; /* owned */
	size_t n_extents;
};

/* @ret: owned, held_free(). One that does not answer is no error. */
int held_ask(struct volume_context *ctx, struct held **ret, size_t *ret_count,
	     struct error *err);
void held_free(struct held *held, size_t count);

/* Those that could not be asked. */
size_t held_unreachable(const struct held *held, size_t count);

/* The extent @id of volume @uid, on whichever node but @not_on; or NULL. */
const struct node_extent *held_find(const struct held *held, size_t count,
				    const char *uid, const char *id,
				    const char *not_on);

#endif
