/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: bytes of its file system that a pool keeps free. A write that
 * would take of them gets -ENOSPC before it begins.
 *
 * Asking the file system at each write would cost more than the write. So a
 * device takes a share of the space above the floor. The share is large while
 * there is much, so that the device seldom asks, and small near the floor. Near
 * the floor the unused rest of all shares is taken back. At any time
 *
 *	free - unused shares - writes under way >= floor
 *
 * but for what other programs write to the same file system.
 */
#ifndef BLOCKD_SPACE_FLOOR_H
#define BLOCKD_SPACE_FLOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct space_floor;

/* Of one device. Its loop takes and gives back; any thread looks. */
struct space_share {
	struct space_floor *floor; /* a reference */
	int fd;                    /* owned; the device's file; -1: none */
	atomic_ullong left;        /* bytes to write without asking */
	atomic_ullong writing;     /* bytes of requests under way */
	LIST_ENTRY(space_share) in_floor;
};

struct space_floor_ops {
	/* Free bytes of the file system of @fd. -errno. */
	int (*free_bytes)(int fd, uint64_t *ret);
	/* Bytes that a write of this range of the file would take. Blocks. */
	uint64_t (*missing)(int fd, uint64_t offset, uint64_t length);
};

/* For @ops: by fstatvfs(3). */
int space_free_bytes(int fd, uint64_t *ret);

/*
 * One reference; devices may outlive the pool. NULL: out of memory, or of
 * descriptors.
 *
 * @fd   of the file system; borrowed
 * @ops  static
 */
struct space_floor *space_floor_new(int fd, const struct space_floor_ops *ops);
struct space_floor *space_floor_ref(struct space_floor *floor);
void space_floor_unref(struct space_floor *floor); /* NULL is fine */

/* Bytes to be kept free from now on; 0 at first. Any thread. */
void space_floor_set(struct space_floor *floor, uint64_t bytes);

/*
 * A share of nothing yet. NULL: out of memory.
 *
 * @fd  of the device's file; taken, also on failure; -1: none
 */
struct space_share *space_share_new(struct space_floor *floor, int fd);
/* Nothing is being written. NULL is fine. */
void space_share_free(struct space_share *share);

/*
 * Before a write that may take @bytes of new space: take them of the share.
 * False: ask with space_share_ask().
 */
bool space_share_take(struct space_share *share, uint64_t bytes);
/*
 * The same for a write of this range of the file, of all space above the
 * floor. Takes more than that for later writes. Blocks.
 *
 * @bytes  what the write may take; lowered to what it does take
 *
 * 0 or -ENOSPC.
 */
int space_share_ask(struct space_share *share, uint64_t offset, uint64_t length,
		    uint64_t *bytes);
/*
 * End a write of @bytes that were taken: they are written, or the write failed.
 */
static inline void space_share_done(struct space_share *share, uint64_t bytes)
{
	atomic_fetch_sub(&share->writing, bytes);
}

/* A write of @bytes by no device, now: -ENOSPC at the floor, or 0. */
int space_floor_check(struct space_floor *floor, uint64_t bytes);

#endif
