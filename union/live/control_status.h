/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_CONTROL_STATUS_H
#define UNION_CONTROL_STATUS_H

#include "union/live/drain.h"
#include "union/view/unionfs.h"

/*
 * Make the reply to `status`: a JSON object, owned (docs/union.md). NULL:
 * ENOMEM.
 */
char *control_status(struct unionfs *fs, const char *mountpoint);

/* Make the reply to `policy`: the policies and minfreespace alone. */
char *control_policies(struct unionfs *fs);

/* Make a short status, for user.tributary.stats. */
char *control_stats(struct unionfs *fs);

struct json_object;

/*
 * Add @value (taken; NULL is null) to @object as @name. Without memory the
 * value is lost.
 */
void json_add(struct json_object *object, const char *name,
	      struct json_object *value);

#endif
