/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of one entry: commands of /dev/fuse go out, a completion says that the
 * kernel has put a request into the entry. There are two kinds:
 *
 * - one of a thread's own, which is the fastest and ends with it;
 * - one that is kept for the next server (uring_kept.h). It is not of one
 *   thread: who has the entry has the ring.
 */
#ifndef UNION_URING_RING_H
#define UNION_URING_RING_H

#include <liburing.h>
#include <stdbool.h>

#include "union/uring_entry.h"
#include "union/uring_record.h"

struct uring_ring {
	struct io_uring io;
	bool kept;
};

/*
 * One of the thread's own, in the thread that will use it. 0 or -errno: -EPERM
 * where io_uring is forbidden (sysctl kernel.io_uring_disabled), -EMFILE, ...
 *
 * @fd  of /dev/fuse; borrowed
 */
int uring_ring_init(struct uring_ring *ring, int fd);

/*
 * Make one that is kept, by the process that keeps it. A descriptor, or -errno
 * as above.
 *
 * @with        one whose thread it shares; -1: it gets a thread, on any CPU
 * @ret_params  what uring_ring_open() needs
 */
int uring_ring_make_kept(int with, struct io_uring_params *ret_params);

/*
 * Use one that is kept: as it was left. 0 or -errno.
 *
 * @kept  its descriptor; borrowed for the call
 * @fd    of /dev/fuse; borrowed
 */
int uring_ring_open(struct uring_ring *ring, int kept,
		    const struct io_uring_params *params, int fd);

/* One that is kept stays as it is. */
void uring_ring_done(struct uring_ring *ring);

/* Of one that is kept. Counted since it was made. */
struct uring_counts uring_ring_counts(const struct uring_ring *ring);

/* Of one that is kept: is there a command that the kernel has not taken? */
bool uring_ring_is_unsent(const struct uring_ring *ring);

/* The completions that are there are known: none of them is waited for. */
void uring_ring_skip(struct uring_ring *ring);

/*
 * Make @entry known to the kernel, for its queue. 0 or -errno, also that of
 * the kernel: it does not want it, and no request will come. -EOWNERDEAD: the
 * process that kept the ring is gone, and nobody looks after it.
 */
int uring_ring_register(struct uring_ring *ring,
			const struct uring_entry *entry);

/*
 * Have it give back the reply in @entry; it leaves with the next wait. By a
 * ring that is kept it leaves though this process ends now.
 */
void uring_ring_commit(struct uring_ring *ring, const struct uring_entry *entry,
		       uint64_t commit_id);

/* Let it leave now. 0 or -errno. */
int uring_ring_flush(struct uring_ring *ring);

/*
 * Wait for a request. 0; or -errno, of the kernel, too: -ENOTCONN once the
 * file system is unmounted, or, as -EOWNERDEAD, as above.
 */
int uring_ring_wait(struct uring_ring *ring);

#endif
