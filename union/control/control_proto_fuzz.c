/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is taken is a command with a path that is bounded and free of
 * control characters, or with settings that have names and values. A request
 * that is refused has a reason. A reply is taken or not.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/branch/branch.h"
#include "union/control/control_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_settings(const struct control_request *request)
{
	unsigned i;

	assert(request->settings_count);
	assert(request->settings_count <= CONTROL_SETTINGS_MAX);
	for (i = 0; i < request->settings_count; i++) {
		assert(*request->settings[i].name);
		assert(*request->settings[i].value);
		assert(!strpbrk(request->settings[i].name, " ="));
		assert(!strchr(request->settings[i].value, ' '));
	}
}

static void check_request(const char *data, size_t size)
{
	struct control_request request;
	struct error err = {0};
	const char *c;

	if (control_request_decode(data, size, &request, &err) < 0) {
		assert(err.code && *err.msg);
		return;
	}
	assert(control_request_is_whole(data, size));
	assert(size <= CONTROL_REQUEST_MAX && data[size - 1] == '\n');
	if (request.command >= CONTROL_ADD) {
		assert(*request.branch.path);
		assert(strlen(request.branch.path) < PATH_MAX);
		assert(!(request.branch.flags &
			 ~(BRANCH_LOCAL | BRANCH_RO | BRANCH_NC)));
		for (c = request.branch.path; *c; c++)
			assert((unsigned char)*c >= 0x20 && *c != 0x7f);
	}
	if (request.command == CONTROL_POLICY)
		check_settings(&request);
	control_request_done(&request);
}

static void check_reply(const char *data, size_t size)
{
	char *copy = malloc(size + 1);
	const char *text;

	assert(copy);
	memcpy(copy, data, size);
	if (control_reply_decode(copy, size, &text) != -EPROTO)
		assert(strlen(text) < size);
	free(copy);
}

/* Check that the reply is one line that a client takes, for any text. */
static void check_made(const char *data, size_t size)
{
	char *text = strndup(data, size), *reply;
	const char *back;

	assert(text);
	reply = control_reply_error(text);
	assert(reply);
	assert(control_reply_decode(reply, strlen(reply), &back) == -EREMOTEIO);
	assert(strlen(back) == strlen(text));
	free(reply);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_request((const char *)data, size);
	check_reply((const char *)data, size);
	check_made((const char *)data, size);
	return 0;
}
