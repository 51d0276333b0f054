/* SPDX-License-Identifier: Apache-2.0 */
/* What a session may do beside the reservations of others. */
#include "target/scsi_internal.h"

bool scsi_reserved(const struct scsi_task *task)
{
	struct scsi_unit *unit;
	bool refused = false;

	if (!task->path || !task->command)
		return false;
	unit = scsi_task_unit(task);
	if (!atomic_load(&unit->guarded))
		return false;
	if (task->command->flags & (SCSI_C_ALWAYS | SCSI_C_PR))
		return false;
	pthread_mutex_lock(&unit->lock);
	refused = unit->reserved && unit->reserved != task->path;
	pthread_mutex_unlock(&unit->lock);
	return refused;
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
