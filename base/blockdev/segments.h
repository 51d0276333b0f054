/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of one device made of several parts, as device mapper's
 * linear and striped targets have it. Pure functions.
 *
 * A device is segments, one behind the other. A linear segment is one part. A
 * striped one is a set of parts, to which its units of data go in turn. Part c
 * of a set of w has the units c, w + c, 2w + c... one behind the other.
 *
 * A device grows at its end: its last linear part becomes larger, or segments
 * are added. No byte that is there moves.
 */
#ifndef BASE_SEGMENTS_H
#define BASE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SEGMENTS_PARTS_MAX 256
#define SEGMENTS_WIDTH_MAX 64
/* Of a unit; a power of two, bytes. */
#define SEGMENTS_UNIT_MIN UINT64_C(4096)
#define SEGMENTS_UNIT_MAX (UINT64_C(4) << 20)

/* How the parts are put together. */
struct stripe {
	unsigned width; /* parts of a set; 0: parts end to end */
	uint64_t unit;  /* bytes; 0 with a width of 0 */
};

/* Check a stripe's numbers; a width of 0 is fine. -EINVAL: the text says why.
 */
int stripe_check(const struct stripe *stripe, struct error *err);

struct segment {
	uint64_t start;  /* bytes, in the device */
	uint64_t length; /* bytes, in the device */
	unsigned first;  /* its first part */
	unsigned width;  /* its parts; 1: linear */
	uint64_t unit;   /* bytes; of a linear one 0 */
};

struct segments {
	struct segment items[SEGMENTS_PARTS_MAX];
	size_t n;
	unsigned n_parts;
	uint64_t size; /* bytes, of the device */
};

/*
 * Put parts together.
 *
 * @sizes  bytes, of each part
 *
 * -EINVAL: no parts, too many, or an empty one. Of a stripe it also means: not
 * whole sets, or a set whose parts are not of one size in whole units. -ERANGE:
 * larger than INT64_MAX together.
 */
int segments_make(const struct stripe *stripe, const uint64_t *sizes,
		  size_t n_parts, struct segments *ret, struct error *err);

/*
 * Find the place of a part's byte in the device.
 *
 * @offset   bytes, in the part
 * @ret_run  bytes from there on that follow one another in part and device
 */
uint64_t segments_place(const struct segments *segments, unsigned part,
			uint64_t offset, uint64_t *ret_run);

/* A run of bytes of one part. */
struct segment_piece {
	unsigned part;
	uint64_t offset; /* bytes, in the part */
	uint64_t length; /* bytes, at least 1 */
	uint64_t at; /* bytes, from the begin of the request; of data only */
};

/* A request on its way through the segments. */
struct segment_walk {
	uint64_t offset; /* bytes, in the device; of the whole request */
	uint64_t length; /* bytes, of the whole request */
	/*
	 * Bytes that carry no data (write zeroes, discard): their order does
	 * not count. So each part of a set gets one piece, however many units
	 * that has.
	 */
	bool no_data;
	uint64_t piece_max; /* bytes, of a piece; at least 1 */

	/* The walk's own; zeroed at the begin. */
	uint64_t done;   /* bytes; of no_data: in the present segment's part */
	size_t segment;  /* no_data: the present one */
	unsigned column; /* no_data: the present one */
};

/*
 * Get the next piece of a request, which lies in the device. Pieces of data
 * come in the order of the request. False: there are no more.
 */
bool segments_next(const struct segments *segments, struct segment_walk *walk,
		   struct segment_piece *ret);

#endif
