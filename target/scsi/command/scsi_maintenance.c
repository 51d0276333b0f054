/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supported commands and functions, and paths to a unit: REPORT SUPPORTED
 * OPERATION CODES, REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, REPORT TARGET
 * PORT GROUPS; SPC-4 6.35, 6.36, 6.37.
 */
#include <string.h>

#include "target/scsi/command/scsi_primary.h"

enum { /* REPORTING OPTIONS */
       ALL = 0,
       OF_CODE = 1,
       OF_ACTION = 2,
       OF_EITHER = 3, /* SPC-5 */
};

#define RCTD 0x80 /* timeouts as well */

#define TIMEOUTS 12u /* bytes of a command timeouts descriptor */

static bool there(const struct scsi_task *task, const struct scsi_command *c)
{
	return !(c->flags & SCSI_C_THIN) || scsi_task_unit(task)->thin;
}

/* No timeouts are told: both are 0. */
static unsigned timeouts_put(uint8_t *at)
{
	memset(at, 0, TIMEOUTS);
	at[1] = TIMEOUTS - 2;
	return TIMEOUTS;
}

static void report_all(struct scsi_task *task)
{
	bool timeouts = task->cdb[2] & RCTD;
	uint8_t data[4 + 128 * (8 + TIMEOUTS)] = {0};
	const struct scsi_command *c;
	unsigned length = 4;

	for (unsigned i = 0; (c = scsi_command_at(i)); i++) {
		uint8_t *at = data + length;

		if (!there(task, c))
			continue;
		at[0] = c->opcode;
		if (c->action != SCSI_NO_ACTION) {
			at[3] = (uint8_t)c->action;
			at[5] = 0x01; /* SERVACTV */
		}
		at[5] |= timeouts ? 0x02 : 0; /* CTDP */
		scsi_put16(at + 6, c->length);
		length += 8;
		if (timeouts)
			length += timeouts_put(data + length);
	}
	scsi_put32(data, length - 4);
	scsi_task_reply(task, data, length);
}

/* @c: NULL: it is not supported */
static void report_one(struct scsi_task *task, const struct scsi_command *c)
{
	bool timeouts = c && (task->cdb[2] & RCTD);
	uint8_t data[4 + SCSI_CDB_MAX + TIMEOUTS] = {0};
	unsigned length = 4;

	data[1] = c ? 3 : 1;
	if (c) {
		scsi_put16(data + 2, c->length);
		memcpy(data + 4, c->usage, c->length);
		data[4] = c->opcode;
		if (c->action != SCSI_NO_ACTION)
			data[5] = (uint8_t)((data[5] & 0xe0) | c->action);
		data[4 + c->length - 1] |= 0x04; /* NACA is looked at */
		length += c->length;
	}
	if (timeouts) {
		data[1] |= 0x80; /* CTDP */
		length += timeouts_put(data + length);
	}
	scsi_task_reply(task, data, length);
}

static void report_run(struct scsi_task *task)
{
	const uint8_t *cdb = task->cdb;
	uint8_t wanted[2] = {cdb[3], (uint8_t)(cdb[5] & 0x1f)};
	unsigned how = cdb[2] & 7;
	const struct scsi_command *c;
	bool opcode, actions;

	if (how == ALL) {
		report_all(task);
		return;
	}
	if (how > OF_EITHER) {
		scsi_fail_cdb(task, 2, 2);
		scsi_task_complete(task);
		return;
	}
	c = scsi_command_find(wanted, &opcode);
	actions = opcode && (!c || c->action != SCSI_NO_ACTION);
	if ((how == OF_CODE && actions) ||
	    (how == OF_ACTION && opcode && !actions)) {
		scsi_fail_cdb(task, 2, 2);
		scsi_task_complete(task);
		return;
	}
	if (c && (!there(task, c) || (actions && scsi_be16(cdb + 4) > 0x1f)))
		c = NULL;
	report_one(task, c);
}

static void functions_run(struct scsi_task *task)
{
	bool extended = task->cdb[2] & RCTD; /* REPD */
	uint8_t data[16] = {0};

	data[0] = 0x80 | 0x40 | 0x10 | 0x08; /* abort task, its set; clear set,
						logical unit reset */
	data[0] |= 0x02;                     /* target reset, obsolete */
	data[3] = extended ? 12 : 0;
	scsi_task_reply(task, data, extended ? 16 : 4);
}

static void groups_run(struct scsi_task *task)
{
	bool extended = task->cdb[1] >> 5 == 1;
	uint8_t data[8 + 12] = {0};
	unsigned at = 4;

	if (task->cdb[1] >> 5 > 1) {
		scsi_fail_cdb(task, 1, 7);
		scsi_task_complete(task);
		return;
	}
	if (extended) {
		data[4] = 0x10; /* the format; no implicit transition time */
		at = 8;
	}
	data[at] = 0x00;     /* active, optimized */
	data[at + 1] = 0x01; /* that is the only state there is */
	scsi_put16(data + at + 2, SCSI_PORT_GROUP);
	data[at + 7] = 1; /* port */
	scsi_put16(data + at + 10, SCSI_PORT);
	scsi_put32(data, at + 12 - 4);
	scsi_task_reply(task, data, at + 12);
}

#define MAINTENANCE(number, one, two, three, call)                     \
	{                                                              \
		.opcode = SCSI_MAINTENANCE_IN, .action = (number),     \
		.length = 12, .flags = SCSI_C_ALWAYS | SCSI_C_LIST_IN, \
		.list_at = 6, .list_size = 4,                          \
		.usage = {0,       (one), (two), (three), (three),     \
			  (three), 0xff,  0xff,  0xff,    0xff},       \
		.run = (call)                                          \
	}

const struct scsi_command scsi_maintenance_commands[] = {
	MAINTENANCE(0x0a, 0xff, 0, 0, groups_run),
	MAINTENANCE(0x0c, 0x1f, 0x87, 0xff, report_run),
	MAINTENANCE(0x0d, 0x1f, 0x80, 0, functions_run),
	{.length = 0},
};
