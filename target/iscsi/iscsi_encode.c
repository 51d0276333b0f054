/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to PDUs on the wire: numbers, segments, digests. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/wire/crc32c.h"
#include "target/iscsi/iscsi_session_internal.h"

/* A PDU needs, besides its data: a head, what is behind, three vectors. */
#define HEAD_ROOM                                                    \
	(ISCSI_BHS_SIZE + 2 * ISCSI_DIGEST_SIZE + 3 + sizeof(be16) + \
	 ISCSI_SENSE_MAX)
#define IOV_ROOM 3u

#define STATUS_GOOD 0x00 /* SAM-5 5.3.1 */

static bool has_room(const struct iscsi_batch *batch)
{
	return batch->used + HEAD_ROOM <= ISCSI_BATCH_HEADS &&
	       batch->n_iov + IOV_ROOM <= ISCSI_BATCH_IOV;
}

/* Put bytes at the end of the batch, joined with those before. */
static void batch_put(struct iscsi_batch *batch, const void *data,
		      size_t length)
{
	uint8_t *to = batch->heads + batch->used;
	struct iovec *last = batch->n_iov > 0 ? &batch->iov[batch->n_iov - 1]
					      : NULL;

	memcpy(to, data, length);
	batch->used += (uint32_t)length;
	if (last && (uint8_t *)last->iov_base + last->iov_len == to)
		last->iov_len += length;
	else
		batch->iov[batch->n_iov++] = (struct iovec){to, length};
}

static void batch_put_reference(struct iscsi_batch *batch, const void *data,
				size_t length)
{
	batch->iov[batch->n_iov++] = (struct iovec){(void *)data, length};
}

static struct iscsi_numbers numbers(const struct iscsi_session *session)
{
	return (struct iscsi_numbers){
		.statsn = session->statsn,
		.exp_cmdsn = session->exp_cmdsn,
		.max_cmdsn = session->exp_cmdsn + ISCSI_WINDOW -
			     session->n_open - 1,
	};
}

/* The parts of a PDU that are under a digest. */
struct digests {
	bool header, data;
};

static struct digests digests_of(const struct iscsi_session *session)
{
	return (struct digests){session->params.header_digest,
				session->params.data_digest};
}

static void put_header(struct iscsi_batch *batch,
		       const struct iscsi_wire_bhs *bhs, struct digests digests)
{
	le32 digest;

	batch_put(batch, bhs, sizeof(*bhs));
	if (!digests.header)
		return;
	digest = iscsi_digest_make(crc32c(0, bhs, sizeof(*bhs)));
	batch_put(batch, &digest, sizeof(digest));
}

/* @crc: of the data before */
static void put_trailer(struct iscsi_batch *batch, uint32_t length,
			uint32_t crc, struct digests digests)
{
	static const uint8_t zeroes[3];
	uint32_t padding = iscsi_padding(length);
	le32 digest;

	if (length == 0)
		return;
	if (padding > 0)
		batch_put(batch, zeroes, padding);
	if (!digests.data)
		return;
	digest = iscsi_digest_make(crc32c(crc, zeroes, padding));
	batch_put(batch, &digest, sizeof(digest));
}

static void put_data(struct iscsi_batch *batch, const void *data,
		     uint32_t length, struct digests digests)
{
	if (length == 0)
		return;
	batch_put_reference(batch, data, length);
	put_trailer(batch, length, digests.data ? crc32c(0, data, length) : 0,
		    digests);
}

/* ---- messages that are no answers ---- */

static void put_say(struct iscsi_session *session, struct iscsi_batch *batch,
		    struct iscsi_say *say)
{
	struct iscsi_numbers sn = numbers(session);
	struct digests digests = digests_of(session);

