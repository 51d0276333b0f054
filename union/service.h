/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are being served, so that a branch whose calls do not
 * come back holds up nobody but who asks it.
 *
 * A thread looks at them once a second while there are any. For one that is
 * served for SERVICE_SLOW_MS another thread is started, so that requests for
 * other branches are taken. The branches that one met which takes longer than
 * the union's branch_timeout are tried, each by a thread of its own; one that
 * does not come back from that either within SERVICE_TRY_MS is failed
 * (ETIMEDOUT), and who waits for it gets EIO. When such a call comes back
 * after all its answer is not wanted any more: the kernel refuses it.
 */
#ifndef UNION_SERVICE_H
#define UNION_SERVICE_H

#include "union/unionfs.h"

#define SERVICE_SLOW_MS 1000
#define SERVICE_TRY_MS  5000

/*
 * Begin to watch. @more starts one more thread to serve requests, for the
 * rest of the time. 0 or -errno.
 */
int service_start(struct unionfs *fs, void (*more)(void *context),
		  void *context);
void service_stop(void);

/*
 * This thread serves a request of the kernel that names @nodes. @request is all
 * of it, borrowed until the end.
 */
void service_begin(uint64_t unique, const uint64_t *nodes, unsigned count,
		   const void *request, size_t length);

/* And is done. True: another took its place, so this one may end. */
bool service_end(void);

/* It serves no more. */
void service_leave(void);

/*
 * What a request uses of an open file or directory: one whose caller got EIO
 * goes on using it though the kernel closes it. Whoever has made it has one
 * of its references.
 */
struct service_use {
	atomic_uint references;
	void (*free)(struct service_use *use);
};

/* The request of this thread uses it until it ends. */
void service_uses(struct service_use *use);

/* Give back a reference; the last one frees it. */
void service_drop(struct service_use *use);

/* It calls that branch now. */
void service_meets(unsigned branch);

#endif
