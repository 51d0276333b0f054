/* SPDX-License-Identifier: Apache-2.0 */
/* A session fed with bytes, no sockets: what it says, and when. */
#include "target/iscsi_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"

#define PAYLOAD_MAX (UINT32_C(1) << 20)

struct kit {
	struct iscsi_session session;
	struct iscsi_batch batch;
	uint8_t out[2u << 20]; /* what was said and not looked at */
	size_t out_start, out_end;
	bool header_digest, data_digest; /* in what we read and write */
	struct iscsi_event event;        /* the last one that was not MORE */
	struct iscsi_pdu pdu;            /* of it */
	struct iscsi_task *task;         /* of the last command */
	uint8_t memory[PAYLOAD_MAX];     /* where payloads go */
	bool no_buffer;                  /* for the next command */
	uint32_t wanted;                 /* of the next command */
	unsigned n_done;                 /* tasks that are out */
	unsigned n_ready;
	uint32_t cmdsn;
};

struct said {
	struct iscsi_wire_bhs bhs;
	uint8_t data[300u << 10];
	uint32_t length;
};

static enum iscsi_login_status find(void *context,
				    const struct iscsi_login *login,
				    const struct iscsi_chap_secrets **ret)
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
	struct kit *kit = context;

	kit->n_done++;
	free(task);
}

static const struct iscsi_session_ops ops = {
	.login = {.find = find}, .list = list, .task_done = task_done};

/* ---- feeding ---- */

static void gather(struct kit *kit)
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

static void on_command(struct kit *kit)
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

static size_t on_payload(struct kit *kit, const uint8_t *data, size_t length)
{
	uint32_t n = kit->event.length;

	if (n > length)
		n = (uint32_t)length;
	assert_true(kit->event.offset + n <= PAYLOAD_MAX);
	memcpy(kit->memory + kit->event.offset, data, n);
	iscsi_session_payload_taken(&kit->session, data, n);
	return n;
}

static void feed(struct kit *kit, const uint8_t *data, size_t length)
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
	gather(kit);
}

static void send_pdu(struct kit *kit, struct iscsi_wire_bhs bhs,
		     const void *data, uint32_t length)
{
	static uint8_t wire[PAYLOAD_MAX + 128];
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
	feed(kit, wire, n);
}

static struct iscsi_wire_bhs header(uint8_t opcode, uint8_t flags, uint32_t itt)
{
	return (struct iscsi_wire_bhs){
		.opcode = opcode, .flags = flags, .itt = be32_make(itt)};
}

static void set(struct iscsi_wire_bhs *bhs, enum iscsi_word n, uint32_t value)
{
	bhs->word[n] = be32_make(value);
}

/* The next PDU that was said; NULL: there is none. */
static const struct said *said(struct kit *kit)
{
	static struct said s;
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

static const struct said *expect(struct kit *kit, uint8_t opcode)
{
	const struct said *s = said(kit);

	assert_non_null(s);
	assert_int_equal(s->bhs.opcode, opcode);
	return s;
}

static uint32_t word(const struct said *s, enum iscsi_word n)
{
	return be32_get(s->bhs.word[n]);
}

#define LOGIN "InitiatorName=iqn.a:b\0TargetName=iqn.t:x\0"

static void login(struct kit *kit, const char *text, size_t length)
{
	struct iscsi_wire_bhs bhs = header(0x43, 0x87, 1);

	set(&bhs, ISCSI_WORD_SN, kit->cmdsn);
	send_pdu(kit, bhs, text, (uint32_t)length);
	assert_int_equal(kit->event.type, ISCSI_EVENT_COMMIT);
	(void)expect(kit, ISCSI_LOGIN_RESPONSE);
}

#define LOGIN_WITH(kit, text) login((kit), LOGIN text, sizeof(LOGIN text) - 1)

/* @flags: 0x40 read, 0x20 write, 0x80 final */
static struct iscsi_wire_bhs command(struct kit *kit, uint8_t flags,
				     uint32_t itt, uint32_t expected)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_COMMAND, flags, itt);

	set(&bhs, ISCSI_WORD_TTT, expected);
	set(&bhs, ISCSI_WORD_SN, kit->cmdsn++);
	kit->wanted = expected;
	return bhs;
}

