/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of JSON objects, each a line, decoded. No I/O. */
#ifndef VOLUME_JSON_LINES_H
#define VOLUME_JSON_LINES_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

#define JSON_LINE_MAX (4u << 20) /* bytes; etcd takes 1.5 MiB of a value */

/* @object is borrowed. Other than 0: no more, return that. */
typedef int (*json_lines_handler)(void *context, struct json_object *object,
				  struct error *err);

/* Zero-initialise; json_lines_done() frees. */
struct json_lines {
	char *line; /* owned: the beginning of an unfinished line */
	size_t length, room;
};

/*
 * The next bytes: call @handler for each object that they complete. Empty lines
 * are skipped.
 *
 * -EPROTO: no object, or one over JSON_LINE_MAX: the stream is not to be
 * trusted any further. -ENOMEM; and what @handler returns.
 */
int json_lines_feed(struct json_lines *lines, const char *bytes, size_t length,
		    json_lines_handler handler, void *context,
		    struct error *err);
void json_lines_done(struct json_lines *lines);

#endif
