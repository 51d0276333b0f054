/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is taken is within its bounds, and goes back to the same
 * bytes; so does a reply.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const uint8_t *data, size_t size)
{
	struct launch_request request;
	struct error err = {0};
	size_t length;
	void *again;

	if (launch_request_decode(data, size, &request, &err) < 0) {
		assert(err.code && *err.msg);
		return;
	}
	assert(request.argc >= 1 && request.argc <= LAUNCH_ARGS_MAX);
	assert(request.pid > 0 && !request.argv[request.argc]);
	if (launch_request_encode(&request, &again, &length, NULL) < 0)
		abort();
	assert(length == size && memcmp(again, data, size) == 0);
	free(again);
	launch_request_done(&request);
}

static void check_reply(const uint8_t *data, size_t size)
{
	struct launch_reply reply;
	char again[LAUNCH_REPLY_MAX];

	if (launch_reply_decode(data, size, &reply) < 0)
		return;
	assert((reply.code == 0) == (reply.pid > 0));
	assert(launch_reply_encode(&reply, again) == size);
	assert(memcmp(again, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_request(data, size);
	check_reply(data, size);
	return 0;
}
