/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_proto.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/cursor.h"

#define FLAGS (LAUNCH_HAS_LOG | LAUNCH_HAS_PASS | LAUNCH_STORES)

/* ---- requests ---- */

/* The next string, up to its NUL; NULL: there is none. Borrowed. */
static const char *take_string(struct cursor *c)
{
	const uint8_t *nul = memchr(c->at, '\0', cursor_left(c));

	return nul ? cursor_bytes(c, (size_t)(nul - c->at) + 1) : NULL;
}

static int take_strings(struct cursor *c, size_t count, const char **argv,
			struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		argv[i] = take_string(c);
		if (!argv[i])
			return error_set(err, EPROTO,
					 "the request ends within its words");
	}
	if (cursor_left(c))
		return error_set(err, EPROTO,
				 "the request has bytes after its arguments");
	return 0;
}

static int check_head(const struct launch_wire_request *head, struct error *err)
{
	uint32_t count = be32_get(head->count);

	if (be32_get(head->magic) != LAUNCH_MAGIC)
		return error_set(err, EPROTO, "not a request");
	if (be16_get(head->version) != LAUNCH_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "a request of version %u; this launcher knows "
				 "%u",
				 be16_get(head->version), LAUNCH_VERSION);
	if (be16_get(head->flags) & ~FLAGS || be32_get(head->pid) == 0 ||
	    be32_get(head->pid) > INT_MAX || count == 0)
		return error_set(err, EPROTO, "a request that makes no sense");
	if (count > LAUNCH_ARGS_MAX)
		return error_set(
			err, E2BIG,
			"a request of %u arguments; at most %u are allowed",
			count, LAUNCH_ARGS_MAX);
	return 0;
}

int launch_request_decode(const void *data, size_t length,
			  struct launch_request *ret, struct error *err)
{
	struct cursor c = cursor_make(data, length);
	const struct launch_wire_request *head = cursor_bytes(&c,
							      sizeof(*head));
	struct launch_request request = {0};
	int r;

	if (!head || length > LAUNCH_REQUEST_MAX)
		return error_set(err, EPROTO, "not a request");
	r = check_head(head, err);
	if (r < 0)
		return r;
	request.pid = (pid_t)be32_get(head->pid);
	request.flags = be16_get(head->flags);
	request.argc = be32_get(head->count);
	request.argv = calloc(request.argc + 1, sizeof(*request.argv));
	if (!request.argv)
		return error_set(err, ENOMEM, "out of memory");
	r = take_strings(&c, request.argc, request.argv, err);
	if (r < 0)
		launch_request_done(&request);
	else
		*ret = request;
	return r;
}

void launch_request_done(struct launch_request *request)
{
	free(request->argv);
	*request = (struct launch_request){0};
}

int launch_request_encode(const struct launch_request *request, void **ret,
			  size_t *ret_length, struct error *err)
{
	struct launch_wire_request head = {
		.magic = be32_make(LAUNCH_MAGIC),
		.version = be16_make(LAUNCH_VERSION),
		.flags = be16_make((uint16_t)request->flags),
		.pid = be32_make((uint32_t)request->pid),
		.count = be32_make((uint32_t)request->argc),
	};
	size_t length = sizeof(head);
	char *data, *at;

	for (size_t i = 0; i < request->argc && length <= LAUNCH_REQUEST_MAX;
	     i++)
		length += strlen(request->argv[i]) + 1;
	if (length > LAUNCH_REQUEST_MAX || request->argc > LAUNCH_ARGS_MAX)
		return error_set(err, E2BIG,
				 "its command line is longer than the %u KiB "
				 "and %u words a launcher takes",
				 LAUNCH_REQUEST_MAX >> 10, LAUNCH_ARGS_MAX);
	data = malloc(length);
	if (!data)
		return error_set(err, ENOMEM, "out of memory");
	at = mempcpy(data, &head, sizeof(head));
	for (size_t i = 0; i < request->argc; i++)
		at = mempcpy(at, request->argv[i],
			     strlen(request->argv[i]) + 1);
	*ret = data;
	*ret_length = length;
	return 0;
}

/* ---- replies ---- */

size_t launch_reply_encode(const struct launch_reply *reply, void *ret)
{
	struct launch_wire_reply head = {
		.magic = be32_make(LAUNCH_MAGIC),
		.version = be16_make(LAUNCH_VERSION),
		.code = be16_make((uint16_t)reply->code),
		.pid = be32_make(reply->code ? 0 : (uint32_t)reply->pid),
	};
	size_t length = reply->code ? strnlen(reply->text, LAUNCH_TEXT_MAX) : 0;

	memcpy(mempcpy(ret, &head, sizeof(head)), reply->text, length);
	return sizeof(head) + length;
}

int launch_reply_decode(const void *data, size_t length,
			struct launch_reply *ret)
{
	struct cursor c = cursor_make(data, length);
	const struct launch_wire_reply *head = cursor_bytes(&c, sizeof(*head));
	size_t left = cursor_left(&c);
	uint32_t pid;

	if (!head || be32_get(head->magic) != LAUNCH_MAGIC)
		return -EPROTO;
	if (be16_get(head->version) != LAUNCH_VERSION)
		return -EPROTONOSUPPORT;
	pid = be32_get(head->pid);
	if (left > LAUNCH_TEXT_MAX || memchr(c.at, '\0', left) ||
	    (be16_get(head->code) ? pid != 0
				  : pid == 0 || pid > INT_MAX || left > 0))
		return -EPROTO;
	*ret = (struct launch_reply){
		.code = be16_get(head->code),
		.pid = (pid_t)pid,
	};
	memcpy(ret->text, c.at, left);
	return 0;
}
