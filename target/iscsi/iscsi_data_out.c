/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and the data that comes for them: with the command, unasked for
 * behind it, and as R2Ts ask. In order, as we insist on (DataPDUInOrder,
 * DataSequenceInOrder).
 */
#include <string.h>

#include "base/wire/crc32c.h"
#include "target/iscsi/iscsi_session_internal.h"

#define STATUS_CHECK_CONDITION 0x02 /* SAM-5 5.3.1 */
#define STATUS_TASK_SET_FULL   0x28
#define KEY_ABORTED_COMMAND    0x0b /* SPC-4 4.5.6 */

/* ---- the table of tasks ---- */

static struct iscsi_task **row(const struct iscsi_session *session,
			       uint32_t itt)
{
	/* Tags count up, or are a handle with some bits that do. */
	uint32_t hash = itt * UINT32_C(0x9e3779b1) >> 16;

	return (struct iscsi_task **)&session
		->tasks[hash & (ISCSI_TASK_TABLE - 1)];
}

struct iscsi_task *iscsi_session_task(const struct iscsi_session *session,
				      uint32_t itt)
{
	struct iscsi_task *task = *row(session, itt);

	while (task && task->itt != itt)
		task = task->next;
	return task;
}

static void task_link(struct iscsi_session *session, struct iscsi_task *task)
{
	task->link = row(session, task->itt);
	task->next = *task->link;
	if (task->next)
		task->next->link = &task->next;
	*task->link = task;
	if (task->immediate)
		session->n_immediate++;
	else
		session->n_open++;
}

static void task_unlink(struct iscsi_session *session, struct iscsi_task *task)
{
	*task->link = task->next;
	if (task->next)
		task->next->link = task->link;
	if (task->immediate)
		session->n_immediate--;
	else
		session->n_open--;
}

void iscsi_session_each_task(struct iscsi_session *session,
			     void (*visit)(struct iscsi_task *task,
					   void *context),
			     void *context)
{
	for (size_t i = 0; i < ISCSI_TASK_TABLE; i++) {
		struct iscsi_task *task = session->tasks[i];

		while (task) {
			struct iscsi_task *next = task->next;

			visit(task, context);
			task = next;
		}
	}
}

/* ---- asking for data ---- */

static void r2t_say(struct iscsi_session *session, struct iscsi_task *task,
		    uint32_t length)
{
	struct iscsi_wire_bhs bhs;

	if (++session->ttt == ISCSI_TAG_NONE)
		session->ttt = 0;
	bhs = iscsi_r2t_make(&iscsi_no_numbers, task->lun, task->itt,
			     session->ttt, task->r2tsn++, task->solicited,
			     length);
	task->solicited += length;
	task->r2t[task->n_r2t].ttt = session->ttt;
	task->r2t[task->n_r2t].end = task->solicited;
	task->n_r2t++;
	iscsi_say(session, bhs, NULL, 0, false);
}

static void solicit(struct iscsi_session *session, struct iscsi_task *task)
{
	uint32_t max = min(session->params.max_r2t, ISCSI_R2T_MAX);

	while (task->n_r2t < max && task->solicited < task->wanted)
		r2t_say(session, task,
			min(session->params.max_burst,
			    task->wanted - task->solicited));
}

/* True: nothing more is to come for it; it is the owner's now. */
static bool collect(struct iscsi_session *session, struct iscsi_task *task)
{
	if (task->unsolicited)
		return false;
	if (task->solicited < task->received)
		task->solicited = task->received;
	if (task->error == ISCSI_TASK_FINE && task->has_buffer)
		solicit(session, task);
	if (task->n_r2t > 0 ||
	    (task->error == ISCSI_TASK_FINE && task->received < task->wanted))
		return false;
	task->state = ISCSI_TASK_RUNNING;
	return true;
}

void iscsi_session_solicit(struct iscsi_session *session,
			   struct iscsi_task *task)
{
	task->has_buffer = true;
	(void)collect(session, task); /* it wants some, so it is not whole */
}

/* ---- payloads ---- */

