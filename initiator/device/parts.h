/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports that make up one device, and the file that remembers them beside
 * the record of an attachment: STATE_DIR/ID.parts. trib-nbd reads it.
 */
#ifndef INITIATOR_PARTS_H
#define INITIATOR_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/segments.h"
#include "base/error.h"

#define PARTS_SUFFIX       ".parts"
#define PARTS_FILE_MAX     (256u << 10) /* bytes */
#define PARTS_ADDRESS_SIZE 256          /* bytes with NUL */
#define PARTS_EXPORT_SIZE  256          /* bytes with NUL */
#define PARTS_WORD_SIZE    128          /* bytes with NUL */

struct part {
	char address[PARTS_ADDRESS_SIZE]; /* "HOST:PORT" or "unix:PATH" */
	char export_name[PARTS_EXPORT_SIZE];
	uint64_t size; /* bytes */
	/*
	 * What its server described the export with, its incarnation, when it
	 * was attached; no spaces. Empty: not known, or none.
	 */
	char incarnation[PARTS_WORD_SIZE];
};

struct parts {
	struct stripe stripe;
	unsigned n;
	struct part items[SEGMENTS_PARTS_MAX];
};

/* Set part @index. -EINVAL: a text is empty, or too long. */
int parts_set(struct parts *parts, unsigned index, const char *address,
	      const char *export_name, uint64_t size, struct error *err);

/*
 * Keep the incarnation of a part: the server's description. One that does not
 * fit into the file is not kept. -ESTALE: the part has another one; so
 * writes that were not flushed may be lost.
 */
int parts_keep_incarnation(struct part *part, const char *description,
			   struct error *err);

/* The device that they make; errors of segments_make(). */
int parts_segments(const struct parts *parts, struct segments *ret,
		   struct error *err);

/*
 * Check that @now is @before grown at its end: the last part of a linear
 * device may be larger, and there may be more parts. -EINVAL: it is another
 * device.
 */
int parts_check_grown(const struct parts *before, const struct parts *now,
		      struct error *err);

/*
 * Let @now be @before with its parts at the addresses of @now: each has the
 * incarnation that it had. -EINVAL: they are not the same exports.
 */
int parts_take_place(const struct parts *before, struct parts *now,
		     struct error *err);

/* Text of the file, returned owned, NUL-terminated; NULL: no memory. */
char *parts_encode(const struct parts *parts);
/* -EINVAL: damaged, or no device. */
int parts_decode(const char *text, size_t length, struct parts *ret,
		 struct error *err);

/*
 * Of a file at @dirfd, which may be AT_FDCWD. -ENOENT: no such file; -EINVAL,
 * -EFBIG: damaged, or a text with a space, which the file can't keep.
 */
int parts_load(int dirfd, const char *path, struct parts **ret,
	       struct error *err);
int parts_save(int dirfd, const char *path, const struct parts *parts,
	       struct error *err);

#endif
