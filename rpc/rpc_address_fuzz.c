/* SPDX-License-Identifier: Apache-2.0 */
/* An address that parses is written as it was read, and fits where it goes. */
#include <assert.h>
#include <string.h>

#include "rpc/rpc_address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[1024], buf[RPC_TARGET_MAX];
	struct rpc_address a, again;
	struct error err;

	if (size >= sizeof(text) || memchr(data, 0, size))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (rpc_address_parse(text, &a, &err) < 0) {
		assert(err.code && err.msg[0]);
		return 0;
	}
	assert(strlen(rpc_address_listen(buf, &a)) < sizeof(buf));
	assert(strlen(rpc_address_target(buf, &a)) < sizeof(buf));
	assert(!a.is_unix || !buf[strcspn(buf, " ?#")]);
	assert(rpc_address_parse(rpc_address_format(buf, &a), &again, &err) ==
	       0);
	assert(a.is_unix == again.is_unix && a.kind == again.kind);
	assert(strcmp(a.path, again.path) == 0 && a.port == again.port);
	assert(strcmp(a.host, again.host) == 0);
	return 0;
}
