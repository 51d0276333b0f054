/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole session machine, fed arbitrary bytes in arbitrary pieces. The
 * first byte seeds how the rest is split. What must hold:
 *
 * - it consumes no more than it was given, and asks for no more than
 *   NBD_SESSION_NEED_MAX (each feed comes from a heap copy of exactly the
 *   bytes there are, so a read past them is caught);
 * - a request that goes on is inside the device, aligned, and no longer
 *   than NBD_PAYLOAD_MAX where it has a payload;
 * - it goes on: without progress only for want of bytes;
 * - after DROP or CLOSE it stays closed;
 * - it says the same however the bytes were split.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/nbd/nbd_session.h"

#define DEVICE_SIZE (UINT64_C(64) << 20) /* bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct nbd_session session;
	uint64_t digest; /* of all events, in order */
	uint32_t block_size;
	bool read_only;
};

static int fake_open(void *context, const char *name, bool keep,
		     struct nbd_export *ret, struct error *err)
{
	struct run *run = context;

	(void)keep;
	assert(strlen(name) <= NBD_STRING_MAX);
	if (name[0] == 'x')
		return error_set(err, EACCES, "not you");
	if (name[0] != 'd')
		return error_set(err, ENOENT, "there is no such export");
	ret->size = DEVICE_SIZE;
	ret->block_size = run->block_size;
	ret->preferred_size = 4096;
	ret->flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_SEND_TRIM |
		     NBD_TRANSMIT_SEND_WRITE_ZEROES | NBD_TRANSMIT_SEND_CACHE |
		     (run->read_only ? NBD_TRANSMIT_READ_ONLY : 0);
	(void)snprintf(ret->name, sizeof(ret->name), "d");
	return 0;
}

static int fake_list(void *context, struct nbd_session *session)
{
	(void)context;
	return nbd_session_list_add(session, "d");
}

static const struct nbd_session_ops ops = {
	.open = fake_open,
	.list = fake_list,
};

static void note(struct run *run, uint64_t value) /* FNV-1a, by words */
{
	run->digest = (run->digest ^ value) * UINT64_C(0x100000001b3);
}

static void request_check(const struct run *run, const struct nbd_request *r)
{
	if (r->type == NBD_CMD_FLUSH)
		return;
	assert(r->length > 0 && r->offset < DEVICE_SIZE &&
	       r->length <= DEVICE_SIZE - r->offset);
	assert(((r->offset | r->length) & (run->block_size - 1)) == 0);
	if (r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE)
		assert(r->length <= NBD_PAYLOAD_MAX);
	else
		assert(r->type == NBD_CMD_TRIM ||
		       r->type == NBD_CMD_WRITE_ZEROES ||
		       r->type == NBD_CMD_CACHE ||
		       r->type == NBD_CMD_BLOCK_STATUS);
	if (r->type != NBD_CMD_WRITE)
		assert(!(r->flags & NBD_CMD_FLAG_PAYLOAD));
	if (run->read_only)
		assert(r->type == NBD_CMD_READ || r->type == NBD_CMD_CACHE ||
		       r->type == NBD_CMD_BLOCK_STATUS);
}

static void output_take(struct run *run)
{
	for (size_t i = 0; i < run->session.out.length; i++)
		note(run, run->session.out.data[i]);
	run->session.out.length = 0;
}

/* Returns the bytes consumed; sets @ret_more when it wants more. */
static size_t step(struct run *run, const uint8_t *data, size_t length,
		   bool *ret_more)
{
	struct nbd_session *s = &run->session;
	struct nbd_event event = {0};
	size_t taken;

	*ret_more = false;
	if (s->state == NBD_SESSION_PAYLOAD) {
		taken = length < s->left ? length : (size_t)s->left;
		nbd_session_payload_taken(s, (uint32_t)taken);
		*ret_more = length == 0;
		return taken;
	}
	taken = nbd_session_feed(s, data, length, &event);
	assert(taken <= length);
	output_take(run);
	switch (event.type) {
	case NBD_EVENT_MORE:
		assert(event.need > 0 && event.need <= NBD_SESSION_NEED_MAX);
		assert(taken > 0 || length < event.need);
		*ret_more = taken == 0;
		break;
	case NBD_EVENT_REQUEST:
		request_check(run, &event.request);
		/* fall through */
	case NBD_EVENT_REFUSED:
		assert(event.type == NBD_EVENT_REQUEST ||
		       (event.error != 0 && event.why));
		note(run, event.type);
		note(run, event.request.cookie);
		break;
	case NBD_EVENT_TLS:
		assert(s->state == NBD_SESSION_TLS && !s->structured);
		note(run, event.type);
		nbd_session_tls_on(s);
		break;
	case NBD_EVENT_START:
		assert(s->tls != NBD_TLS_REQUIRED);
		assert(nbd_session_transmits(s));
		note(run, event.type);
		break;
	case NBD_EVENT_DROP:
		assert(event.why);
		/* fall through */
	case NBD_EVENT_CLOSE:
		assert(s->state == NBD_SESSION_CLOSED);
		note(run, event.type);
		break;
	case NBD_EVENT_WAIT:
		assert(false); /* fake_open() never asks for it */
		break;
	}
	return taken;
}

static uint32_t next(uint32_t *seed) /* Numerical Recipes' generator */
{
	return *seed = *seed * 1664525 + 1013904223;
}

/* All of @data, @whole or in small pieces. */
static uint64_t play(const uint8_t *data, size_t size, bool whole,
		     uint8_t variant)
{
	uint32_t seed = variant;
	struct run run = {
		.digest = UINT64_C(0xcbf29ce484222325),
		.block_size = variant & 1 ? 4096 : 1,
		.read_only = variant & 2,
	};
	size_t start = 0, end = 0;
	uint64_t digest;

	if (nbd_session_init(&run.session, &ops, &run) < 0)
		abort();
	run.session.tls = variant >> 2 & 3;
	if (run.session.tls == NBD_TLS_ON)
		run.session.tls = NBD_TLS_OFF;
	while (run.session.state != NBD_SESSION_CLOSED) {
		uint8_t *copy = malloc(end - start ?: 1);
		bool more;

		if (!copy)
			abort();
		if (end > start)
			memcpy(copy, data + start, end - start);
		start += step(&run, copy, end - start, &more);
		free(copy);
		if (!more)
			continue;
		if (end == size)
			break;
		end = whole ? size : end + 1 + (next(&seed) >> 16) % 64;
		if (end > size)
			end = size;
	}
	digest = run.digest;
	nbd_session_done(&run.session);
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole, pieces;

	if (size < 1)
		return 0;
	whole = play(data + 1, size - 1, true, data[0]);
	pieces = play(data + 1, size - 1, false, data[0]);
	assert(whole == pieces);
	return 0;
}
