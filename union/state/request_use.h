/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open files and directories that a request uses. The watchdog (watchdog.h)
 * may answer a request's caller with an error. That request goes on using them,
 * though the kernel closes them.
 */
#ifndef UNION_REQUEST_USE_H
#define UNION_REQUEST_USE_H

#include <stdatomic.h>

#include "union/state/request.h"

/*
 * The first member of an open file or directory. A new one has one reference,
 * its maker's.
 */
struct request_use {
	atomic_uint references;
	void (*free)(struct request_use *use);
};

/* Keep @use for the request, if it is watched, until the second. */
void request_uses(struct request *request, struct request_use *use);
void request_uses_end(struct request *request);

/* Give back a reference; the last one frees it. */
void request_use_drop(struct request_use *use);

#endif
