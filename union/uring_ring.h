/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring of one thread that serves: commands of /dev/fuse go out, a
 * completion says that the kernel has put a request into the thread's entry.
 */
#ifndef UNION_URING_RING_H
#define UNION_URING_RING_H

#include <liburing.h>

#include "union/uring_entry.h"

struct uring_ring {
	struct io_uring io;
};

/*
 * In the thread that will use it. 0 or -errno: -EPERM where io_uring is
 * forbidden (sysctl kernel.io_uring_disabled), -EMFILE, ...
 *
 * @fd  of /dev/fuse; borrowed
 */
int uring_ring_init(struct uring_ring *ring, int fd);
void uring_ring_done(struct uring_ring *ring);

/*
 * Make @entry known to the kernel, for its queue. 0 or -errno, also that of
 * the kernel: it does not want it, and no request will come.
 */
int uring_ring_register(struct uring_ring *ring,
			const struct uring_entry *entry);

/* Have it give back the reply in @entry; it leaves with the next wait. */
void uring_ring_commit(struct uring_ring *ring, const struct uring_entry *entry,
		       uint64_t commit_id);

/* Let it leave now. 0 or -errno. */
int uring_ring_flush(struct uring_ring *ring);

/*
 * Wait for a request. 0; or -errno, of the kernel, too: -ENOTCONN once the
 * file system is unmounted.
 */
int uring_ring_wait(struct uring_ring *ring);

#endif
