/* SPDX-License-Identifier: Apache-2.0 */
/* A place in the records of a kind, from which a list goes on. */
#ifndef VOLUME_RECORD_PLACE_H
#define VOLUME_RECORD_PLACE_H

#include "volume/record/volume_record.h"

#define RECORD_MARK_SIZE 512 /* bytes with NUL */

/* Zero: before the first. A place never gets old, and outlives its record. */
struct record_place {
	char after[RECORD_NAME_SIZE]; /* the last name before it; "": none */
	/*
	 * The store's own note of the page that begins at or before the place:
	 * printable, no blank; or "". A list without it, or with one that got
	 * old, may cost the pages before it, once.
	 */
	char mark[RECORD_MARK_SIZE];
};

#endif
