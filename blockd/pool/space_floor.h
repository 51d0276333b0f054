/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept free of a file system, whoever of a pool's
 * devices writes: a write that would take of it is told so before it begins.
 *
 * Asking the file system at each write would cost more than the write. So a
 * device takes a share of what there is above the floor, as much as keeps it
 * from asking for long, and as little as a write needs where there is little;
 * what others hold and don't use is taken back from them then. At any time
 *
 *	free - all that is held and all that is being written >= floor
 *
 * but for what others write to the same file system.
 */
#ifndef BLOCKD_SPACE_FLOOR_H
#define BLOCKD_SPACE_FLOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct space_floor;

/* A device's; its own loop takes and gives back, any thread looks. */
struct space_share {
	atomic_ullong left;    /* bytes it may write without asking */
	atomic_ullong writing; /* bytes of requests that are under way */
	LIST_ENTRY(space_share) in_floor;
};

/* Bytes that are free on the file system of @fd; -errno. */
typedef int (*space_free)(int fd, uint64_t *ret);

int space_free_bytes(int fd, uint64_t *ret);

/*
 * @fd       of the file system; borrowed
 * @measure  space_free_bytes(), but in tests
 *
 * One reference; devices may outlive the pool. NULL: out of memory, or of
 * descriptors.
 */
struct space_floor *space_floor_new(int fd, space_free measure);
struct space_floor *space_floor_ref(struct space_floor *floor);
void space_floor_unref(struct space_floor *floor); /* NULL is fine */

/* Bytes to be kept free from now on; 0 at first. Any thread. */
void space_floor_set(struct space_floor *floor, uint64_t bytes);

void space_share_begin(struct space_floor *floor, struct space_share *share);
/* Nothing is being written. */
void space_share_end(struct space_floor *floor, struct space_share *share);

/*
 * Before a write that may take @bytes of new space, from what the share has
 * left. False: it has not that much, ask space_share_ask().
 */
bool space_share_take(struct space_share *share, uint64_t bytes);
/*
 * The same, of what there is: true, and more than that for later, or false:
 * the floor is reached. Blocks for a look at the file system.
 */
bool space_share_ask(struct space_floor *floor, struct space_share *share,
		     uint64_t bytes);
/* What was taken is written, or has failed. */
static inline void space_share_done(struct space_share *share, uint64_t bytes)
{
	atomic_fetch_sub(&share->writing, bytes);
}

/* A write of @bytes by nobody's device, now: -ENOSPC at the floor, or 0. */
int space_floor_check(struct space_floor *floor, uint64_t bytes);

#endif
