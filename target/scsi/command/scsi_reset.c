/* SPDX-License-Identifier: Apache-2.0 */
/* Task management of several tasks at once: SAM-5 7. */
#include <errno.h>

#include "target/scsi/scsi_internal.h"

static void reset_next(struct scsi_reset *reset);

static void unit_reset_done(struct scsi_reset *reset, int res)
{
	reset->res = res;
	reset->done(reset);
}

/* SAM-5 6.3.3 */
static void unit_reset(struct scsi_unit *unit)
{
	for (struct scsi_path *p = unit->paths; p; p = p->next_of_unit)
		p->prevents = false;
	unit->reserved = NULL;
	scsi_unit_guard(unit);
	scsi_mode_reset(unit);
	scsi_attention_raise_all(unit, NULL, SCSI_UA_RESET);
}

static void abort_paths(struct scsi_reset *reset, struct scsi_unit *unit)
{
	bool tell = unit->mode.tell_aborted;

	for (struct scsi_path *p = unit->paths; p; p = p->next_of_unit) {
		bool own = p->nexus == reset->nexus;

		if (!own && reset->function == SCSI_ABORT_TASK_SET)
			continue;
		scsi_path_abort(p, tell && !own);
		if (!own && !tell && reset->function == SCSI_CLEAR_TASK_SET)
			scsi_attention_raise(p, SCSI_UA_CLEARED);
	}
}

static void reset_drained(struct loop_message *message)
{
	struct scsi_drain *drain = container_of(message, struct scsi_drain,
						message);
	struct scsi_reset *reset = container_of(drain, struct scsi_reset,
						drain);
	struct scsi_unit *unit = reset->unit;

	reset->unit = NULL;
	scsi_unit_unref(unit);
	if (reset->function == SCSI_TARGET_RESET)
		reset_next(reset);
	else
		unit_reset_done(reset, 0);
}

/* Takes the reference. */
static void hit(struct scsi_reset *reset, struct scsi_unit *unit)
{
	reset->unit = unit;
	reset->drain.loop = reset->nexus->loop;
	reset->drain.message.run = reset_drained;
	pthread_mutex_lock(&unit->lock);
	abort_paths(reset, unit);
	if (reset->function == SCSI_LUN_RESET ||
	    reset->function == SCSI_TARGET_RESET)
		unit_reset(unit);
	scsi_drain_start(unit, &reset->drain);
	pthread_mutex_unlock(&unit->lock);
}

static void reset_next(struct scsi_reset *reset)
{
	while (++reset->lun < SCSI_LUNS) {
		struct scsi_unit *unit = scsi_nexus_unit(reset->nexus,
							 (unsigned)reset->lun);

		if (unit) {
			hit(reset, unit);
			return;
		}
	}
	unit_reset_done(reset, 0);
}

void scsi_reset_start(struct scsi_reset *reset, struct scsi_nexus *nexus,
		      enum scsi_function function, const uint8_t lun[8])
{
	struct scsi_unit *unit;
	int n;

	reset->nexus = nexus;
	reset->function = function;
	reset->unit = NULL;
	reset->lun = -1;
	if (function == SCSI_TARGET_RESET) {
		reset_next(reset);
		return;
	}
	n = scsi_lun_decode(lun);
	unit = n < 0 ? NULL : scsi_nexus_unit(nexus, (unsigned)n);
	if (unit)
		hit(reset, unit);
	else
		unit_reset_done(reset, -ENOENT);
}