static struct iscsi_wire_bhs data_out(bool final, uint32_t itt, uint32_t ttt,
				      uint32_t datasn, uint32_t offset)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_DATA_OUT, final ? 0x80 : 0,
					   itt);

	set(&bhs, ISCSI_WORD_TTT, ttt);
	set(&bhs, ISCSI_WORD_DATASN, datasn);
	set(&bhs, ISCSI_WORD_OFFSET, offset);
	return bhs;
}

static int setup(void **state)
{
	struct kit *kit = calloc(1, sizeof(*kit));

	assert_non_null(kit);
	kit->cmdsn = 0xfffffffe; /* numbers wrap */
	iscsi_session_init(&kit->session, &ops, kit, "10.0.0.1:3260");
	*state = kit;
	return 0;
}

static int teardown(void **state)
{
	struct kit *kit = *state;

	iscsi_session_done(&kit->session);
	free(kit);
	return 0;
}

static uint8_t pattern[PAYLOAD_MAX];

static void answer(struct kit *kit, uint32_t in_length)
{
	struct iscsi_task *task = kit->task;

	task->in = pattern;
	task->in_length = in_length;
	task->transfer_length = task->write ? task->wanted : in_length;
	iscsi_session_answer(&kit->session, task);
	gather(kit);
}

/* ---- tests ---- */

static void a_read_is_answered_with_its_status_in_the_data(void **state)
{
	struct kit *kit = *state;
	const struct said *s;

	LOGIN_WITH(kit, "MaxRecvDataSegmentLength=8192\0");
	send_pdu(kit, command(kit, 0xc0, 7, 20000), NULL, 0);
	assert_int_equal(kit->n_ready, 1);
	answer(kit, 20000);
	for (uint32_t i = 0; i < 3; i++) {
		s = expect(kit, ISCSI_DATA_IN);
		assert_int_equal(word(s, ISCSI_WORD_DATASN), i);
		assert_int_equal(word(s, ISCSI_WORD_OFFSET), i * 8192);
		assert_int_equal(s->length, i < 2 ? 8192 : 20000 - 16384);
		assert_memory_equal(s->data, pattern + i * 8192, s->length);
		assert_int_equal(s->bhs.flags, i < 2 ? 0 : 0x81);
	}
	assert_int_equal(word(s, ISCSI_WORD_SN), 1); /* behind the login's */
	assert_int_equal(word(s, ISCSI_WORD_EXP_SN), 0xffffffff);
	assert_int_equal(word(s, ISCSI_WORD_MAX_SN),
			 0xffffffff + ISCSI_WINDOW - 1);
	assert_null(said(kit));
	assert_int_equal(kit->n_done, 1);
}

static void residuals_are_told(void **state)
{
	struct kit *kit = *state;
	const struct said *s;

	LOGIN_WITH(kit, "");
	send_pdu(kit, command(kit, 0xc0, 7, 1000), NULL, 0);
	answer(kit, 600);
	s = expect(kit, ISCSI_DATA_IN);
	assert_int_equal(s->bhs.flags, 0x83);
	assert_int_equal(word(s, ISCSI_WORD_LENGTH), 400);
	send_pdu(kit, command(kit, 0xc0, 8, 1000), NULL, 0);
	answer(kit, 1600);
	s = expect(kit, ISCSI_DATA_IN);
	assert_int_equal(s->length, 1000);
	assert_int_equal(s->bhs.flags, 0x85);
	assert_int_equal(word(s, ISCSI_WORD_LENGTH), 600);
}

static void sense_comes_in_a_response(void **state)
{
	struct kit *kit = *state;
	const struct said *s;

	LOGIN_WITH(kit, "DataDigest=CRC32C\0");
	kit->data_digest = true;
	send_pdu(kit, command(kit, 0xc0, 7, 512), NULL, 0);
	kit->task->status = 2;
	kit->task->sense = pattern;
	kit->task->sense_length = 18;
	answer(kit, 0);
	s = expect(kit, ISCSI_RESPONSE);
	assert_int_equal(s->bhs.byte3, 2);
	assert_int_equal(s->length, 20);
	assert_memory_equal(s->data, "\0\x12", 2);
	assert_memory_equal(s->data + 2, pattern, 18);
	assert_int_equal(s->bhs.flags, 0x82);
}