void iscsi_payload_begin(struct iscsi_session *session, struct iscsi_task *task,
			 uint32_t offset)
{
	uint32_t length = session->pdu.data_length;
	uint32_t take = 0;

	if (task && task->error == ISCSI_TASK_FINE && task->has_buffer &&
	    offset < task->wanted)
		take = min(length, task->wanted - offset);
	session->payload_task = task;
	session->payload_take = take;
	session->payload_skip = length - take;
	session->payload_rest = length - take;
	session->payload_crc = 0;
}

void iscsi_session_payload_taken(struct iscsi_session *session,
				 const void *data, uint32_t length)
{
	if (session->params.data_digest)
		session->payload_crc = crc32c(session->payload_crc, data,
					      length);
	session->payload_take -= length;
	session->payload_task->received += length;
}

/* The last Data-Out of a sequence. */
static void sequence_end(struct iscsi_session *session, struct iscsi_task *task)
{
	task->datasn = 0;
	if (session->pdu.ttt == ISCSI_TAG_NONE) {
		task->unsolicited = false;
		return;
	}
	if (task->received < task->r2t[0].end) {
		if (task->error == ISCSI_TASK_FINE)
			task->error = ISCSI_TASK_SHORT;
		task->received = task->r2t[0].end;
	}
	task->n_r2t--;
	memmove(&task->r2t[0], &task->r2t[1],
		task->n_r2t * sizeof(task->r2t[0]));
}

bool iscsi_payload_end(struct iscsi_session *session, bool digest_ok)
{
	struct iscsi_task *task = session->payload_task;
	const struct iscsi_pdu *pdu = &session->pdu;

	if (!digest_ok)
		iscsi_say_reject(session, ISCSI_REJECT_DATA_DIGEST);
	if (!task)
		return false;
	if (!digest_ok && task->error == ISCSI_TASK_FINE)
		task->error = ISCSI_TASK_DIGEST;
	task->received += session->payload_rest;
	if (pdu->opcode == ISCSI_DATA_OUT) {
		task->datasn++;
		if (pdu->final || (pdu->ttt != ISCSI_TAG_NONE &&
				   task->received >= task->r2t[0].end))
			sequence_end(session, task);
	}
	return collect(session, task);
}

bool iscsi_payload_tells(const struct iscsi_session *session)
{
	const struct iscsi_task *task = session->payload_task;

	return task && task->tell > 0 && task->received >= task->tell &&
	       task->error == ISCSI_TASK_FINE &&
	       task->state == ISCSI_TASK_COLLECTING;
}

/* Return the end of the bytes that may come without being asked for. */
static uint32_t unsolicited_end(const struct iscsi_session *session,
				const struct iscsi_task *task)
{
	return min(session->params.first_burst, task->expected_out);
}

/*
 * Fail a command whose data came out of sequence. The missing data is lost, as
 * if its digest had been wrong (RFC 7143 7.9). The connection goes on.
 */
static void out_of_sequence(struct iscsi_task *task,
			    const struct iscsi_pdu *pdu)
{
	if (task->error == ISCSI_TASK_FINE)
		task->error = ISCSI_TASK_DIGEST;
	task->datasn = pdu->data.datasn;
	task->received = pdu->data.offset;
}

const char *iscsi_take_data_out(struct iscsi_session *session)
{
	const struct iscsi_pdu *pdu = &session->pdu;
	struct iscsi_task *task = iscsi_session_task(session, pdu->itt);
	uint32_t offset = pdu->data.offset, limit;

	iscsi_payload_begin(session, NULL, 0);
	if (!task || task->state != ISCSI_TASK_COLLECTING)
		return NULL; /* of a task that was aborted: it goes by */
	if (pdu->ttt == ISCSI_TAG_NONE) {
		if (!task->unsolicited)
			return "unsolicited data for a command without any";
		limit = unsolicited_end(session, task);
	} else {
		if (task->n_r2t == 0 || task->r2t[0].ttt != pdu->ttt)
			return "data for a transfer that was not requested";
		limit = task->r2t[0].end;
	}
	if (offset > limit || pdu->data_length > limit - offset)
		return "data came for another place than was to come";
	if (pdu->data.datasn != task->datasn || offset != task->received)
		out_of_sequence(task, pdu);
	iscsi_payload_begin(session, task, offset);
	return NULL;
}

