/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests and replies of the control socket (docs/union.md), as bytes. A
 * request is one line, its reply is one line:
 *
 *	status              ok {...}
 *	upgrade             (none: another server takes over)
 *	policy SETTING...   ok {"policies":{...}}
 *	add BRANCH          ok {"id":2}
 *	remove BRANCH
 *	set BRANCH
 *	drain RATE BRANCH
 *	stop BRANCH
 *	                    error WHAT HAPPENED
 *
 * BRANCH as in branch_spec.h; with `remove`, `drain` and `stop` without words.
 * RATE: bytes a second, 0 for no limit. SETTING: NAME=VALUE as in settings.h,
 * with a space between each two. No line holds a NUL or another control
 * character. No state, no I/O.
 */
#ifndef UNION_CONTROL_PROTO_H
#define UNION_CONTROL_PROTO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "union/config/branch_spec.h"
#include "union/live/settings.h"

/*
 * Bytes of a request with its newline: room for a path in which each byte has a
 * '\' before it.
 */
#define CONTROL_REQUEST_MAX (2 * PATH_MAX + 64)

/* Settings in one request: each function by itself, and some more. */
#define CONTROL_SETTINGS_MAX 64

/*
 * Bytes of a reply that a client takes: BRANCH_MAX paths as JSON, each byte six
 * long.
 */
#define CONTROL_REPLY_MAX (8u << 20)

enum control_command {
	CONTROL_STATUS,
	CONTROL_UPGRADE,
	CONTROL_POLICY,
	CONTROL_ADD,
	CONTROL_REMOVE,
	CONTROL_SET,
	CONTROL_DRAIN,
	CONTROL_STOP, /* draining */
};

struct control_request {
	enum control_command command;
	struct branch_spec branch; /* from CONTROL_ADD on */
	uint64_t rate;             /* CONTROL_DRAIN: bytes a second */
	/* CONTROL_POLICY: at least one, with names and values that are not
	 * empty, in @text. */
	struct setting settings[CONTROL_SETTINGS_MAX];
	unsigned settings_count;
	char *text;
};

/*
 * Is the request whole, so that control_request_decode() needs no more of it?
 */
bool control_request_is_whole(const char *data, size_t length);

/*
 * Decode a request. -EINVAL with @err; on success control_request_done() frees
 * what @ret owns.
 *
 * @data  all that a peer has sent
 */
int control_request_decode(const char *data, size_t length,
			   struct control_request *ret, struct error *err);
void control_request_done(struct control_request *request);

/*
 * Make the line "ok JSON" or "error TEXT", owned; NULL when there is no memory.
 */
char *control_reply_ok(const char *json);
char *control_reply_error(const char *text);

/*
 * Decode a whole reply. @ret is its part after the first word, NUL-terminated
 * in place of the newline. 0; -EREMOTEIO: the reply is an error, and @ret its
 * text; -EPROTO.
 *
 * @data  @length bytes
 */
int control_reply_decode(char *data, size_t length, const char **ret);

#endif
