/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permissions of a session beside the reservations of others; RESERVE and
 * RELEASE, SPC-2 7.16 to 7.19 and 7.21 to 7.22.
 */
#include "target/scsi/scsi_pr.h"

/* Allowed beside RESERVE of somebody else: SPC-2 table 10, SBC table 3. */
static bool allowed_by_reserve(const struct scsi_task *task)
{
	switch (task->cdb[0]) {
	case SCSI_INQUIRY:
	case SCSI_REQUEST_SENSE:
	case SCSI_REPORT_LUNS:
	case SCSI_READ_CAPACITY_10:
	case SCSI_RELEASE_6:
	case SCSI_RELEASE_10: return true;
	case SCSI_PREVENT_ALLOW: return (task->cdb[4] & 3) == 0;
	default: return false;
	}
}

/* Allowed to sessions that are not registered: SPC-4 table 65, SBC-3 13. */
static bool allowed_by_pr(const struct scsi_task *task, unsigned type)
{
	unsigned flags = task->command->flags;

	switch (task->cdb[0]) {
	case SCSI_START_STOP_UNIT: /* a start */
		return (task->cdb[4] & 0xf1) == 0x01;
	case SCSI_PREVENT_ALLOW: return (task->cdb[4] & 3) == 0;
	default:
		return (flags & SCSI_C_ALWAYS) ||
		       ((flags & SCSI_C_READS) && !scsi_pr_type_access(type));
	}
}

static bool refused_by_pr(const struct scsi_task *task,
			  const struct scsi_pr *pr)
{
	const struct scsi_registration *own;

	if (pr->type == SCSI_PR_NONE || (task->command->flags & SCSI_C_PR) ||
	    allowed_by_pr(task, pr->type))
		return false;
	own = scsi_pr_find(pr, task->path);
	if (scsi_pr_holds(pr, own))
		return false;
	return !(own && scsi_pr_type_registrants(pr->type));
}

bool scsi_reserved(struct scsi_task *task)
{
	struct scsi_unit *unit;
	bool lost, refused;

	if (!task->path || !task->command)
		return false;
	unit = scsi_task_unit(task);
	if (!atomic_load(&unit->guarded))
		return false;
	pthread_mutex_lock(&unit->lock);
	lost = unit->pr.lost && !scsi_pr_lost_allows(task);
	refused = (unit->reserved && unit->reserved != task->path &&
		   !allowed_by_reserve(task)) ||
		  refused_by_pr(task, &unit->pr);
	pthread_mutex_unlock(&unit->lock);
	if (lost) {
		scsi_fail(task, SCSI_DATA_PROTECT, SCSI_ASC_PR_LOST);
	} else if (refused) {
		task->sense_length = 0; /* of what it failed with before */
		scsi_fail_status(task, SCSI_RESERVATION_CONFLICT);
	}
	return lost || refused;
}

void scsi_path_ended(struct scsi_path *path)
{
	struct scsi_unit *unit = path->unit;

	path->prevents = false;
	if (unit->reserved == path) {
		unit->reserved = NULL;
		scsi_unit_guard(unit);
	}
}

/* ---- RESERVE, RELEASE ---- */

/* For third parties, or of extents: obsolete. */
static void reserve_parse(struct scsi_task *task)
{
	if (task->cdb[1] & 0x10)
		scsi_fail_cdb(task, 1, 4);
	else if (task->cdb[1] & 0x01)
		scsi_fail_cdb(task, 1, 0);
}

static void reserve(struct scsi_task *task, bool release)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	if (unit->pr.count > 0 || /* SPC-4 5.13.3 */
	    (!release && unit->reserved && unit->reserved != task->path)) {
		scsi_fail_status(task, SCSI_RESERVATION_CONFLICT);
	} else if (!release) {
		unit->reserved = task->path;
	} else if (unit->reserved == task->path) {
		unit->reserved = NULL;
	}
	scsi_unit_guard(unit);
	pthread_mutex_unlock(&unit->lock);
	scsi_task_complete(task);
}

static void reserve_run(struct scsi_task *task)
{
	reserve(task, false);
}

static void release_run(struct scsi_task *task)
{
	reserve(task, true);
}

#define RESERVING(code, bytes, call)                                           \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_PR, .usage = {[1] = 0x11},                     \
		.parse = reserve_parse, .run = (call)                          \
	}

const struct scsi_command scsi_reserve_commands[] = {
	RESERVING(SCSI_RESERVE_6, 6, reserve_run),
	RESERVING(SCSI_RELEASE_6, 6, release_run),
	RESERVING(SCSI_RESERVE_10, 10, reserve_run),
	RESERVING(SCSI_RELEASE_10, 10, release_run),
	{.length = 0},
};