	if (say->plain)
		digests = (struct digests){false, false};
	say->bhs.word[ISCSI_WORD_SN] = be32_make(sn.statsn);
	say->bhs.word[ISCSI_WORD_EXP_SN] = be32_make(sn.exp_cmdsn);
	say->bhs.word[ISCSI_WORD_MAX_SN] = be32_make(sn.max_cmdsn);
	session->statsn += say->numbered;
	put_header(batch, &say->bhs, digests);
	put_data(batch, say->data, say->length, digests);
}

/* ---- answers to commands ---- */

static struct iscsi_residual residual(const struct iscsi_task *task)
{
	uint32_t expected = task->write ? task->expected_out
					: task->expected_in;
	uint32_t moved = task->transfer_length;

	if (moved > expected)
		return (struct iscsi_residual){.over = true,
					       .count = moved - expected};
	return (struct iscsi_residual){.under = moved < expected,
				       .count = expected - moved};
}

static void put_response(struct iscsi_session *session,
			 struct iscsi_batch *batch,
			 const struct iscsi_task *task)
{
	struct iscsi_numbers sn = numbers(session);
	struct iscsi_residual rest = residual(task);
	struct digests digests = digests_of(session);
	uint32_t sense = min(task->sense_length, ISCSI_SENSE_MAX);
	uint32_t length = sense > 0 ? sense + (uint32_t)sizeof(be16) : 0;
	struct iscsi_wire_bhs bhs = iscsi_response_make(
		&sn, task->itt, task->status, &rest,
		task->write ? task->r2tsn : task->sent_datasn, length);
	be16 sense_length = be16_make((uint16_t)sense);
	uint32_t crc = 0;

	session->statsn++;
	put_header(batch, &bhs, digests);
	if (sense == 0)
		return;
	batch_put(batch, &sense_length, sizeof(sense_length));
	batch_put(batch, task->sense, sense);
	if (digests.data)
		crc = crc32c(crc32c(0, &sense_length, sizeof(sense_length)),
			     task->sense, sense);
	put_trailer(batch, length, crc, digests);
}

static bool answer_collapses(const struct iscsi_task *task)
{
	return task->status == STATUS_GOOD && task->sense_length == 0;
}

/* Return how many bytes of data the initiator is to have. */
static uint32_t total_of(const struct iscsi_task *task)
{
	return min(task->in_length, task->expected_in);
}

/* The next Data-In of @total bytes, of which there are @end. */
static void put_data_in(struct iscsi_session *session,
			struct iscsi_batch *batch, struct iscsi_task *task,
			uint32_t end, uint32_t total)
{
	uint32_t burst = session->params.max_burst;
	uint32_t length = min(session->params.max_segment, end - task->sent);
	uint32_t in_burst = burst - task->sent % burst;
	struct iscsi_numbers sn = numbers(session);
	struct iscsi_data_in data = {
		.itt = task->itt,
		.datasn = task->sent_datasn++,
		.offset = task->sent,
		.status = task->status,
	};
	struct iscsi_wire_bhs bhs;

	data.data_length = min(length, in_burst);
	data.final = data.data_length == in_burst ||
		     task->sent + data.data_length == total;
	data.with_status = task->sent + data.data_length == total &&
			   task->state == ISCSI_TASK_ANSWERED &&
			   answer_collapses(task);
	data.residual = residual(task);
	session->statsn += data.with_status;
	bhs = iscsi_data_in_make(&sn, &data);
	put_header(batch, &bhs, digests_of(session));
	put_data(batch, task->in + task->sent, data.data_length,
		 digests_of(session));
	task->sent += data.data_length;
}

/* True: all of it is in the batch. */
static bool put_task(struct iscsi_session *session, struct iscsi_batch *batch,
		     struct iscsi_task *task)
{
	uint32_t total = total_of(task);

	while (task->sent < total) {
		if (!has_room(batch))
			return false;
		put_data_in(session, batch, task, total, total);
		if (task->sent == total && answer_collapses(task))
			return true;
	}
	if (!has_room(batch))
		return false;
	put_response(session, batch, task);
	return true;
}

