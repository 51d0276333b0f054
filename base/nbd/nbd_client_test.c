/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nbd/nbd_client.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

/* The messages of a server, built by hand. */
struct script {
	uint8_t bytes[65536];
	size_t length;
};

static void add(struct script *s, const void *data, size_t length)
{
	assert_true(s->length + length <= sizeof(s->bytes));
	memcpy(s->bytes + s->length, data, length);
	s->length += length;
}

static void add_greeting(struct script *s, uint16_t flags)
{
	struct nbd_wire_greeting greeting = {
		.magic = be64_make(NBD_MAGIC),
		.option_magic = be64_make(NBD_OPTION_MAGIC),
		.flags = be16_make(flags),
	};

	add(s, &greeting, sizeof(greeting));
}

static void add_reply(struct script *s, uint32_t option, uint32_t type,
		      const void *data, uint32_t length)
{
	struct nbd_wire_option_reply reply = {
		.magic = be64_make(NBD_OPTION_REPLY_MAGIC),
		.option = be32_make(option),
		.type = be32_make(type),
		.length = be32_make(length),
	};

	add(s, &reply, sizeof(reply));
	if (data)
		add(s, data, length);
}

static void add_export(struct script *s, uint64_t size, uint16_t flags)
{
	struct {
		be16 type;
		be64 size;
		be16 flags;
	} info = {be16_make(NBD_INFO_EXPORT), be64_make(size),
		  be16_make(flags)};

	add_reply(s, NBD_OPT_GO, NBD_REP_INFO, &info, sizeof(info));
}

static void add_blocks(struct script *s, uint32_t min, uint32_t preferred,
		       uint32_t max)
{
	struct {
		be16 type;
		be32 sizes[3];
	} info = {be16_make(NBD_INFO_BLOCK_SIZE),
		  {be32_make(min), be32_make(preferred), be32_make(max)}};

	add_reply(s, NBD_OPT_GO, NBD_REP_INFO, &info, sizeof(info));
}

static void add_description(struct script *s, const char *text, size_t length)
{
	uint8_t info[NBD_OPTION_REPLY_MAX + 16] = {0, NBD_INFO_DESCRIPTION};

	memcpy(info + 2, text, length);
	add_reply(s, NBD_OPT_GO, NBD_REP_INFO, info, (uint32_t)(2 + length));
}

/*
 * Feed the script to the handshake; 1 done, 0 the script ended first, or the
 * error.
 */
static int play(const struct script *s, struct nbd_handshake *h,
		struct error *err)
{
	size_t at = 0;
	int r = nbd_handshake_start(h, "disk@7", NBD_HANDSHAKE_GO, err);

	while (!r) {
		assert_true(h->want > 0 && h->want <= sizeof(h->in));
		if (s->length - at < h->want)
			return 0;
		memcpy(h->in, s->bytes + at, h->want);
		at += h->want;
		r = nbd_handshake_step(h, err);
		assert_true(h->out_length <= sizeof(h->out));
	}
	if (r == 1)
		assert_int_equal(at, s->length);
	return r;
}

struct fixture {
	struct script script;
	struct nbd_handshake handshake;
	struct error err;
};

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void learns_an_export(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	add_blocks(&f->script, 1, 4096, 1 << 20);
	add_description(&f->script, "incarnation=a", 13);
	add_export(&f->script, 1 << 30, NBD_TRANSMIT_HAS_FLAGS);
	add_reply(&f->script, NBD_OPT_GO, NBD_REP_ACK, NULL, 0);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), 1);
	assert_int_equal(f->handshake.export.size, 1 << 30);
	assert_int_equal(f->handshake.export.flags, NBD_TRANSMIT_HAS_FLAGS);
	assert_int_equal(f->handshake.export.max_payload, 1 << 20);
	assert_true(f->handshake.export.has_description);
	assert_string_equal(f->handshake.export.description, "incarnation=a");
}

static void asks_for_the_export_by_name(void **state)
{
	static const uint8_t expected[] = {
		0,   0,   0,   3,                       /* client flags */
		'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T', /* magic */
		0,   0,   0,   7,                       /* NBD_OPT_GO */
		0,   0,   0,   16,                      /* length */
		0,   0,   0,   6,                       /* of the name */
		'd', 'i', 's', 'k', '@', '7', 0,   2,   /* two requests */
		0,   2,   0,   3, /* description, block size */
	};
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), 0);
	assert_int_equal(f->handshake.out_length, sizeof(expected));
	assert_memory_equal(f->handshake.out, expected, sizeof(expected));
}

static void refuses_a_name_that_is_too_long(void **state)
{
	struct fixture *f = *state;
	char name[NBD_STRING_MAX + 2];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	assert_int_equal(nbd_handshake_start(&f->handshake, name,
					     NBD_HANDSHAKE_GO, &f->err),
			 -EINVAL);
	assert_int_equal(nbd_handshake_start(&f->handshake, "",
					     NBD_HANDSHAKE_GO, &f->err),
			 -EINVAL);
}

