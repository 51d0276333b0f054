/* SPDX-License-Identifier: Apache-2.0 */
/* START STOP UNIT, SBC-3 5.24; PREVENT ALLOW MEDIUM REMOVAL, SPC-4 6.14 */
#include "target/scsi/scsi_internal.h"

#define POWER_CONDITION 0xf0
#define NO_FLUSH        0x04
#define LOEJ            0x02
#define START           0x01

static void start_parse(struct scsi_task *task)
{
	bool power = task->cdb[4] & POWER_CONDITION;

	if (!power && (task->cdb[4] & LOEJ) && !scsi_task_unit(task)->removable)
		scsi_fail_cdb(task, 4, 1);
}

/* While somebody prevents it, it neither goes nor comes. */
static bool prevented(struct scsi_task *task)
{
	bool prevents = false;

	for (struct scsi_path *p = scsi_task_unit(task)->paths; p;
	     p = p->next_of_unit)
		prevents |= p->prevents;
	if (prevents)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_PREVENTED);
	return prevents;
}

static void eject(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	if (!prevented(task))
		atomic_store(&unit->ejected, true);
	pthread_mutex_unlock(&unit->lock);
}

static void load(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	if (!prevented(task) && atomic_exchange(&unit->ejected, false))
		scsi_attention_raise_all(unit, task->path,
					 SCSI_UA_MEDIUM_CHANGED);
	pthread_mutex_unlock(&unit->lock);
}

static void start_flushed(struct scsi_task *task, int res)
{
	if (res < 0)
		scsi_fail_errno(task, res, 0, true);
	else if (task->cdb[4] & LOEJ)
		eject(task);
	scsi_task_complete(task);
}

/*
 * Nothing turns here: a stop without ejecting is a flush, and the power
 * conditions are all the same.
 */
static void start_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t what = task->cdb[4];

	if (what & POWER_CONDITION) {
		scsi_task_complete(task);
	} else if (what & START) {
		if (what & LOEJ)
			load(task);
		scsi_task_complete(task);
	} else if ((what & NO_FLUSH) || !task->path->dev ||
		   atomic_load(&unit->ejected)) {
		start_flushed(task, 0);
	} else {
		blockdev_flush(task->path->dev,
			       scsi_task_op(task, start_flushed));
	}
}

static void prevent_parse(struct scsi_task *task)
{
	if ((task->cdb[4] & 3) > 1)
		scsi_fail_cdb(task, 4, 1);
}

static void prevent_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	task->path->prevents = task->cdb[4] & 1;
	pthread_mutex_unlock(&unit->lock);
	scsi_task_complete(task);
}

const struct scsi_command scsi_medium_commands[] = {
	{.opcode = SCSI_START_STOP_UNIT,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .usage = {[1] = 0x01, [4] = 0xf7},
	 .parse = start_parse,
	 .run = start_run},
	{.opcode = SCSI_PREVENT_ALLOW,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .usage = {[4] = 0x03},
	 .parse = prevent_parse,
	 .run = prevent_run},
	{.length = 0},
};