/* ---- data before the answer ---- */

static struct iscsi_task *task_of_part(struct iscsi_item *item)
{
	return container_of(item, struct iscsi_task, part);
}

static void part_queue(struct iscsi_session *session, struct iscsi_task *task)
{
	task->part_queued = true;
	iscsi_queue(session, &task->part);
}

void iscsi_session_part(struct iscsi_session *session, struct iscsi_task *task,
			uint32_t end)
{
	task->part_end = min(end, task->expected_in);
	if (!task->part_queued && task->part_end > task->sent)
		part_queue(session, task);
}

/*
 * As much as there is room for. Afterwards it is in the batch in any case, as
 * that refers to its data.
 */
static void put_part(struct iscsi_session *session, struct iscsi_batch *batch,
		     struct iscsi_task *task)
{
	task->part_sending = true;
	while (task->sent < task->part_end && has_room(batch))
		put_data_in(session, batch, task, task->part_end,
			    total_of(task));
}

/*
 * Go on after a part that is out: the data that has come since is next, or the
 * answer, if there is one.
 */
static void part_sent(struct iscsi_session *session, struct iscsi_task *task)
{
	task->part_queued = false;
	task->part_sending = false;
	if (task->state == ISCSI_TASK_FORGOTTEN)
		session->ops->task_done(session->context, task);
	else if (task->state == ISCSI_TASK_RUNNING &&
		 task->part_end > task->sent)
		part_queue(session, task);
}

/* True: all of it is in the batch. */
static bool put_item(struct iscsi_session *session, struct iscsi_batch *batch,
		     struct iscsi_item *item)
{
	switch (item->kind) {
	case ISCSI_ITEM_SAY:
		put_say(session, batch, (struct iscsi_say *)item);
		break;
	case ISCSI_ITEM_TASK:
		return put_task(session, batch, (struct iscsi_task *)item);
	case ISCSI_ITEM_PART:
		put_part(session, batch, task_of_part(item));
		break;
	}
	return true;
}

bool iscsi_session_gather(struct iscsi_session *session,
			  struct iscsi_batch *batch)
{
	batch->n_iov = 0;
	batch->used = 0;
	batch->first = NULL;
	batch->last = NULL;
	while (session->first && has_room(batch)) {
		struct iscsi_item *item = session->first;

		if (!put_item(session, batch, item))
			break;
		session->first = item->next;
		if (!session->first)
			session->last = NULL;
		item->next = NULL;
		if (batch->last)
			batch->last->next = item;
		else
			batch->first = item;
		batch->last = item;
	}
	return batch->n_iov > 0;
}

static void say_free(struct iscsi_session *session, struct iscsi_say *say)
{
	session->n_says--;
	session->says_bytes -= say->length;
	free(say);
}

static void items_free(struct iscsi_session *session, struct iscsi_item *item)
{
	while (item) {
		struct iscsi_item *next = item->next;

		switch (item->kind) {
		case ISCSI_ITEM_SAY:
			say_free(session, (struct iscsi_say *)item);
			break;
		case ISCSI_ITEM_TASK:
			session->ops->task_done(session->context,
						(struct iscsi_task *)item);
			break;
		case ISCSI_ITEM_PART:
			part_sent(session, task_of_part(item));
			break;
		}
		item = next;
	}
}

void iscsi_session_sent(struct iscsi_session *session,
			struct iscsi_batch *batch)
{
	struct iscsi_item *first = batch->first;

	batch->first = NULL;
	batch->last = NULL;
	items_free(session, first);
}

void iscsi_session_abandon(struct iscsi_session *session)
{
	struct iscsi_item *first = session->first;

	session->first = NULL;
	session->last = NULL;
	for (struct iscsi_item *item = first; item; item = item->next)
		if (item->kind == ISCSI_ITEM_PART) /* there is no next one */
			task_of_part(item)->part_end = 0;
	items_free(session, first);
}