static void a_write_is_asked_for_in_bursts(void **state)
{
	struct kit *kit = *state;
	uint32_t total = 40000, ttt[2];
	const struct said *s;

	LOGIN_WITH(kit, "MaxBurstLength=16384\0MaxOutstandingR2T=2\0"
			"ImmediateData=Yes\0FirstBurstLength=8192\0");
	send_pdu(kit, command(kit, 0xa0, 7, total), pattern, 4096);
	for (uint32_t i = 0; i < 2; i++) {
		s = expect(kit, ISCSI_R2T);
		ttt[i] = word(s, ISCSI_WORD_TTT);
		assert_int_equal(word(s, ISCSI_WORD_DATASN), i);
		assert_int_equal(word(s, ISCSI_WORD_OFFSET), 4096 + i * 16384);
		assert_int_equal(word(s, ISCSI_WORD_LENGTH), 16384);
	}
	assert_null(said(kit));
	send_pdu(kit, data_out(false, 7, ttt[0], 0, 4096), pattern + 4096,
		 8192);
	assert_null(said(kit));
	send_pdu(kit, data_out(true, 7, ttt[0], 1, 12288), pattern + 12288,
		 8192);
	s = expect(kit, ISCSI_R2T);
	assert_int_equal(word(s, ISCSI_WORD_OFFSET), 4096 + 32768);
	assert_int_equal(word(s, ISCSI_WORD_LENGTH), total - 4096 - 32768);
	send_pdu(kit, data_out(true, 7, ttt[1], 0, 20480), pattern + 20480,
		 16384);
	assert_int_equal(kit->n_ready, 0);
	send_pdu(kit, data_out(true, 7, word(s, ISCSI_WORD_TTT), 0, 36864),
		 pattern + 36864, total - 36864);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, pattern, total);
	answer(kit, 0);
	s = expect(kit, ISCSI_RESPONSE);
	assert_int_equal(word(s, ISCSI_WORD_DATASN), 3); /* R2Ts */
}

static void unsolicited_data_follows_a_write(void **state)
{
	struct kit *kit = *state;

	LOGIN_WITH(kit, "InitialR2T=No\0FirstBurstLength=12288\0");
	send_pdu(kit, command(kit, 0x20, 7, 12288), pattern, 4096);
	assert_int_equal(kit->n_ready, 0);
	send_pdu(kit, data_out(false, 7, ISCSI_TAG_NONE, 0, 4096),
		 pattern + 4096, 4096);
	send_pdu(kit, data_out(true, 7, ISCSI_TAG_NONE, 1, 8192),
		 pattern + 8192, 4096);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, pattern, 12288);
	assert_null(said(kit));
	answer(kit, 0);
	(void)expect(kit, ISCSI_RESPONSE);
}

static void what_a_command_does_not_take_goes_by(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	const struct said *s;

	LOGIN_WITH(kit, "");
	bhs = command(kit, 0xa0, 7, 4096);
	kit->wanted = 512;
	send_pdu(kit, bhs, pattern, 4096);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, pattern, 512);
	assert_int_equal(kit->memory[512], 0);
	answer(kit, 0);
	s = expect(kit, ISCSI_RESPONSE);
	assert_int_equal(word(s, ISCSI_WORD_LENGTH), 4096 - 512);
}

/* An answer with sense @asc for the command's data. */
static void fails_with(struct kit *kit, uint8_t asc, uint8_t ascq)
{
	const struct said *s;

	assert_int_equal(kit->n_ready, 1);
	iscsi_session_answer_error(&kit->session, kit->task);
	gather(kit);
	s = expect(kit, ISCSI_RESPONSE);
	assert_int_equal(s->bhs.byte3, 2);
	assert_int_equal(s->data[2 + 2], 0x0b);
	assert_int_equal(s->data[2 + 12], asc);
	assert_int_equal(s->data[2 + 13], ascq);
}

static void data_nobody_allowed_fails_its_command(void **state)
{
	struct kit *kit = *state;

	LOGIN_WITH(kit, "ImmediateData=No\0");
	send_pdu(kit, command(kit, 0xa0, 7, 4096), pattern, 4096);
	fails_with(kit, 0x0c, 0x0c);
}

