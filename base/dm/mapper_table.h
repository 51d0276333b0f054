/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a device mapper device: which part of it is where. A list of
 * segments without gaps, from the device's first byte to its last. Lengths and
 * offsets are bytes, multiples of MAPPER_SECTOR.
 */
#ifndef BASE_MAPPER_TABLE_H
#define BASE_MAPPER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define MAPPER_SECTOR      512  /* bytes; the unit of the kernel's tables */
#define MAPPER_STRIPES_MAX 1024 /* devices of a striped segment */

enum mapper_kind {
	MAPPER_LINEAR,
	MAPPER_STRIPED,
	MAPPER_ERROR, /* each request fails with EIO */
	MAPPER_OTHER, /* only in a table that was read: a kind we never load */
};

/* A place on a device below. */
struct mapper_place {
	dev_t device;
	uint64_t offset; /* bytes */
};

struct mapper_segment {
	enum mapper_kind kind;
	uint64_t start;            /* bytes */
	uint64_t length;           /* bytes */
	struct mapper_place place; /* MAPPER_LINEAR */
	/* MAPPER_STRIPED: */
	uint64_t chunk; /* bytes on one device before the next */
	unsigned stripes;
	struct mapper_place *places; /* owned; one for each stripe */
};

struct mapper_table {
	struct mapper_segment *segments; /* owned */
	size_t count, room;
	uint64_t size; /* bytes */
};

/* An empty table is all zero bytes. Free what it owns, and empty it. */
void mapper_table_done(struct mapper_table *table);

/*
 * Add a segment at the end. One that goes on where the last one ends (linear on
 * the same device, or error after error) makes that one longer.
 *
 * -EINVAL: a length of 0, no multiple of MAPPER_SECTOR, or too large; stripes
 * that do not divide the length into whole chunks. -ENOMEM.
 */
int mapper_table_add_linear(struct mapper_table *table, uint64_t length,
			    dev_t device, uint64_t offset);
int mapper_table_add_error(struct mapper_table *table, uint64_t length);
int mapper_table_add_striped(struct mapper_table *table, uint64_t length,
			     uint64_t chunk, const struct mapper_place *places,
			     unsigned stripes);

/*
 * Find the segment that has byte @offset, in the logarithm of their number;
 * NULL: past the end.
 */
const struct mapper_segment *mapper_table_find(const struct mapper_table *table,
					       uint64_t offset);

/*
 * Tell where byte @offset of a segment's device is. @ret_length, bytes, is how
 * far it goes on there. False: nowhere (MAPPER_ERROR, MAPPER_OTHER).
 */
bool mapper_segment_place(const struct mapper_segment *segment, uint64_t offset,
			  struct mapper_place *ret, uint64_t *ret_length);

bool mapper_table_equal(const struct mapper_table *a,
			const struct mapper_table *b);

/* Does a segment lie on this device? */
bool mapper_table_has_device(const struct mapper_table *table, dev_t device);

/* Is every segment MAPPER_ERROR? Of an empty table: no. */
bool mapper_table_is_error(const struct mapper_table *table);

/*
 * The text of a table, as dmsetup(8) has it: a line for each segment, "START
 * LENGTH TYPE ARGUMENTS" in sectors. Returned owned; NULL: no memory.
 */
char *mapper_table_encode(const struct mapper_table *table);

/*
 * Read such a text. Set on success only. -EINVAL with the line: not a segment,
 * or not where the one before ends. Segments are joined.
 */
int mapper_table_decode(const char *text, struct mapper_table *ret,
			struct error *err);

#endif
