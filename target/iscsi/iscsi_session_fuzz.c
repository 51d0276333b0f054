/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole of a session, login included, fed arbitrary bytes in arbitrary
 * pieces. The first byte chooses a variant and seeds how the rest is split.
 * What must hold:
 *
 * - it consumes no more than it was given, and asks for no more than
 *   ISCSI_NEED_MAX (each feed comes from a heap copy of exactly the bytes
 *   there are, so a read past them is caught);
 * - data goes only where the command has room: inside `wanted` bytes;
 * - it goes on: without progress only for want of bytes;
 * - what it says are whole PDUs, and no more than its limits are queued;
 * - after DROP or CLOSE it stays closed;
 * - it says the same however the bytes were split (but for CHAP, whose
 *   challenge is random).
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_session.h"

#define WANTED_MAX 20000u /* bytes that a command takes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct iscsi_session session;
	struct iscsi_batch batch;
	uint64_t digest; /* of all that was said, in order */
	uint8_t variant;
	unsigned tasks; /* that live */
	bool closed;
};

static const struct chap_secrets secrets = {
	.user = "u",
	.secret = "secret of twelve",
	.mutual_user = "m",
	.mutual_secret = "another of twelve",
};

static void note(struct run *run, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < length; i++) /* FNV-1a */
		run->digest = (run->digest ^ bytes[i]) *
			      UINT64_C(0x100000001b3);
}

static enum iscsi_login_status fake_find(void *context,
					 const struct iscsi_login *login,
					 const struct chap_secrets **ret)
{
	struct run *run = context;

	assert(iscsi_name_ok(login->initiator));
	*ret = run->variant & 1 ? &secrets : NULL;
	return login->target[0] == 'x' ? ISCSI_LOGIN_NOT_FOUND : ISCSI_LOGIN_OK;
}

static bool fake_has_session(void *context, const struct iscsi_login *login)
{
	(void)context;
	return login->tsih == 1;
}

static int fake_list(void *context, struct iscsi_session *session)
{
	(void)context;
	return iscsi_session_list_add(session, "iqn.t:x");
}

static void task_done(void *context, struct iscsi_task *task)
{
	struct run *run = context;

	run->tasks--;
	free(task);
}

static const struct iscsi_session_ops ops = {
	.login = {.find = fake_find, .has_session = fake_has_session},
	.list = fake_list,
	.task_done = task_done,
};

static void output_take(struct run *run)
{
	while (iscsi_session_gather(&run->session, &run->batch)) {
		size_t total = 0;

		for (unsigned i = 0; i < run->batch.n_iov; i++) {
			note(run, run->batch.iov[i].iov_base,
			     run->batch.iov[i].iov_len);
			total += run->batch.iov[i].iov_len;
		}
		assert(total >= ISCSI_BHS_SIZE && total % 4 == 0);
		assert(run->batch.n_iov <= ISCSI_BATCH_IOV &&
		       run->batch.used <= ISCSI_BATCH_HEADS);
		iscsi_session_sent(&run->session, &run->batch);
	}
}

static void ready(struct run *run, struct iscsi_task *task)
{
	static const uint8_t zeroes[WANTED_MAX];

	assert(task->state == ISCSI_TASK_RUNNING);
	if (task->error != ISCSI_TASK_FINE) {
		iscsi_session_answer_error(&run->session, task);
		return;
	}
	assert(task->received >= task->wanted);
	task->in = zeroes;
	task->in_length = task->read ? WANTED_MAX : 0;
	task->transfer_length = task->in_length + task->wanted;
	iscsi_session_answer(&run->session, task);
}

static void command(struct run *run, const struct iscsi_event *event)
{
	struct iscsi_task *task = calloc(1, sizeof(*task));

	if (!task)
		abort();
	run->tasks++;
	assert(run->tasks <= ISCSI_WINDOW + ISCSI_IMMEDIATE_MAX);
	iscsi_session_task_init(&run->session, task, event);
	task->wanted = task->expected_out < WANTED_MAX ? task->expected_out
						       : WANTED_MAX;
	task->has_buffer = !(run->variant & 2);
	if (iscsi_session_accept(&run->session, task))
		ready(run, task);
	else if (!task->has_buffer && task->wanted > 0 &&
		 task->error == ISCSI_TASK_FINE)
		iscsi_session_solicit(&run->session, task);
}

