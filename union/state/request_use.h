/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open files and directories that a request uses. The watchdog (watchdog.h)
 * may answer a request's caller with an error. That request goes on using them,
 * though the kernel closes them.
 */
#ifndef UNION_REQUEST_USE_H
#define UNION_REQUEST_USE_H

#include <stdatomic.h>

/*
 * The first member of an open file or directory. A new one has one reference,
 * its maker's.
 */
struct request_use {
	atomic_uint references;
	void (*free)(struct request_use *use);
};

/*
 * Begin and end a request in this thread. The end gives back the objects used.
 */
void request_uses_begin(void);
void request_uses_end(void);

/* Keep @use for the request of this thread, until it ends. */
void request_uses(struct request_use *use);

/* Give back a reference; the last one frees it. */
void request_use_drop(struct request_use *use);

#endif
