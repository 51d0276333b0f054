/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations that were to survive, and are lost: SPC-4 5.13.5.3.2 and
 * 5.13.11.3.
 */
#include <errno.h>

#include "base/log.h"
#include "target/scsi/scsi_pr.h"

#define REPLACE_LOST 8    /* service action; SPC-4 6.16.2 */
#define ALL_TG_PT    0x04 /* SPC-4 table 214 */
#define APTPL        0x01

#define TARGET_PORT_GROUPS 0x0a /* service action; SPC-4 6.37 */

int scsi_pr_restore(struct scsi_unit *unit, struct error *err)
{
	bool known = unit->pr.lost;
	struct error why = {0};
	int r = scsi_pr_load(unit, &why);

	unit->pr.lost = r == -EBADMSG || r == -EFBIG || r == -EIO;
	if (!unit->pr.lost)
		return r < 0 ? error_set(err, -r, "%s", error_text(&why)) : 0;
	unit->pr.survives = unit->pr.saved = true;
	if (!known)
		(void)log_error(
			r,
			"%s: the reservations of the unit are lost, so all "
			"initiators are refused until one replaces the reservation "
			"(sg_persist --replace-lost), or the file is removed and "
			"the export set again",
			error_text(&why));
	return 0;
}

/* SPC-4 5.13.5.2, of the commands that we have. */
bool scsi_pr_lost_allows(const struct scsi_task *task)
{
	const uint8_t *cdb = task->cdb;

	switch (cdb[0]) {
	case SCSI_INQUIRY:
	case SCSI_REPORT_LUNS:
	case SCSI_REQUEST_SENSE: return true;
	case SCSI_MAINTENANCE_IN: return (cdb[1] & 0x1f) == TARGET_PORT_GROUPS;
	case SCSI_START_STOP_UNIT: /* a start */ return (cdb[4] & 0xf1) == 0x01;
	case SCSI_PERSISTENT_RESERVE_OUT:
		return (cdb[1] & 0x1f) == REPLACE_LOST;
	default: return false;
	}
}

/* SPC-4 table 216. True: it is as it has to be. */
static bool replace_check(struct scsi_task *task)
{
	const uint8_t *list = task->out;

	if (!scsi_task_unit(task)->pr.lost)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_BAD_RELEASE);
	else if (scsi_task_unit(task)->pr.replacing)
		scsi_fail_status(task, SCSI_BUSY);
	else if (scsi_be64(list) != 0)
		scsi_fail_list(task, 0, SCSI_NO_BIT);
	else if (scsi_be64(list + 8) == 0) /* that would be no registration */
		scsi_fail_list(task, 8, SCSI_NO_BIT);
	else if (list[20] & ALL_TG_PT)
		scsi_fail_list(task, 20, 2);
	return !task->failed;
}

void scsi_pr_replace(struct scsi_task *task)
{
	const struct scsi_nexus *nexus = task->nexus;
	struct scsi_pr *pr = &scsi_task_unit(task)->pr;
	unsigned type = task->cdb[2] & 0x0f;

	if (!replace_check(task))
		return;
	scsi_pr_clear(pr); /* of one that could not be saved */
	if (scsi_pr_add(pr, nexus->id, nexus->id_length,
			scsi_be64(task->out + 8)) < 0) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_NO_REGISTRATION);
		return;
	}
	pr->type = (uint8_t)type;
	pr->holder = scsi_pr_type_all(type) ? NULL : pr->first;
	pr->survives = task->out[20] & APTPL;
	pr->generation = 0;
	pr->replacing = true;
}

void scsi_pr_replaced(struct scsi_task *task, bool saved)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	unit->pr.replacing = false;
	unit->pr.lost = !saved;
	scsi_unit_guard(unit);
	pthread_mutex_unlock(&unit->lock);
}
