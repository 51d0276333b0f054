/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/nbd_session_kit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int fake_open(void *context, const char *name, bool keep,
		     struct nbd_export *ret, struct error *err)
{
	struct nbd_kit *f = context;

	if (strcmp(name, "secret") == 0)
		return error_set(err, EACCES, "not allowed from here");
	if (strcmp(name, "broken") == 0)
		return error_set(err, EIO, "no medium");
	if (strcmp(name, "disk") != 0)
		return error_set(err, ENOENT, "there is no such export");
	f->opened++;
	f->kept += keep;
	ret->size = f->size;
	ret->block_size = f->block_size;
	ret->preferred_size = 4096;
	ret->flags = f->device_flags;
	(void)snprintf(ret->name, sizeof(ret->name), "disk");
	(void)snprintf(ret->description, sizeof(ret->description), "words");
	return 0;
}

static int fake_list(void *context, struct nbd_session *session)
{
	int r = nbd_session_list_add(session, "disk");

	(void)context;
	return r < 0 ? r : nbd_session_list_add(session, "more");
}

static const struct nbd_session_ops ops = {
	.open = fake_open,
	.list = fake_list,
};

void nbd_kit_put(struct nbd_kit *f, const void *data, size_t length)
{
	assert_true(length <= sizeof(f->in) - f->length);
	if (length > 0)
		memcpy(f->in + f->length, data, length);
	f->length += length;
}

enum nbd_event_type nbd_kit_feed(struct nbd_kit *f)
{
	for (;;) {
		size_t taken = nbd_session_feed(&f->session, f->in, f->length,
						&f->event);

		assert_true(taken <= f->length);
		memmove(f->in, f->in + taken, f->length - taken);
		f->length -= taken;
		if (f->event.type != NBD_EVENT_MORE || taken == 0)
			return f->event.type;
	}
}

void nbd_kit_client_flags(struct nbd_kit *f, uint32_t flags)
{
	be32 wire = be32_make(flags);

	nbd_kit_put(f, &wire, sizeof(wire));
}

void nbd_kit_option(struct nbd_kit *f, uint32_t number, const void *data,
		    size_t length)
{
	struct nbd_wire_option wire = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(number),
		.length = be32_make((uint32_t)length),
	};

	nbd_kit_put(f, &wire, sizeof(wire));
	nbd_kit_put(f, data, length);
}

void nbd_kit_option_named(struct nbd_kit *f, uint32_t number, const char *name,
			  const char *rest, size_t rest_length)
{
	uint8_t data[256];
	be32 length = be32_make((uint32_t)strlen(name));

	memcpy(data, &length, sizeof(length));
	memcpy(data + 4, name, strlen(name));
	memcpy(data + 4 + strlen(name), rest, rest_length);
	nbd_kit_option(f, number, data, 4 + strlen(name) + rest_length);
}

void nbd_kit_select_allocation(struct nbd_kit *f, const char *name)
{
	nbd_kit_option_named(f, NBD_OPT_SET_META_CONTEXT, name,
			     "\0\0\0\1\0\0\0\17base:allocation", 23);
}

uint32_t nbd_kit_reply_next(struct nbd_kit *f, const uint8_t **ret_data,
			    uint32_t *ret_length)
{
	struct nbd_wire_option_reply wire;
	uint32_t length;

	assert_true(f->session.out.length >= f->replies + sizeof(wire));
	memcpy(&wire, f->session.out.data + f->replies, sizeof(wire));
	assert_true(be64_get(wire.magic) == NBD_OPTION_REPLY_MAGIC);
	length = be32_get(wire.length);
	f->replies += sizeof(wire);
	assert_true(f->session.out.length >= f->replies + length);
	if (ret_data)
		*ret_data = f->session.out.data + f->replies;
	if (ret_length)
		*ret_length = length;
	f->replies += length;
	return be32_get(wire.type);
}

void nbd_kit_replies_are(struct nbd_kit *f, uint32_t type)
{
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), type);
	assert_int_equal(f->replies, f->session.out.length);
}

void nbd_kit_request(struct nbd_kit *f, uint16_t type, uint16_t flags,
		     uint64_t offset, uint32_t length)
{
	struct nbd_wire_request wire = {
		.magic = be32_make(NBD_REQUEST_MAGIC),
		.flags = be16_make(flags),
		.type = be16_make(type),
		.cookie = be64_make(42),
		.offset = be64_make(offset),
		.length = be32_make(length),
	};

	nbd_kit_put(f, &wire, sizeof(wire));
}

uint32_t nbd_kit_judge(struct nbd_kit *f)
{
	if (nbd_kit_feed(f) == NBD_EVENT_REQUEST)
		return 0;
	assert_int_equal(f->event.type, NBD_EVENT_REFUSED);
	assert_non_null(f->event.why);
	return f->event.error;
}

uint32_t nbd_kit_verdict(struct nbd_kit *f, uint16_t type, uint16_t flags,
			 uint64_t offset, uint32_t length)
{
	nbd_kit_request(f, type, flags, offset, length);
	return nbd_kit_judge(f);
}

int nbd_kit_setup(void **state)
{
	struct nbd_kit *f = calloc(1, sizeof(*f));

	if (!f || nbd_session_init(&f->session, &ops, f) < 0)
		return -1;
	f->replies = sizeof(struct nbd_wire_greeting);
	f->size = 1 << 20;
	f->block_size = 1;
	f->device_flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_SEND_FUA |
			  NBD_TRANSMIT_SEND_TRIM |
			  NBD_TRANSMIT_SEND_WRITE_ZEROES;
	*state = f;
	return 0;
}

void nbd_kit_again(struct nbd_kit *f)
{
	nbd_session_done(&f->session);
	assert_int_equal(nbd_session_init(&f->session, &ops, f), 0);
}

int nbd_kit_teardown(void **state)
{
	struct nbd_kit *f = *state;

	nbd_session_done(&f->session);
	free(f);
	return 0;
}

void nbd_kit_begin(struct nbd_kit *f, bool structured, bool allocation)
{
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	if (structured)
		nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	if (allocation)
		nbd_kit_select_allocation(f, "disk");
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	f->session.out.length = f->replies = 0;
}