static void refuses_what_is_not_nbd(void **state)
{
	struct fixture *f = *state;

	add(&f->script, "HTTP/1.1 400 Bad Request", 24);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
	assert_int_equal(f->handshake.state, NBD_HANDSHAKE_FAILED);
	assert_int_equal(nbd_handshake_step(&f->handshake, &f->err), -EPROTO);
}

static void refuses_an_old_server(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, 0);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EOPNOTSUPP);
}

static void refuses_a_huge_option_reply(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_reply(&f->script, NBD_OPT_GO, NBD_REP_INFO, NULL, UINT32_MAX);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void refuses_replies_without_end(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	for (int i = 0; i <= NBD_OPTION_REPLIES_MAX; i++)
		add_description(&f->script, "x", 1);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void waits_for_the_rest_of_a_cut_reply(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_export(&f->script, 4096, 1);
	f->script.length--;
	assert_int_equal(play(&f->script, &f->handshake, &f->err), 0);
}

static void refuses_a_reply_to_another_option(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_reply(&f->script, NBD_OPT_LIST, NBD_REP_ACK, NULL, 0);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void refuses_an_acknowledgement_without_a_size(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_reply(&f->script, NBD_OPT_GO, NBD_REP_ACK, NULL, 0);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void refuses_an_impossible_size(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_export(&f->script, UINT64_MAX, 1);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void refuses_block_sizes_that_make_no_sense(void **state)
{
	static const uint32_t bad[][3] = {
		{0, 4096, 4096},   {3, 4096, 4096},    {131072, 1, 1},
		{4096, 4096, 512}, {512, 4000, 65536}, {4096, 4096, 5000},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < array_size(bad); i++) {
		f->script.length = 0;
		add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
		add_blocks(&f->script, bad[i][0], bad[i][1], bad[i][2]);
		assert_int_equal(play(&f->script, &f->handshake, &f->err),
				 -EPROTO);
	}
}

static void refuses_a_description_with_a_nul(void **state)
{
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_description(&f->script, "a\0b", 3);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), -EPROTO);
}

static void passes_over_information_it_does_not_know(void **state)
{
	static const uint8_t info[] = {0x77, 0x77, 1, 2, 3};
	struct fixture *f = *state;

	add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
	add_reply(&f->script, NBD_OPT_GO, NBD_REP_INFO, info, sizeof(info));
	add_export(&f->script, 4096, 1);
	add_reply(&f->script, NBD_OPT_GO, NBD_REP_ACK, NULL, 0);
	assert_int_equal(play(&f->script, &f->handshake, &f->err), 1);
}

static void maps_the_server_s_refusals(void **state)
{
	static const struct {
		uint32_t type;
		int error;
	} cases[] = {
		{NBD_REP_ERR_POLICY, -EACCES},
		{NBD_REP_ERR_TLS_REQD, -EACCES},
		{NBD_REP_ERR_UNKNOWN, -ENOENT},
		{NBD_REP_ERR_SHUTDOWN, -EHOSTUNREACH},
		{NBD_REP_ERR_UNSUP, -EOPNOTSUPP},
		{NBD_REP_ERR_BLOCK_SIZE_REQD, -EOPNOTSUPP},
		{NBD_REP_ERR_TOO_BIG, -EPROTO},
		{NBD_REP_ERROR(12345), -EPROTO},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < array_size(cases); i++) {
		f->script.length = 0;
		add_greeting(&f->script, NBD_FLAG_FIXED_NEWSTYLE);
		add_reply(&f->script, NBD_OPT_GO, cases[i].type, "why\n", 4);
		assert_int_equal(play(&f->script, &f->handshake, &f->err),
				 cases[i].error);
		assert_non_null(strstr(f->err.msg, "why"));
		assert_null(strchr(f->err.msg, '\n'));
	}
}

static void encodes_a_request(void **state)
{
	static const uint8_t expected[28] = {
		0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 0, 0, 0, 0, 0,    0,
		0x12, 0x34, 0,    0,    0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0,
	};
	struct nbd_wire_request wire;

	(void)state;
	nbd_request_encode(&wire, NBD_CMD_WRITE, NBD_CMD_FLAG_FUA, 0x1234,
			   0x10000, 4096);
	assert_memory_equal(&wire, expected, sizeof(expected));
}

static void decodes_replies(void **state)
{
	struct nbd_wire_simple_reply wire = {
		.magic = be32_make(NBD_SIMPLE_REPLY_MAGIC),
		.cookie = be64_make(99),
	};
	struct nbd_reply reply;

	(void)state;
	assert_int_equal(nbd_reply_decode(&wire, &reply), 0);
	assert_int_equal(reply.error, 0);
	assert_int_equal(reply.cookie, 99);
	wire.error = be32_make(NBD_ENOSPC);
	assert_int_equal(nbd_reply_decode(&wire, &reply), 0);
	assert_int_equal(reply.error, -ENOSPC);
	wire.error = be32_make(4242);
	assert_int_equal(nbd_reply_decode(&wire, &reply), 0);
	assert_int_equal(reply.error, -EINVAL);
	wire.error = be32_make(NBD_ESHUTDOWN);
	assert_int_equal(nbd_reply_decode(&wire, &reply), 0);
	assert_true(reply.leaving);
	wire.magic = be32_make(NBD_STRUCTURED_REPLY_MAGIC);
	assert_int_equal(nbd_reply_decode(&wire, &reply), -EPROTO);
}

static struct nbd_export an_export(const char *description)
{
	struct nbd_export e = {
		.size = 1 << 20,
		.flags = NBD_TRANSMIT_HAS_FLAGS | NBD_TRANSMIT_SEND_FLUSH,
		.min_block = 1,
		.max_payload = 1 << 20,
		.has_description = description != NULL,
	};

	if (description)
		memcpy(e.description, description, strlen(description) + 1);
	return e;
}

static void resumes_only_on_the_same_incarnation(void **state)
{
	struct nbd_export a = an_export("a"), b = an_export("b");
	struct nbd_export none = an_export(NULL);

	(void)state;
	assert_int_equal(nbd_export_may_resume(&a, &a, true, NULL), 0);
	assert_int_equal(nbd_export_may_resume(&a, &b, false, NULL), -ESTALE);
	assert_int_equal(nbd_export_may_resume(&a, &b, true, NULL), -ESTALE);
	assert_int_equal(nbd_export_may_resume(&none, &none, true, NULL),
			 -ESTALE);
	assert_int_equal(nbd_export_may_resume(&a, &none, true, NULL), -ESTALE);
	assert_int_equal(nbd_export_may_resume(&none, &none, false, NULL), 0);
}

static void does_not_resume_on_less_than_it_had(void **state)
{
	struct nbd_export first = an_export("a"), now = first;

	(void)state;
	now.size *= 2;
	assert_int_equal(nbd_export_may_resume(&first, &now, true, NULL), 0);
	now.size = first.size / 2;
	assert_int_equal(nbd_export_may_resume(&first, &now, true, NULL),
			 -EINVAL);
	now = first;
	now.flags &= (uint16_t)~NBD_TRANSMIT_SEND_FLUSH;
	assert_int_equal(nbd_export_may_resume(&first, &now, true, NULL),
			 -EINVAL);
	now = first;
	now.flags |= NBD_TRANSMIT_READ_ONLY;
	assert_int_equal(nbd_export_may_resume(&first, &now, true, NULL),
			 -EINVAL);
}

static void checks_that_a_device_can_be_made(void **state)
{
	struct nbd_export e = an_export(NULL);

	(void)state;
	assert_int_equal(nbd_export_check(&e, e.size, 4096, false, NULL), 0);
	assert_int_equal(nbd_export_check(&e, e.size + 4096, 4096, false, NULL),
			 -EINVAL);
	e.min_block = 8192;
	assert_int_equal(nbd_export_check(&e, e.size, 4096, false, NULL),
			 -EINVAL);
	e = an_export(NULL);
	e.flags |= NBD_TRANSMIT_READ_ONLY;
	assert_int_equal(nbd_export_check(&e, e.size, 4096, false, NULL),
			 -EROFS);
	assert_int_equal(nbd_export_check(&e, e.size, 4096, true, NULL), 0);
	e = an_export(NULL);
	e.flags = NBD_TRANSMIT_HAS_FLAGS;
	assert_int_equal(nbd_export_check(&e, e.size, 4096, false, NULL),
			 -EOPNOTSUPP);
	assert_int_equal(nbd_export_check(&e, e.size, 4096, true, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(learns_an_export),
		TEST(asks_for_the_export_by_name),
		TEST(refuses_a_name_that_is_too_long),
		TEST(refuses_what_is_not_nbd),
		TEST(refuses_an_old_server),
		TEST(refuses_a_huge_option_reply),
		TEST(refuses_replies_without_end),
		TEST(waits_for_the_rest_of_a_cut_reply),
		TEST(refuses_a_reply_to_another_option),
		TEST(refuses_an_acknowledgement_without_a_size),
		TEST(refuses_an_impossible_size),
		TEST(refuses_block_sizes_that_make_no_sense),
		TEST(refuses_a_description_with_a_nul),
		TEST(passes_over_information_it_does_not_know),
		TEST(maps_the_server_s_refusals),
		TEST(encodes_a_request),
		TEST(decodes_replies),
		TEST(resumes_only_on_the_same_incarnation),
		TEST(does_not_resume_on_less_than_it_had),
		TEST(checks_that_a_device_can_be_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
