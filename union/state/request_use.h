/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open files and directories that a request uses. One whose caller got an
 * error from the watching thread (watchdog.h) goes on using them, though the
 * kernel closes them.
 */
#ifndef UNION_REQUEST_USE_H
#define UNION_REQUEST_USE_H

#include <stdatomic.h>

/* The first member of an open file or directory. Its maker has a reference. */
struct request_use {
	atomic_uint references;
	void (*free)(struct request_use *use);
};

/*
 * This thread serves a request from now on; and no more: what it uses is given
 * back.
 */
void request_uses_begin(void);
void request_uses_end(void);

/* The request of this thread uses it until it ends. */
void request_uses(struct request_use *use);

/* Give back a reference; the last one frees it. */
void request_use_drop(struct request_use *use);

#endif