/* ---- commands ---- */

void iscsi_session_task_init(struct iscsi_session *session,
			     struct iscsi_task *task,
			     const struct iscsi_event *event)
{
	const struct iscsi_pdu *pdu = event->pdu;
	uint32_t expected = pdu->command.expected;

	(void)session;
	task->item.kind = ISCSI_ITEM_TASK;
	task->part.kind = ISCSI_ITEM_PART;
	task->itt = pdu->itt;
	task->lun = pdu->lun;
	task->immediate = pdu->immediate;
	task->read = pdu->command.read;
	task->write = pdu->command.write;
	if (task->write)
		task->expected_out = expected;
	if (task->read)
		task->expected_in = task->write ? event->read_length : expected;
}

/* Data in the PDU of the command itself. */
static void immediate_data(struct iscsi_session *session,
			   struct iscsi_task *task)
{
	uint32_t length = session->pdu.data_length;

	if (length > 0 && (!task->write || !session->params.immediate_data ||
			   length > unsolicited_end(session, task)))
		task->error = ISCSI_TASK_UNEXPECTED;
	iscsi_payload_begin(session, task, 0);
}

bool iscsi_session_accept(struct iscsi_session *session,
			  struct iscsi_task *task)
{
	const struct iscsi_pdu *pdu = &session->pdu;

	task_link(session, task);
	task->state = ISCSI_TASK_COLLECTING;
	task->unsolicited = task->write && !pdu->final &&
			    !session->params.initial_r2t;
	if (task->wanted > 0 && !task->has_buffer &&
	    (task->unsolicited || pdu->data_length > 0))
		task->error = ISCSI_TASK_NO_ROOM;
	immediate_data(session, task);
	if (pdu->data_length > 0)
		return false;
	session->payload_task = NULL;
	return collect(session, task);
}

void iscsi_session_answer(struct iscsi_session *session,
			  struct iscsi_task *task)
{
	task_unlink(session, task);
	task->state = ISCSI_TASK_ANSWERED;
	iscsi_queue(session, &task->item);
}

void iscsi_session_answer_error(struct iscsi_session *session,
				struct iscsi_task *task)
{
	static const uint8_t codes[][2] = {
		[ISCSI_TASK_DIGEST] = {0x47, 0x05},     /* RFC 7143 11.4.7.2 */
		[ISCSI_TASK_UNEXPECTED] = {0x0c, 0x0c}, /* the same */
		[ISCSI_TASK_SHORT] = {0x0c, 0x0d},      /* the same */
	};
	uint8_t *sense = task->own_sense;

	task->in_length = 0;
	task->transfer_length = 0;
	task->sense_length = 0;
	task->status = STATUS_TASK_SET_FULL;
	if (task->error != ISCSI_TASK_NO_ROOM) {
		memset(sense, 0, ISCSI_TASK_SENSE_SIZE);
		sense[0] = 0x70; /* fixed format, SPC-4 4.5.3 */
		sense[2] = KEY_ABORTED_COMMAND;
		sense[7] = ISCSI_TASK_SENSE_SIZE - 8;
		memcpy(sense + 12, codes[task->error], 2);
		task->sense = sense;
		task->sense_length = ISCSI_TASK_SENSE_SIZE;
		task->status = STATUS_CHECK_CONDITION;
	}
	iscsi_session_answer(session, task);
}

bool iscsi_session_forget(struct iscsi_session *session,
			  struct iscsi_task *task)
{
	task_unlink(session, task);
	task->state = ISCSI_TASK_FORGOTTEN;
	if (task->part_queued && !task->part_sending)
		iscsi_unqueue(session, &task->part);
	if (session->payload_task == task) {
		session->payload_skip += session->payload_take;
		session->payload_take = 0;
		session->payload_task = NULL;
	}
	return !task->part_sending;
}
