/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/json_lines_fuzz_kit.h"

#include <stdlib.h>

void lines_seen_number(struct lines_seen *seen, uint32_t number)
{
	seen->sum = seen->sum * 31 + number;
}

void lines_seen_text(struct lines_seen *seen, const char *text)
{
	for (; *text; text++)
		lines_seen_number(seen, (uint8_t)*text);
}

static int lines_read(const char *bytes, size_t length, size_t piece,
		      json_lines_handler handler, struct lines_seen *ret)
{
	struct json_lines lines = {0};
	int r = 0;

	while (r == 0 && length > 0) {
		size_t n = piece < length ? piece : length;

		r = json_lines_feed(&lines, bytes, n, handler, ret, NULL);
		bytes += n;
		length -= n;
	}
	json_lines_done(&lines);
	return r;
}

void json_lines_fuzz(const uint8_t *data, size_t size,
		     json_lines_handler handler)
{
	struct lines_seen whole = {0}, pieces = {0};
	const char *stream = (const char *)data + 1;
	int a, b;

	if (size < 2)
		return;
	a = lines_read(stream, size - 1, size, handler, &whole);
	b = lines_read(stream, size - 1, data[0] % 64 + 1, handler, &pieces);
	if (a != b || whole.count != pieces.count || whole.sum != pieces.sum)
		abort();
}
