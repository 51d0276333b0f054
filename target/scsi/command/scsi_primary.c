/* SPDX-License-Identifier: Apache-2.0 */
/* The short ones: TEST UNIT READY, REQUEST SENSE, REPORT LUNS, capacities. */
#include <string.h>

#include "target/scsi/command/scsi_primary.h"

/* ---- TEST UNIT READY, SPC-4 6.47 ---- */

static void ready_run(struct scsi_task *task)
{
	scsi_task_complete(task);
}

/* ---- REQUEST SENSE, SPC-4 6.39 ---- */

static void request_sense_run(struct scsi_task *task)
{
	struct scsi_sense sense = {.key = SCSI_NO_SENSE};
	uint8_t data[SCSI_SENSE_MAX];
	unsigned length;

	if (!task->path) {
		sense.key = SCSI_ILLEGAL_REQUEST;
		sense.asc = SCSI_ASC_NO_UNIT;
	} else if (scsi_attention_take(task->path, &sense)) {
		/* it is told here, and no more */
	} else if (atomic_load(&scsi_task_unit(task)->ejected)) {
		sense.key = SCSI_NOT_READY;
		sense.asc = SCSI_ASC_NO_MEDIUM;
	}
	length = scsi_sense_encode(&sense, task->cdb[1] & 1, data);
	scsi_task_reply(task, data, length);
}

/* ---- REPORT LUNS, SPC-4 6.33 ---- */

void scsi_report_luns_parse(struct scsi_task *task)
{
	if (task->cdb[2] > 2)
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
	else if (task->transfer_length < 16)
		scsi_fail_cdb(task, 6, SCSI_NO_BIT);
}

/* The units that the session may see; returns how many. */
static unsigned luns_list(struct scsi_nexus *nexus, unsigned ret[SCSI_LUNS])
{
	struct scsi_target *target = nexus->target;
	unsigned all = 0, seen = 0;

	pthread_mutex_lock(&target->lock);
	for (unsigned i = 0; i < SCSI_LUNS; i++)
		if (target->units[i])
			ret[all++] = i;
	pthread_mutex_unlock(&target->lock);
	for (unsigned i = 0; i < all; i++)
		if (scsi_nexus_sees(nexus, ret[i]))
			ret[seen++] = ret[i];
	return seen;
}

void scsi_report_luns_run(struct scsi_task *task)
{
	uint8_t data[8 + 8 * SCSI_LUNS] = {0};
	size_t length = 8;
	bool well_known = task->cdb[2] == 1; /* only those: there are none */
	unsigned luns[SCSI_LUNS];
	unsigned n = well_known ? 0 : luns_list(task->nexus, luns);

	for (unsigned i = 0; i < n; i++, length += 8)
		scsi_lun_encode(luns[i], data + length);
	scsi_put32(data, (uint32_t)length - 8);
	if (task->path)
		atomic_fetch_and(&task->path->attentions,
				 ~(UINT32_C(1) << SCSI_UA_LUNS_CHANGED));
	scsi_task_reply(task, data, length);
}

/* ---- READ CAPACITY, SBC-3 5.15, 5.16 ---- */

static bool no_medium(struct scsi_task *task)
{
	if (!atomic_load(&scsi_task_unit(task)->ejected))
		return false;
	scsi_fail(task, SCSI_NOT_READY, SCSI_ASC_NO_MEDIUM);
	scsi_task_complete(task);
	return true;
}

void scsi_capacity_10_parse(struct scsi_task *task)
{
	bool partial = task->cdb[8] & 1; /* PMI, obsolete */

	if (!partial && scsi_be32(task->cdb + 2))
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
	task->transfer_length = 8;
	task->in_size = task->expected_in < 8 ? task->expected_in : 8;
}

void scsi_capacity_10_run(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint64_t last = scsi_unit_blocks(unit) - 1;
	uint8_t data[8];

	if (no_medium(task))
		return;
	scsi_put32(data, last < UINT32_MAX ? (uint32_t)last : UINT32_MAX);
	scsi_put32(data + 4, unit->block_size);
	scsi_task_reply(task, data, sizeof(data));
}

void scsi_capacity_16_run(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t data[32] = {0};

	if (no_medium(task))
		return;
	scsi_put64(data, scsi_unit_blocks(unit) - 1);
	scsi_put32(data + 8, unit->block_size);
	data[13] = (uint8_t)unit->physical_exponent;
	if (unit->thin)
		data[14] = 0x80 | 0x40; /* LBPME, LBPRZ */
	scsi_task_reply(task, data, sizeof(data));
}

const struct scsi_command scsi_primary_commands[] = {
	{.opcode = SCSI_TEST_UNIT_READY,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .flags = SCSI_C_MEDIUM | SCSI_C_ALWAYS,
	 .run = ready_run},
	{.opcode = SCSI_REQUEST_SENSE,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .flags = SCSI_C_NO_UNIT | SCSI_C_QUIET | SCSI_C_ALWAYS |
		  SCSI_C_LIST_IN,
	 .list_at = 4,
	 .list_size = 1,
	 .usage = {[1] = 0x01, [4] = 0xff},
	 .run = request_sense_run},
	{.opcode = SCSI_INQUIRY,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .flags = SCSI_C_NO_UNIT | SCSI_C_QUIET | SCSI_C_ALWAYS |
		  SCSI_C_LIST_IN,
	 .list_at = 3,
	 .list_size = 2,
	 .usage = {[1] = 0x01, 0xff, 0xff, 0xff},
	 .run = scsi_inquiry_run},
	{.opcode = SCSI_READ_CAPACITY_10,
	 .action = SCSI_NO_ACTION,
	 .length = 10,
	 .flags = SCSI_C_ALWAYS,
	 .usage = {[2] = 0xff, 0xff, 0xff, 0xff, [8] = 0x01},
	 .parse = scsi_capacity_10_parse,
	 .run = scsi_capacity_10_run},
	{.opcode = SCSI_SERVICE_ACTION_IN_16,
	 .action = 0x10, /* READ CAPACITY (16) */
	 .length = 16,
	 .flags = SCSI_C_ALWAYS | SCSI_C_LIST_IN,
	 .list_at = 10,
	 .list_size = 4,
	 .usage = {[1] = 0x1f, [10] = 0xff, 0xff, 0xff, 0xff},
	 .run = scsi_capacity_16_run},
	{.opcode = SCSI_REPORT_LUNS,
	 .action = SCSI_NO_ACTION,
	 .length = 12,
	 .flags = SCSI_C_NO_UNIT | SCSI_C_QUIET | SCSI_C_ALWAYS |
		  SCSI_C_LIST_IN,
	 .list_at = 6,
	 .list_size = 4,
	 .usage = {[2] = 0xff, [6] = 0xff, 0xff, 0xff, 0xff},
	 .parse = scsi_report_luns_parse,
	 .run = scsi_report_luns_run},
	{.length = 0},
};
