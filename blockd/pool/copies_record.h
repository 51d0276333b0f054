/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of extents that are there all together, or not at all. They are
 * copies in a dir pool (NAME.copies), or a cut over several pools (STATE/cuts).
 * The text form is that of blockd/pool/record_text.h. Docs:
 * docs/dir-pool-format.md.
 */
#ifndef BLOCKD_COPIES_RECORD_H
#define BLOCKD_COPIES_RECORD_H

#include <stddef.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "blockd/pool/extent_record.h"

#define COPIES_MAX 256 /* names in one */

struct copies_record {
	char cut[UUID_TEXT_SIZE];        /* of the instant; "": of none */
	char (*names)[EXTENT_NAME_SIZE]; /* owned; each is a valid name */
	size_t n;
};

/* @ret: returned owned. -ENOMEM. */
int copies_record_encode(const struct copies_record *record, char **ret,
			 size_t *ret_length, struct error *err);

/*
 * -EBADMSG: it is none, or damaged; the text says how. -ENOMEM.
 * copies_record_done() frees what @ret owns.
 */
int copies_record_decode(const void *data, size_t length,
			 struct copies_record *ret, struct error *err);
void copies_record_done(struct copies_record *record);

#endif
