/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/iscsi_session_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wire/crc32c.h"

uint8_t iscsi_kit_pattern[ISCSI_KIT_PAYLOAD_MAX];

static enum iscsi_login_status find(void *context,
				    const struct iscsi_login *login,
				    const struct chap_secrets **ret)
{
	(void)context;
	(void)login;
	*ret = NULL;
	return ISCSI_LOGIN_OK;
}

static int list(void *context, struct iscsi_session *session)
{
	(void)context;
	(void)iscsi_session_list_add(session, "iqn.t:x");
	return iscsi_session_list_add(session, "iqn.t:y");
}

static void task_done(void *context, struct iscsi_task *task)
{
	struct iscsi_kit *kit = context;

	kit->n_done++;
	free(task);
}

static const struct iscsi_session_ops ops = {
	.login = {.find = find}, .list = list, .task_done = task_done};

/* ---- feeding ---- */

void iscsi_kit_gather(struct iscsi_kit *kit)
{
	while (iscsi_session_gather(&kit->session, &kit->batch)) {
		for (unsigned i = 0; i < kit->batch.n_iov; i++) {
			const struct iovec *iov = &kit->batch.iov[i];

			assert_true(kit->out_end + iov->iov_len <=
				    sizeof(kit->out));
			memcpy(kit->out + kit->out_end, iov->iov_base,
			       iov->iov_len);
			kit->out_end += iov->iov_len;
		}
		iscsi_session_sent(&kit->session, &kit->batch);
	}
}

static void on_command(struct iscsi_kit *kit)
{
	struct iscsi_task *task = calloc(1, sizeof(*task));

	assert_non_null(task);
	kit->task = task;
	iscsi_session_task_init(&kit->session, task, &kit->event);
	task->wanted = task->expected_out < kit->wanted ? task->expected_out
							: kit->wanted;
	task->has_buffer = !kit->no_buffer;
	if (iscsi_session_accept(&kit->session, task))
		kit->n_ready++;
}

static size_t on_payload(struct iscsi_kit *kit, const uint8_t *data,
			 size_t length)
{
	uint32_t n = kit->event.length;

	if (n > length)
		n = (uint32_t)length;
	assert_true(kit->event.offset + n <= ISCSI_KIT_PAYLOAD_MAX);
	memcpy(kit->memory + kit->event.offset, data, n);
	iscsi_session_payload_taken(&kit->session, data, n);
	return n;
}

void iscsi_kit_feed(struct iscsi_kit *kit, const uint8_t *data, size_t length)
{
	for (;;) {
		struct iscsi_event event;
		size_t n = iscsi_session_feed(&kit->session, data, length,
					      &event);

		data += n;
		length -= n;
		if (event.type == ISCSI_EVENT_MORE) {
			if (event.again)
				continue;
			break;
		}
		kit->event = event;
		if (event.pdu)
			kit->pdu = *event.pdu;
		if (event.type == ISCSI_EVENT_COMMAND)
			on_command(kit);
		if (event.type == ISCSI_EVENT_READY) {
			assert_ptr_equal(event.task, kit->task);
			kit->n_ready++;
		}
		if (event.type == ISCSI_EVENT_COMMIT)
			iscsi_session_begin(&kit->session, 0x77);
		if (event.type == ISCSI_EVENT_PAYLOAD) {
			n = on_payload(kit, data, length);
			data += n;
			length -= n;
		}
		if (event.type >= ISCSI_EVENT_LOGOUT)
			break;
	}
	assert_int_equal(length, 0);
	iscsi_kit_gather(kit);
}

void iscsi_kit_send_pdu(struct iscsi_kit *kit, struct iscsi_wire_bhs bhs,
			const void *data, uint32_t length)
{
	static uint8_t wire[ISCSI_KIT_PAYLOAD_MAX + 128];
	uint32_t n = sizeof(bhs), padding = iscsi_padding(length);
	le32 digest;

	bhs.data_length[0] = (uint8_t)(length >> 16);
	bhs.data_length[1] = (uint8_t)(length >> 8);
	bhs.data_length[2] = (uint8_t)length;
	memcpy(wire, &bhs, n);
	if (kit->header_digest) {
		digest = iscsi_digest_make(crc32c(0, &bhs, sizeof(bhs)));
		memcpy(wire + n, &digest, 4);
		n += 4;
	}
	if (length > 0) {
		memcpy(wire + n, data, length);
		memset(wire + n + length, 0, padding);
		digest = iscsi_digest_make(
			crc32c(0, wire + n, length + padding));
		n += length + padding;
	}
	if (length > 0 && kit->data_digest) {
		memcpy(wire + n, &digest, 4);
		n += 4;
	}
	iscsi_kit_feed(kit, wire, n);
}

