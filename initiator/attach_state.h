/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory of attachments, locked, and one attachment in it. */
#ifndef INITIATOR_ATTACH_STATE_H
#define INITIATOR_ATTACH_STATE_H

#include <limits.h>

#include "initiator/transport/transport.h"

/* The state directory, locked until it is closed. */
struct attach_state {
	char path[PATH_MAX];
	int dirfd;
	int lock;
	int held; /* mapper_kernel_hold() before */
};

#define ATTACH_STATE_CLOSED             \
	{                               \
		.dirfd = -1, .lock = -1 \
	}

void attach_state_close(struct attach_state *s);
#define auto_attach_state auto_cleanup(attach_state_close)

/*
 * Open and lock a state directory.
 *
 * @make       make it if it is missing; else: -ENOENT
 * @operation  of flock(2)
 */
int attach_state_open(struct attach_state *s, const char *path, bool make,
		      int operation, struct error *err);

/* Let @a be attachment @id of it, not yet loaded. */
int attach_state_name(struct attachment *a, const struct attach_state *s,
		      const char *id, struct error *err);

/* Do both. -EINVAL: no id. */
int attach_state_begin(struct attachment *a, struct attach_state *s,
		       const char *state_dir, const char *id, bool make,
		       int operation, struct error *err);

/*
 * Load the record of @a, or an empty one. Returns 1 (there is one), 0 (none, or
 * a damaged one: leftovers are found by their tag) or an error.
 */
int attach_state_load(struct attachment *a, struct error *err);

#endif
