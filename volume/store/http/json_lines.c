/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/http/json_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/json_scan.h"

void json_lines_done(struct json_lines *lines)
{
	free(lines->line);
	*lines = (struct json_lines){0};
}

static int line_add(struct json_lines *lines, const char *bytes, size_t length,
		    struct error *err)
{
	size_t need = lines->length + length;
	char *more;

	if (length == 0)
		return 0;
	if (need > JSON_LINE_MAX)
		return error_set(err, EPROTO,
				 "a line of the server is larger than "
				 "%u MiB",
				 JSON_LINE_MAX >> 20);
	if (need > lines->room) {
		size_t room = 2 * need < 4096 ? 4096 : 2 * need;

		more = realloc(lines->line, room);
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		lines->line = more;
		lines->room = room;
	}
	memcpy(lines->line + lines->length, bytes, length);
	lines->length = need;
	return 0;
}

/* The line is at its end. */
static int line_tell(struct json_lines *lines, json_lines_handler handler,
		     void *context, struct error *err)
{
	struct json_object *object = NULL;
	struct error why = {0};
	size_t length = lines->length;
	int r;

	lines->length = 0;
	if (length == 0 || (length == 1 && lines->line[0] == '\r'))
		return 0;
	r = json_scan_parse(lines->line, length, JSON_LINE_MAX, &object, &why);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return error_set(err, EPROTO, "a line of the server: %.300s",
				 why.msg);
	r = handler(context, object, err);
	json_object_put(object);
	return r;
}

int json_lines_feed(struct json_lines *lines, const char *bytes, size_t length,
		    json_lines_handler handler, void *context,
		    struct error *err)
{
	int r = 0;

	while (r == 0 && length > 0) {
		const char *newline = memchr(bytes, '\n', length);
		size_t part = newline ? (size_t)(newline - bytes) : length;

		r = line_add(lines, bytes, part, err);
		if (r == 0 && newline)
			r = line_tell(lines, handler, context, err);
		part += newline ? 1 : 0;
		bytes += part;
		length -= part;
	}
	return r;
}
