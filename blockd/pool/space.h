/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of a pool's space. Pure: locks and figures are the caller's.
 *
 *	capacity  = min(configured, allocated + free - elsewhere - floor)
 *	limit     = capacity x overcommit
 *	room      = limit - reserved; 0 while free is not above the floor
 *	available = room in whole blocks; 0 below the smallest extent
 *
 * Bytes that files of others take are not ours to promise. Nor are bytes that
 * other pools on the same file system have promised and not yet used
 * ("elsewhere"). Nothing is ever negative: a pool whose limit fell below its
 * reserved bytes (others filled the medium) has no room.
 */
#ifndef BLOCKD_SPACE_H
#define BLOCKD_SPACE_H

#include <stdint.h>

#define SPACE_OVERCOMMIT_DEFAULT 100   /* percent: every promise is covered */
#define SPACE_OVERCOMMIT_MIN     10    /* percent */
#define SPACE_OVERCOMMIT_MAX     10000 /* percent */

/* The floor when none is configured: 1 % of the medium within these. */
#define SPACE_FLOOR_MIN (UINT64_C(64) << 20) /* bytes */
#define SPACE_FLOOR_MAX (UINT64_C(16) << 30) /* bytes */

struct space_medium {
	uint64_t size;      /* bytes; the whole medium */
	uint64_t free;      /* bytes an unprivileged user could still write */
	uint64_t allocated; /* bytes our extents really take */
	uint64_t device;    /* equal for two pools on one medium */
};

struct space_policy {
	uint64_t capacity;           /* bytes; 0: what the medium has */
	unsigned overcommit_percent; /* SPACE_OVERCOMMIT_MIN to _MAX */
	uint64_t floor;              /* bytes; 0: the default above */
};

struct space {
	uint64_t capacity;  /* bytes the medium can give to extents */
	uint64_t limit;     /* bytes that may be promised */
	uint64_t room;      /* bytes that may still be promised */
	uint64_t available; /* bytes; the largest extent that would be made */
	uint64_t floor;     /* bytes kept free */
};

/*
 * Return the bytes of a medium to keep free: @configured, or the default above.
 * @configured  bytes; 0: none
 * @size        bytes of the medium
 */
uint64_t space_floor(uint64_t configured, uint64_t size);

/*
 * @reserved   bytes promised to the pool's extents
 * @elsewhere  bytes other pools on this medium promised and did not use
 */
struct space space_count(const struct space_policy *policy,
			 const struct space_medium *medium, uint64_t reserved,
			 uint64_t elsewhere);

#endif