struct iscsi_wire_bhs iscsi_kit_header(uint8_t opcode, uint8_t flags,
				       uint32_t itt)
{
	return (struct iscsi_wire_bhs){
		.opcode = opcode, .flags = flags, .itt = be32_make(itt)};
}

void iscsi_kit_set(struct iscsi_wire_bhs *bhs, enum iscsi_word n,
		   uint32_t value)
{
	bhs->word[n] = be32_make(value);
}

const struct iscsi_kit_said *iscsi_kit_said(struct iscsi_kit *kit)
{
	static struct iscsi_kit_said s;
	const uint8_t *at = kit->out + kit->out_start;
	size_t left = kit->out_end - kit->out_start, n = sizeof(s.bhs);
	uint32_t padding;

	if (left == 0)
		return NULL;
	assert_true(left >= n);
	memcpy(&s.bhs, at, sizeof(s.bhs));
	s.length = (uint32_t)s.bhs.data_length[0] << 16 |
		   (uint32_t)s.bhs.data_length[1] << 8 | s.bhs.data_length[2];
	padding = iscsi_padding(s.length);
	if (kit->header_digest) {
		le32 digest = iscsi_digest_make(crc32c(0, at, 48));

		assert_memory_equal(at + n, &digest, 4);
		n += 4;
	}
	memcpy(s.data, at + n, s.length);
	if (kit->data_digest && s.length > 0) {
		le32 digest = iscsi_digest_make(
			crc32c(0, at + n, s.length + padding));

		assert_memory_equal(at + n + s.length + padding, &digest, 4);
		n += 4;
	}
	kit->out_start += n + s.length + padding;
	assert_true(kit->out_start <= kit->out_end);
	return &s;
}

const struct iscsi_kit_said *iscsi_kit_expect(struct iscsi_kit *kit,
					      uint8_t opcode)
{
	const struct iscsi_kit_said *s = iscsi_kit_said(kit);

	assert_non_null(s);
	assert_int_equal(s->bhs.opcode, opcode);
	return s;
}

uint32_t iscsi_kit_word(const struct iscsi_kit_said *s, enum iscsi_word n)
{
	return be32_get(s->bhs.word[n]);
}

void iscsi_kit_login(struct iscsi_kit *kit, const char *text, size_t length)
{
	struct iscsi_wire_bhs bhs = iscsi_kit_header(0x43, 0x87, 1);

	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn);
	iscsi_kit_send_pdu(kit, bhs, text, (uint32_t)length);
	assert_int_equal(kit->event.type, ISCSI_EVENT_COMMIT);
	(void)iscsi_kit_expect(kit, ISCSI_LOGIN_RESPONSE);
}

struct iscsi_wire_bhs iscsi_kit_command(struct iscsi_kit *kit, uint8_t flags,
					uint32_t itt, uint32_t expected)
{
	struct iscsi_wire_bhs bhs = iscsi_kit_header(ISCSI_COMMAND, flags, itt);

	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, expected);
	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn++);
	kit->wanted = expected;
	return bhs;
}

struct iscsi_wire_bhs iscsi_kit_data_out(bool final, uint32_t itt, uint32_t ttt,
					 uint32_t datasn, uint32_t offset)
{
	struct iscsi_wire_bhs bhs = iscsi_kit_header(ISCSI_DATA_OUT,
						     final ? 0x80 : 0, itt);

	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, ttt);
	iscsi_kit_set(&bhs, ISCSI_WORD_DATASN, datasn);
	iscsi_kit_set(&bhs, ISCSI_WORD_OFFSET, offset);
	return bhs;
}

int iscsi_kit_setup(void **state)
{
	struct iscsi_kit *kit = calloc(1, sizeof(*kit));

	assert_non_null(kit);
	for (size_t i = 0; i < sizeof(iscsi_kit_pattern); i++)
		iscsi_kit_pattern[i] = (uint8_t)(i * 31 + i / 509);
	kit->cmdsn = 0xfffffffe; /* numbers wrap */
	iscsi_session_init(&kit->session, &ops, kit, "10.0.0.1:3260");
	*state = kit;
	return 0;
}

int iscsi_kit_teardown(void **state)
{
	struct iscsi_kit *kit = *state;

	iscsi_session_done(&kit->session);
	free(kit);
	return 0;
}

void iscsi_kit_answer(struct iscsi_kit *kit, uint32_t in_length)
{
	struct iscsi_task *task = kit->task;

	task->in = iscsi_kit_pattern;
	task->in_length = in_length;
	task->transfer_length = task->write ? task->wanted : in_length;
	iscsi_session_answer(&kit->session, task);
	iscsi_kit_gather(kit);
}
