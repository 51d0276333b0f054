/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However a stream is cut into pieces, the same events come out of it, and
 * every one has an object. The first byte says how it is cut.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "volume/store/http/json_lines.h"
#include "volume/store/kube/api/kube_watch_event.h"

#define EVENTS_MAX 4096

struct seen {
	unsigned count;
	uint32_t sum; /* of types and objects, in their order */
};

static int see(void *context, enum kube_watch_event_type type,
	       struct json_object *object, struct error *err)
{
	struct seen *seen = context;
	const char *text;

	(void)err;
	if (!json_object_is_type(object, json_type_object))
		abort();
	seen->sum = seen->sum * 31 + (uint32_t)type;
	for (text = json_object_to_json_string(object); *text; text++)
		seen->sum = seen->sum * 31 + (uint8_t)*text;
	return ++seen->count == EVENTS_MAX ? -1 : 0;
}

static int see_line(void *seen, struct json_object *object, struct error *err)
{
	return kube_watch_event_tell(object, see, seen, err);
}

static int feed(const char *bytes, size_t length, size_t piece,
		struct seen *ret)
{
	struct json_lines lines = {0};
	int r = 0;

	while (r == 0 && length > 0) {
		size_t n = piece < length ? piece : length;

		r = json_lines_feed(&lines, bytes, n, see_line, ret, NULL);
		bytes += n;
		length -= n;
	}
	json_lines_done(&lines);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = {0}, pieces = {0};
	int a, b;

	if (size < 2)
		return 0;
	a = feed((const char *)data + 1, size - 1, size, &whole);
	b = feed((const char *)data + 1, size - 1, data[0] % 64 + 1, &pieces);
	if (a != b || whole.count != pieces.count || whole.sum != pieces.sum)
		abort();
	return 0;
}
