/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of JSON lines (json_lines.h) as a fuzz target: however it is cut
 * into pieces, the same comes out of it.
 */
#ifndef VOLUME_JSON_LINES_FUZZ_KIT_H
#define VOLUME_JSON_LINES_FUZZ_KIT_H

#include <stddef.h>
#include <stdint.h>

#include "volume/store/http/json_lines.h"

/* What came out of a stream, in its order. */
struct lines_seen {
	unsigned count;
	uint32_t sum;
};

void lines_seen_number(struct lines_seen *seen, uint32_t number);
void lines_seen_text(struct lines_seen *seen, const char *text);

/*
 * Read the stream whole and in pieces, and abort where that differs.
 *
 * @data     the first byte says how the rest is cut
 * @handler  its context is a struct lines_seen
 */
void json_lines_fuzz(const uint8_t *data, size_t size,
		     json_lines_handler handler);

#endif