static void a_short_burst_fails_its_command(void **state)
{
	struct kit *kit = *state;
	uint32_t ttt;

	LOGIN_WITH(kit, "");
	send_pdu(kit, command(kit, 0xa0, 7, 4096), NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	send_pdu(kit, data_out(true, 7, ttt, 0, 0), pattern, 512);
	fails_with(kit, 0x0c, 0x0d);
}

static void data_out_of_sequence_fails_its_command(void **state)
{
	struct kit *kit = *state;
	uint32_t ttt;

	LOGIN_WITH(kit, "");
	send_pdu(kit, command(kit, 0xa0, 7, 1024), NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	send_pdu(kit, data_out(false, 7, ttt, 1, 0), pattern, 512);
	assert_int_equal(kit->n_ready, 0);
	send_pdu(kit, data_out(true, 7, ttt, 0, 512), pattern, 512);
	fails_with(kit, 0x47, 0x05);
}

static void data_behind_the_end_ends_the_connection(void **state)
{
	struct kit *kit = *state;
	uint32_t ttt;

	LOGIN_WITH(kit, "");
	send_pdu(kit, command(kit, 0xa0, 7, 1024), NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	send_pdu(kit, data_out(true, 7, ttt, 0, 1024), NULL, 0);
	assert_int_equal(kit->event.type, ISCSI_EVENT_READY); /* short */
	iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
	send_pdu(kit, command(kit, 0xa0, 8, 1024), NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	{
		struct iscsi_wire_bhs bhs = data_out(true, 8, ttt, 0, 1000);
		struct iscsi_event event;

		bhs.data_length[2] = 100;
		(void)iscsi_session_feed(&kit->session, &bhs, sizeof(bhs),
					 &event);
		assert_int_equal(event.type, ISCSI_EVENT_DROP);
	}
	iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
}

static void a_wrong_data_digest_is_rejected(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	uint32_t ttt;

	LOGIN_WITH(kit, "DataDigest=CRC32C\0HeaderDigest=CRC32C\0");
	kit->header_digest = kit->data_digest = true;
	bhs = command(kit, 0xa0, 7, 1024);
	send_pdu(kit, bhs, NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	{
		uint8_t wire[48 + 4 + 1024 + 4] = {0};
		le32 digest;

		bhs = data_out(true, 7, ttt, 0, 0);
		bhs.data_length[1] = 4;
		memcpy(wire, &bhs, 48);
		digest = iscsi_digest_make(crc32c(0, wire, 48));
		memcpy(wire + 48, &digest, 4);
		feed(kit, wire, sizeof(wire));
	}
	assert_int_equal(expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_DATA_DIGEST);
	fails_with(kit, 0x47, 0x05);
}

static void a_wrong_header_digest_ends_the_connection(void **state)
{
	struct kit *kit = *state;
	uint8_t wire[52] = {0x40, 0x80};

	LOGIN_WITH(kit, "HeaderDigest=CRC32C\0");
	{
		struct iscsi_event event;

		(void)iscsi_session_feed(&kit->session, wire, sizeof(wire),
					 &event);
		assert_int_equal(event.type, ISCSI_EVENT_DROP);
	}
}

static void commands_outside_the_window_are_ignored(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs;

	LOGIN_WITH(kit, "");
	bhs = command(kit, 0x80, 7, 0);
	set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 1 + ISCSI_WINDOW);
	send_pdu(kit, bhs, NULL, 0);
	set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 2);
	send_pdu(kit, bhs, pattern, 512);
	assert_null(kit->task);
	set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 1);
	send_pdu(kit, bhs, NULL, 0);
	assert_non_null(kit->task);
	answer(kit, 0);
	(void)expect(kit, ISCSI_RESPONSE);
}

static void a_gap_in_the_numbers_ends_the_connection(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	struct iscsi_event event;

	LOGIN_WITH(kit, "");
	bhs = command(kit, 0x80, 7, 0);
	set(&bhs, ISCSI_WORD_SN, kit->cmdsn);
	(void)iscsi_session_feed(&kit->session, &bhs, sizeof(bhs), &event);
	assert_int_equal(event.type, ISCSI_EVENT_DROP);
}

static void the_window_closes_as_commands_pile_up(void **state)
{
	struct kit *kit = *state;
	struct iscsi_task *tasks[ISCSI_WINDOW];
	const struct said *s;

	LOGIN_WITH(kit, "");
	for (uint32_t i = 0; i < ISCSI_WINDOW; i++) {
		send_pdu(kit, command(kit, 0x80, i, 0), NULL, 0);
		tasks[i] = kit->task;
	}
	assert_int_equal(kit->n_ready, ISCSI_WINDOW);
	kit->task = NULL;
	send_pdu(kit, command(kit, 0x80, 999, 0), NULL, 0);
	assert_null(kit->task); /* ignored */
	for (uint32_t i = 0; i < ISCSI_WINDOW; i++)
		iscsi_session_answer(&kit->session, tasks[i]);
	gather(kit);
	s = expect(kit, ISCSI_RESPONSE);
	assert_int_equal(word(s, ISCSI_WORD_MAX_SN) -
				 word(s, ISCSI_WORD_EXP_SN),
			 ISCSI_WINDOW - 1);
}

static void pings_are_answered_and_sent(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs = header(0x40, 0x80, 5);
	const struct said *s;

	LOGIN_WITH(kit, "");
	set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	send_pdu(kit, bhs, "abcde", 5);
	s = expect(kit, ISCSI_NOP_IN);
	assert_int_equal(be32_get(s->bhs.itt), 5);
	assert_int_equal(word(s, ISCSI_WORD_TTT), ISCSI_TAG_NONE);
	assert_memory_equal(s->data, "abcde", 5);
	iscsi_session_ping(&kit->session);
	gather(kit);
	assert_true(kit->session.ping);
	s = expect(kit, ISCSI_NOP_IN);
	bhs = header(0x40, 0x80, ISCSI_TAG_NONE);
	set(&bhs, ISCSI_WORD_TTT, word(s, ISCSI_WORD_TTT));
	send_pdu(kit, bhs, NULL, 0);
	assert_false(kit->session.ping);
	assert_null(said(kit));
}

static void discovery_lists_targets(void **state)
{
	struct kit *kit = *state;
	static const char text[] =
		"InitiatorName=iqn.a:b\0SessionType=Discovery\0";
	struct iscsi_wire_bhs bhs = header(0x44, 0x80, 2);
	const struct said *s;

	login(kit, text, sizeof(text) - 1);
	set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	send_pdu(kit, bhs, "SendTargets=All\0", 16);
	s = expect(kit, ISCSI_TEXT_RESPONSE);
	assert_int_equal(s->bhs.flags, 0x80);
	assert_memory_equal(s->data,
			    "TargetName=iqn.t:x\0"
			    "TargetAddress=10.0.0.1:3260,1\0"
			    "TargetName=iqn.t:y\0",
			    19 + 30 + 19);
	send_pdu(kit, bhs, "SendTargets=iqn.t:y\0", 20);
	s = expect(kit, ISCSI_TEXT_RESPONSE);
	assert_memory_equal(s->data, "TargetName=iqn.t:y\0", 19);
	assert_int_equal(s->length, 19 + 30);
	/* No commands in such a session. */
	send_pdu(kit, command(kit, 0x80, 9, 0), NULL, 0);
	assert_int_equal(expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_PROTOCOL);
}

static void a_long_text_comes_in_pieces(void **state)
{
	struct kit *kit = *state;
	static const char text[] = "InitiatorName=iqn.a:b\0"
				   "SessionType=Discovery\0"
				   "MaxRecvDataSegmentLength=512\0";
	struct iscsi_wire_bhs bhs = header(0x44, 0x80, 2);
	char big[200] = "", *at = big;
	const struct said *s;

	for (unsigned i = 0; i < 20; i++) /* each answered NotUnderstood */
		at += sprintf(at, "X-key%u=", i) + 1;
	login(kit, text, sizeof(text) - 1);
	set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	send_pdu(kit, bhs, big, (uint32_t)(at - big));
	s = expect(kit, ISCSI_TEXT_RESPONSE);
	/* 20 * (8 or 7 + 14): in one PDU of 512 */
	assert_true(s->length < 512 && s->bhs.flags == 0x80);
	kit->session.params.max_segment = 100;
	send_pdu(kit, bhs, big, (uint32_t)(at - big));
	s = expect(kit, ISCSI_TEXT_RESPONSE);
	assert_int_equal(s->length, 100);
	assert_int_equal(s->bhs.flags, 0x40);
	while (!(s->bhs.flags & 0x80)) {
		set(&bhs, ISCSI_WORD_TTT, word(s, ISCSI_WORD_TTT));
		send_pdu(kit, bhs, NULL, 0);
		s = expect(kit, ISCSI_TEXT_RESPONSE);
	}
	assert_int_equal(word(s, ISCSI_WORD_TTT), ISCSI_TAG_NONE);
}

static void what_it_does_not_know_is_rejected(void **state)
{
	struct kit *kit = *state;
	const struct said *s;

	LOGIN_WITH(kit, "");
	send_pdu(kit, header(0x5c, 0x80, 3), NULL, 0);
	s = expect(kit, ISCSI_REJECT);
	assert_int_equal(s->bhs.byte2, ISCSI_REJECT_NOT_SUPPORTED);
	assert_int_equal(s->length, 48);
	assert_int_equal(s->data[0], 0x5c);
	send_pdu(kit, header(ISCSI_SNACK, 0x80, 3), NULL, 0);
	assert_int_equal(expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_SNACK);
}

static void an_aborted_command_is_forgotten(void **state)
{
	struct kit *kit = *state;
	uint32_t ttt;

	LOGIN_WITH(kit, "");
	send_pdu(kit, command(kit, 0xa0, 7, 4096), NULL, 0);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	assert_ptr_equal(iscsi_session_task(&kit->session, 7), kit->task);
	iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
	assert_null(iscsi_session_task(&kit->session, 7));
	send_pdu(kit, data_out(true, 7, ttt, 0, 0), pattern, 4096);
	assert_null(said(kit));
	assert_int_equal(kit->n_ready, 0);
}

static void a_write_without_buffer_waits_or_is_told_full(void **state)
{
	struct kit *kit = *state;
	uint32_t ttt;

	LOGIN_WITH(kit, "");
	kit->no_buffer = true;
	send_pdu(kit, command(kit, 0xa0, 7, 4096), NULL, 0);
	assert_null(said(kit)); /* nothing is asked for */
	iscsi_session_solicit(&kit->session, kit->task);
	gather(kit);
	ttt = word(expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	send_pdu(kit, data_out(true, 7, ttt, 0, 0), pattern, 4096);
	assert_int_equal(kit->n_ready, 1);
	answer(kit, 0);
	(void)expect(kit, ISCSI_RESPONSE);
	send_pdu(kit, command(kit, 0xa0, 8, 4096), pattern, 4096);
	assert_int_equal(kit->n_ready, 2);
	iscsi_session_answer_error(&kit->session, kit->task);
	gather(kit);
	assert_int_equal(expect(kit, ISCSI_RESPONSE)->bhs.byte3, 0x28);
}

static void says_goodbye(void **state)
{
	struct kit *kit = *state;
	struct iscsi_wire_bhs bhs = header(0x46, 0x82, 9);

	LOGIN_WITH(kit, "");
	send_pdu(kit, bhs, NULL, 0); /* for recovery: level 0 has none */
	assert_int_equal(expect(kit, ISCSI_LOGOUT_RESPONSE)->bhs.byte2,
			 ISCSI_LOGOUT_NO_RECOVERY);
	send_pdu(kit, header(0x46, 0x80, 9), NULL, 0);
	assert_int_equal(kit->event.type, ISCSI_EVENT_LOGOUT);
	iscsi_session_goodbye(&kit->session);
	gather(kit);
	assert_int_equal(expect(kit, ISCSI_LOGOUT_RESPONSE)->bhs.byte2,
			 ISCSI_LOGOUT_DONE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_read_is_answered_with_its_status_in_the_data),
		TEST(residuals_are_told),
		TEST(sense_comes_in_a_response),
		TEST(a_write_is_asked_for_in_bursts),
		TEST(unsolicited_data_follows_a_write),
		TEST(what_a_command_does_not_take_goes_by),
		TEST(data_nobody_allowed_fails_its_command),
		TEST(a_short_burst_fails_its_command),
		TEST(data_out_of_sequence_fails_its_command),
		TEST(data_behind_the_end_ends_the_connection),
		TEST(a_wrong_data_digest_is_rejected),
		TEST(a_wrong_header_digest_ends_the_connection),
		TEST(commands_outside_the_window_are_ignored),
		TEST(a_gap_in_the_numbers_ends_the_connection),
		TEST(the_window_closes_as_commands_pile_up),
		TEST(pings_are_answered_and_sent),
		TEST(discovery_lists_targets),
		TEST(a_long_text_comes_in_pieces),
		TEST(what_it_does_not_know_is_rejected),
		TEST(an_aborted_command_is_forgotten),
		TEST(a_write_without_buffer_waits_or_is_told_full),
		TEST(says_goodbye),
	};

	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 31 + i / 509);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