static void manage(struct run *run, const struct iscsi_pdu *pdu)
{
	struct iscsi_task *task = iscsi_session_task(&run->session, pdu->ttt);

	if (task) {
		assert(task->itt == pdu->ttt);
		(void)iscsi_session_forget(&run->session, task);
		task_done(run, task);
	}
	iscsi_session_task_response(&run->session, pdu->itt,
				    ISCSI_TASK_COMPLETE);
}

/* Returns the bytes consumed; sets @ret_more when it wants more. */
static size_t step(struct run *run, const uint8_t *data, size_t length,
		   bool *ret_more)
{
	struct iscsi_session *s = &run->session;
	struct iscsi_event event;
	size_t taken = iscsi_session_feed(s, data, length, &event);

	assert(taken <= length);
	switch (event.type) {
	case ISCSI_EVENT_MORE:
		assert(event.need > 0 && event.need <= ISCSI_NEED_MAX);
		assert(event.again || length < event.need);
		*ret_more = !event.again;
		break;
	case ISCSI_EVENT_COMMAND: command(run, &event); break;
	case ISCSI_EVENT_PAYLOAD:
		assert(event.length > 0 &&
		       event.offset + event.length <= event.task->wanted);
		if (event.length < length - taken)
			length = taken + event.length;
		*ret_more = length == taken;
		iscsi_session_payload_taken(s, data + taken,
					    (uint32_t)(length - taken));
		taken = length;
		break;
	case ISCSI_EVENT_PART: break; /* nobody has asked for it */
	case ISCSI_EVENT_READY: ready(run, event.task); break;
	case ISCSI_EVENT_MANAGE: manage(run, event.pdu); break;
	case ISCSI_EVENT_COMMIT:
		if (run->variant & 4)
			iscsi_session_deny(s, ISCSI_LOGIN_UNAVAILABLE, "no");
		else
			iscsi_session_begin(s, 7);
		break;
	case ISCSI_EVENT_LOGOUT: iscsi_session_goodbye(s); break;
	case ISCSI_EVENT_DROP:
		assert(event.why);
		/* fall through */
	case ISCSI_EVENT_CLOSE:
		assert(s->state == ISCSI_SESSION_CLOSED);
		run->closed = true;
		break;
	}
	assert(s->n_says <= ISCSI_SAYS_MAX);
	output_take(run);
	return taken;
}

static uint32_t next(uint32_t *seed) /* Numerical Recipes' generator */
{
	return *seed = *seed * 1664525 + 1013904223;
}

static void forget(struct iscsi_task *task, void *context)
{
	struct run *run = context;

	(void)iscsi_session_forget(&run->session, task);
	task_done(run, task);
}

/* All of @data, @whole or in small pieces. */
static uint64_t play(const uint8_t *data, size_t size, bool whole,
		     uint8_t variant)
{
	struct run *run = calloc(1, sizeof(*run));
	uint32_t seed = variant;
	size_t start = 0, end = 0;
	uint64_t digest;

	if (!run)
		abort();
	run->digest = UINT64_C(0xcbf29ce484222325);
	run->variant = variant;
	iscsi_session_init(&run->session, &ops, run, "10.0.0.1:3260");
	while (!run->closed) {
		uint8_t *copy = malloc(end - start ?: 1);
		bool more = false;

		if (!copy)
			abort();
		if (end > start)
			memcpy(copy, data + start, end - start);
		start += step(run, copy, end - start, &more);
		free(copy);
		if (!more)
			continue;
		if (end == size)
			break;
		end = whole ? size : end + 1 + (next(&seed) >> 16) % 64;
		if (end > size)
			end = size;
	}
	digest = run->digest;
	iscsi_session_each_task(&run->session, forget, run);
	iscsi_session_done(&run->session);
	assert(run->tasks == 0);
	free(run);
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole, pieces;

	if (size < 1)
		return 0;
	whole = play(data + 1, size - 1, true, data[0]);
	pieces = play(data + 1, size - 1, false, data[0]);
	assert(whole == pieces || (data[0] & 1));
	return 0;
}
