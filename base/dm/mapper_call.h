/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of mapper.h by libdevmapper, made by the calling process itself. A
 * change may wait without a limit, so only trib-dm and trib-freeze make
 * changes. mapper_kernel reads.
 */
#ifndef BASE_MAPPER_CALL_H
#define BASE_MAPPER_CALL_H

#include "base/dm/mapper.h"

#define MAPPER_PROGRAM "trib-dm"

/* Changes that a process of its own makes: their name on its command line. */
enum mapper_change {
	MAPPER_CHANGE_CREATE,
	MAPPER_CHANGE_LOAD,
	MAPPER_CHANGE_SUSPEND,
	MAPPER_CHANGE_RESUME,
	MAPPER_CHANGE_CLEAR,
	MAPPER_CHANGE_REMOVE,
	MAPPER_CHANGES,
};
extern const char *const mapper_change_names[MAPPER_CHANGES];

struct mapper_change_request {
	enum mapper_change change;
	const char *name; /* create */
	const char *uuid;
	unsigned flags;
	int retry_ms;                     /* remove: of a device in use */
	const struct mapper_table *table; /* create, load */
};

/* Make a change. Errors as in mapper.h, without a limit. */
int mapper_call_change(const struct mapper_change_request *request,
		       struct error *err);

/* Test for the driver and its targets; loads no module. -ENODEV. */
int mapper_call_probe(struct error *err);

int mapper_call_get(const char *uuid, struct mapper_device *ret,
		    struct error *err);
int mapper_call_read(const char *uuid, bool inactive, struct mapper_table *ret,
		     struct error *err);
int mapper_call_list(const char *prefix, struct mapper_device **ret,
		     size_t *ret_count, struct error *err);

#endif
