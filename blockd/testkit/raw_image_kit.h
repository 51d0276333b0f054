/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For raw_image_fuzz: a raw pool in memory, and edits of it. It is small:
 * objects that share clusters, a checkpoint, batches after it. The edits have
 * checksums that are right again unless they say otherwise, so that wrong
 * figures get past them. Any access that is not inside the medium, and in the
 * part of it that it is about, aborts.
 *
 * The input is edits, each of 5 bytes and what they say follows:
 *
 *	kind    what to do (enum edit); | ONE_COPY, | KEEP_CRC
 *	which   a piece: the superblock, parts of the checkpoint, batches of
 *	        the log, the place of the next one; of all there are, in turn
 *	at      16 bits, little-endian
 *	n       as the kind says
 */
#ifndef BLOCKD_RAW_IMAGE_KIT_H
#define BLOCKD_RAW_IMAGE_KIT_H

#include "blockd/raw/store/raw_store_internal.h"

#define RAW_IMAGE_SIZE   (UINT64_C(8) << 20) /* bytes */
#define RAW_IMAGE_BLOCKS (RAW_IMAGE_SIZE / RAW_BLOCK)

struct raw_image {
	struct raw_medium medium;
	uint8_t *bytes; /* RAW_IMAGE_SIZE */
	bool unreadable[RAW_IMAGE_BLOCKS];
	bool changed[RAW_IMAGE_BLOCKS]; /* since it was made */
	bool written[RAW_IMAGE_BLOCKS]; /* by the store that is open */
	bool may_write;
	bool making;
	struct raw_super super; /* what the store has to keep to */
};

extern struct raw_image raw_image; /* the one there is */

/* As it is made, but for these edits. */
void raw_image_edit(const uint8_t *data, size_t size);

/* Can any block of it not be read? */
bool raw_image_unreadable(void);

#endif
