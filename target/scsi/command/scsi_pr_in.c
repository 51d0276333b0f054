/* SPDX-License-Identifier: Apache-2.0 */
/* PERSISTENT RESERVE IN, SPC-4 6.15 */
#include <string.h>

#include "target/scsi/command/scsi_primary.h"
#include "target/scsi/scsi_pr.h"

/* Beside a reservation by RESERVE there are no persistent ones; SPC-2. */
static bool reserved_by_spc2(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	bool reserved;

	pthread_mutex_lock(&unit->lock);
	reserved = unit->reserved;
	pthread_mutex_unlock(&unit->lock);
	if (!reserved)
		return false;
	scsi_fail_status(task, SCSI_RESERVATION_CONFLICT);
	scsi_task_complete(task);
	return true;
}

static void keys_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t data[8 + 8 * SCSI_PR_MAX];
	unsigned length = 8;

	if (reserved_by_spc2(task))
		return;
	pthread_mutex_lock(&unit->lock);
	scsi_put32(data, unit->pr.generation);
	for (struct scsi_registration *r = unit->pr.first; r; r = r->next) {
		scsi_put64(data + length, r->key);
		length += 8;
	}
	pthread_mutex_unlock(&unit->lock);
	scsi_put32(data + 4, length - 8);
	scsi_task_reply(task, data, length);
}

static void reservation_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t data[24] = {0};
	unsigned length = 8;

	if (reserved_by_spc2(task))
		return;
	pthread_mutex_lock(&unit->lock);
	scsi_put32(data, unit->pr.generation);
	if (unit->pr.type != SCSI_PR_NONE) {
		if (unit->pr.holder)
			scsi_put64(data + 8, unit->pr.holder->key);
		data[21] = unit->pr.type; /* scope: the unit */
		length = 24;
	}
	pthread_mutex_unlock(&unit->lock);
	scsi_put32(data + 4, length - 8);
	scsi_task_reply(task, data, length);
}

static void capabilities_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t data[8] = {0};

	if (reserved_by_spc2(task))
		return;
	scsi_put16(data, sizeof(data));
	data[2] = 0x80 | 0x08 | 0x04; /* RLR_C, SIP_C, ATP_C */
	if (unit->state_path)
		data[2] |= 0x01; /* PTPL_C */
	data[3] = 0x80;          /* TMV: the types below are all */
	pthread_mutex_lock(&unit->lock);
	if (unit->pr.survives)
		data[3] |= 0x01; /* PTPL_A */
	pthread_mutex_unlock(&unit->lock);
	data[4] = 0xea; /* 7, 6, 5, 3, 1 */
	data[5] = 0x01; /* 8 */
	scsi_task_reply(task, data, sizeof(data));
}

/* Returns the bytes. */
static unsigned full_status_put(const struct scsi_pr *pr,
				const struct scsi_registration *r, uint8_t *at)
{
	memset(at, 0, 24);
	scsi_put64(at, r->key);
	if (scsi_pr_holds(pr, r)) {
		at[12] = 0x01; /* R_HOLDER */
		at[13] = pr->type;
	}
	scsi_put16(at + 18, SCSI_PORT);
	scsi_put32(at + 20, r->id_length);
	memcpy(at + 24, r->id, r->id_length);
	return 24 + r->id_length;
}

static void full_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	auto_free uint8_t *data = NULL;
	unsigned length = 8;

	if (reserved_by_spc2(task))
		return;
	data = malloc(8 + (24 + SCSI_TRANSPORT_ID_MAX) * SCSI_PR_MAX);
	if (!data) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return;
	}
	pthread_mutex_lock(&unit->lock);
	scsi_put32(data, unit->pr.generation);
	for (struct scsi_registration *r = unit->pr.first; r; r = r->next)
		length += full_status_put(&unit->pr, r, data + length);
	pthread_mutex_unlock(&unit->lock);
	scsi_put32(data + 4, length - 8);
	scsi_task_reply(task, data, length);
}

#define RESERVE_IN(number, call)                                          \
	{                                                                 \
		.opcode = SCSI_PERSISTENT_RESERVE_IN, .action = (number), \
		.length = 10, .flags = SCSI_C_PR | SCSI_C_LIST_IN,        \
		.list_at = 7, .list_size = 2,                             \
		.usage = {[1] = 0x1f, [7] = 0xff, 0xff}, .run = (call)    \
	}

const struct scsi_command scsi_pr_in_commands[] = {
	RESERVE_IN(0, keys_run),
	RESERVE_IN(1, reservation_run),
	RESERVE_IN(2, capabilities_run),
	RESERVE_IN(3, full_run),
	{.length = 0},
};
