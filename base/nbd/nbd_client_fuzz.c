/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile server: its bytes go through the handshake, and the rest through
 * the reply decoder. The handshake must stay inside its buffers and end after a
 * bounded number of steps. It must never be done without an export that makes
 * sense.
 */
#include "base/nbd/nbd_client.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MAX (1 + 2 * (NBD_OPTION_REPLIES_MAX + 1))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_export(const struct nbd_export *e)
{
	require(e->size <= INT64_MAX);
	require(e->min_block && e->min_block <= 65536);
	require(e->max_payload >= e->min_block);
	require(memchr(e->description, 0, sizeof(e->description)) != NULL);
	require(e->has_description == (e->description[0] != 0));
	(void)nbd_export_check(e, e->size, 4096, false, NULL);
	require(!nbd_export_may_resume(e, e, false, NULL));
}

static void check_replies(const uint8_t *data, size_t size)
{
	struct nbd_wire_simple_reply wire;
	struct nbd_reply reply;

	for (; size >= sizeof(wire); size -= sizeof(wire)) {
		memcpy(&wire, data, sizeof(wire));
		data += sizeof(wire);
		if (!nbd_reply_decode(&wire, &reply))
			require(reply.error <= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nbd_handshake h;
	struct error err;
	unsigned steps = 0;
	int r = nbd_handshake_start(
		&h, "e@1", size & 1 ? NBD_HANDSHAKE_GO : NBD_HANDSHAKE_INFO,
		NULL);

	require(!r);
	while (!r && size >= h.want) {
		require(h.want > 0 && h.want <= sizeof(h.in));
		memcpy(h.in, data, h.want);
		data += h.want;
		size -= h.want;
		err.code = 0;
		r = nbd_handshake_step(&h, &err);
		require(h.out_length <= sizeof(h.out));
		require(r >= 0 || err.code == -r);
		require(++steps <= STEPS_MAX);
	}
	if (r == 1) {
		check_export(&h.export);
		check_replies(data, size);
	}
	return 0;
}
