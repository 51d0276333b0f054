/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands at work on the medium. A few commands (COMPARE AND WRITE and its
 * like) must have their blocks for themselves; all others go the plain way,
 * which is one counter of their own path and a look at one flag. While the flag
 * is up everybody takes a range under the unit's lock instead; a command that
 * wants a range alone waits for the plain ones to be gone, and for its turn.
 *
 * Order: a plain command counts itself, then looks at the flag; the other
 * raises the flag, then looks at the counters. One of both sees the other.
 */
#include <string.h>

#include "target/scsi/scsi_internal.h"

/* An ordered command has a turn of its own: it overlaps with everything. */
static bool overlap(const struct scsi_task *a, const struct scsi_task *b)
{
	if (a->attribute == SCSI_ORDERED || b->attribute == SCSI_ORDERED)
		return true;
	return a->offset < b->offset + b->length &&
	       b->offset < a->offset + a->length;
}

static bool range_is_alone(const struct scsi_task *task)
{
	return task->entered == SCSI_EXCLUSIVE ||
	       task->entered == SCSI_WAITING_EXCLUSIVE;
}

static bool excluded(const struct scsi_task *task,
		     const struct scsi_task *first, const struct scsi_task *end)
{
	for (const struct scsi_task *t = first; t != end; t = t->next)
		if ((range_is_alone(t) || range_is_alone(task)) &&
		    overlap(t, task))
			return true;
	return false;
}

static bool any_plain(const struct scsi_unit *unit)
{
	for (struct scsi_path *p = unit->paths; p; p = p->next_of_unit)
		if (atomic_load(&p->plain))
			return true;
	return false;
}

/* Not excluded by a task that holds a range, or has waited for longer. */
static bool may_go(const struct scsi_unit *unit, const struct scsi_task *task)
{
	return !excluded(task, unit->held, NULL) &&
	       !excluded(task, unit->waiting, task) &&
	       !(range_is_alone(task) && any_plain(unit));
}

static void list_append(struct scsi_task **list, struct scsi_task *task)
{
	while (*list)
		list = &(*list)->next;
	task->next = NULL;
	*list = task;
}

static bool list_remove(struct scsi_task **list, struct scsi_task *task)
{
	for (; *list; list = &(*list)->next)
		if (*list == task) {
			*list = task->next;
			return true;
		}
	return false;
}

static void grant(struct scsi_unit *unit, struct scsi_task *task)
{
	(void)list_remove(&unit->waiting, task); /* it is there */
	task->entered = task->entered == SCSI_WAITING_EXCLUSIVE ? SCSI_EXCLUSIVE
								: SCSI_SHARED;
	task->path->granted++;
	task->next = unit->held;
	unit->held = task;
}

/* No task that was aborted is at the medium. */
static bool range_drained(const struct scsi_unit *unit)
{
	if (any_plain(unit))
		return false;
	for (const struct scsi_task *t = unit->held; t; t = t->next)
		if (t->epoch != atomic_load(&t->path->epoch))
			return false;
	return true;
}

static void drains_settle(struct scsi_unit *unit)
{
	if (!unit->drains || !range_drained(unit))
		return;
	while (unit->drains) {
		struct scsi_drain *drain = unit->drains;

		unit->drains = drain->next;
		atomic_fetch_sub(&unit->exclusive, 1);
		loop_post(drain->loop, &drain->message);
	}
}

/* Let tasks go on that may by now; the lock is held. */
static void settle(struct scsi_unit *unit)
{
	struct scsi_task *next;

	drains_settle(unit);
	for (struct scsi_task *t = unit->waiting; t; t = next) {
		next = t->next;
		if (!may_go(unit, t))
			continue;
		grant(unit, t);
		loop_post(t->path->nexus->loop, &t->message);
	}
}

static void message_run(struct loop_message *message)
{
	struct scsi_task *task = container_of(message, struct scsi_task,
					      message);

	task->entered_call(task);
}

static bool enter_locked(struct scsi_task *task, bool exclusive)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	if (exclusive)
		atomic_fetch_add(&unit->exclusive, 1);
	task->entered = exclusive ? SCSI_WAITING_EXCLUSIVE
				  : SCSI_WAITING_SHARED;
	list_append(&unit->waiting, task);
	if (may_go(unit, task)) {
		grant(unit, task);
		return true;
	}
	return false;
}

bool scsi_range_enter(struct scsi_task *task, bool exclusive,
		      void (*entered)(struct scsi_task *task))
{
	struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_path *path = task->path;
	bool go;

	if (!exclusive) {
		atomic_fetch_add(&path->plain, 1);
		if (!atomic_load(&unit->exclusive)) {
			task->entered = SCSI_PLAIN;
			return true;
		}
	}
	task->entered_call = entered;
	task->message.run = message_run;
	pthread_mutex_lock(&unit->lock);
	if (!exclusive)
		atomic_fetch_sub(&path->plain, 1);
	go = enter_locked(task, exclusive);
	settle(unit); /* somebody may have seen us as a plain one */
	pthread_mutex_unlock(&unit->lock);
	return go;
}

void scsi_range_leave(struct scsi_task *task)
{
	bool plain = task->entered == SCSI_PLAIN;
	struct scsi_unit *unit;

	if (task->entered == SCSI_OUTSIDE)
		return;
	unit = scsi_task_unit(task);
	if (plain) {
		atomic_fetch_sub(&task->path->plain, 1);
		task->entered = SCSI_OUTSIDE;
		if (!atomic_load(&unit->exclusive))
			return;
	}
	pthread_mutex_lock(&unit->lock);
	if (!plain) {
		(void)list_remove(&unit->held, task); /* it is there */
		task->path->granted--;
		if (task->entered == SCSI_EXCLUSIVE)
			atomic_fetch_sub(&unit->exclusive, 1);
		task->entered = SCSI_OUTSIDE;
	}
	settle(unit);
	pthread_mutex_unlock(&unit->lock);
}

/* Out of the line; its entered() is called. The lock is held. */
static void turn_away(struct scsi_unit *unit, struct scsi_task *task)
{
	if (!list_remove(&unit->waiting, task))
		return;
	if (task->entered == SCSI_WAITING_EXCLUSIVE)
		atomic_fetch_sub(&unit->exclusive, 1);
	task->entered = SCSI_OUTSIDE;
	loop_post(task->path->nexus->loop, &task->message);
}

void scsi_range_cancel(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);

	pthread_mutex_lock(&unit->lock);
	turn_away(unit, task);
	settle(unit);
	pthread_mutex_unlock(&unit->lock);
}

/* The lowest bit of an epoch: tasks that it ended are told TASK ABORTED. */
#define EPOCH_TELL 1u

void scsi_path_abort(struct scsi_path *path, bool tell)
{
	struct scsi_unit *unit = path->unit;
	unsigned epoch = atomic_load(&path->epoch) | EPOCH_TELL;
	struct scsi_task *next;

	atomic_store(&path->epoch, epoch + (tell ? 2 : 1));
	for (struct scsi_task *t = unit->waiting; t; t = next) {
		next = t->next;
		if (t->path == path)
			turn_away(unit, t);
	}
	settle(unit);
}

void scsi_drain_start(struct scsi_unit *unit, struct scsi_drain *drain)
{
	atomic_fetch_add(&unit->exclusive, 1);
	drain->next = unit->drains;
	unit->drains = drain;
	settle(unit);
}
