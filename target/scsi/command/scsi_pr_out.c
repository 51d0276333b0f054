/* SPDX-License-Identifier: Apache-2.0 */
/* PERSISTENT RESERVE OUT, SPC-4 6.16 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "target/scsi/scsi_pr.h"

enum action {
	REGISTER = 0,
	RESERVE = 1,
	RELEASE = 2,
	CLEAR = 3,
	PREEMPT = 4,
	PREEMPT_AND_ABORT = 5,
	REGISTER_AND_IGNORE = 6,
	REGISTER_AND_MOVE = 7,
	REPLACE_LOST = 8,
};

#define LIST_LENGTH 24u /* bytes; SPC-4 table 213 */
#define SPEC_I_PT   0x08
#define APTPL       0x01

/* A command, while it works on the reservations; the lock is held. */
struct out {
	struct scsi_task *task;
	struct scsi_unit *unit;
	struct scsi_pr *pr;
	struct scsi_registration *own; /* NULL: not registered */
	uint64_t key, action_key;
	unsigned type;
	uint8_t flags; /* SPEC_I_PT, APTPL */
	bool abort;    /* the tasks of whom it removes */
};

/* Work that is left to do without the lock. */
struct after {
	struct scsi_drain drain;
	struct scsi_task *task;
	bool save;
	struct error err;
};

static void conflict(struct out *out)
{
	scsi_fail_status(out->task, SCSI_RESERVATION_CONFLICT);
}

/* ---- whom it is told to ---- */

static bool is_of(const struct scsi_path *path,
		  const struct scsi_registration *r)
{
	return path->nexus->id_length == r->id_length &&
	       memcmp(path->nexus->id, r->id, r->id_length) == 0;
}

static void pr_tell(struct out *out, const struct scsi_registration *r,
		    enum scsi_attention ua)
{
	for (struct scsi_path *p = out->unit->paths; p; p = p->next_of_unit)
		if (p != out->task->path && is_of(p, r))
			scsi_attention_raise(p, ua);
}

static void tell_others(struct out *out, enum scsi_attention ua)
{
	for (struct scsi_registration *r = out->pr->first; r; r = r->next)
		if (r != out->own)
			pr_tell(out, r, ua);
}

/* ---- REGISTER, REGISTER AND IGNORE EXISTING KEY ---- */

static void add(struct out *out, const uint8_t *id, unsigned length)
{
	int r = scsi_pr_add(out->pr, id, length, out->action_key);

	if (r < 0)
		scsi_fail(out->task, SCSI_ILLEGAL_REQUEST,
			  SCSI_ASC_NO_REGISTRATION);
}

/* The ports in the list: all are right, or nothing is done. */
static bool ports_check(struct out *out, unsigned *ret_count)
{
	const uint8_t *list = out->task->out;
	unsigned length = out->task->out_length;
	unsigned at = LIST_LENGTH + 4;

	*ret_count = 0;
	if (length < at || scsi_be32(list + LIST_LENGTH) > length - at) {
		scsi_fail(out->task, SCSI_ILLEGAL_REQUEST,
			  SCSI_ASC_LIST_LENGTH);
		return false;
	}
	length = at + scsi_be32(list + LIST_LENGTH);
	while (at < length) {
		unsigned n = scsi_transport_id_check(list + at, length - at);

		if (n == 0) {
			scsi_fail_list(out->task, at, SCSI_NO_BIT);
			return false;
		}
		if (scsi_pr_find_id(out->pr, list + at, n)) {
			conflict(out);
			return false;
		}
		++*ret_count;
		at += n;
	}
	return true;
}

static void ports_add(struct out *out)
{
	const uint8_t *list = out->task->out;
	unsigned at = LIST_LENGTH + 4;
	unsigned end = at + scsi_be32(list + LIST_LENGTH);

	while (at < end && !out->task->failed) {
		unsigned n = scsi_transport_id_check(list + at, end - at);

		if (!scsi_pr_find_id(out->pr, list + at, n)) /* named twice */
			add(out, list + at, n);
		at += n;
	}
}

static void register_new(struct out *out)
{
	const struct scsi_nexus *nexus = out->task->nexus;
	unsigned ports = 0;

	if ((out->flags & SPEC_I_PT) && !ports_check(out, &ports))
		return;
	if (out->pr->count + 1 + ports > SCSI_PR_MAX) {
		scsi_fail(out->task, SCSI_ILLEGAL_REQUEST,
			  SCSI_ASC_NO_REGISTRATION);
		return;
	}
	if (!scsi_pr_find(out->pr, out->task->path))
		add(out, nexus->id, nexus->id_length);
	if (out->flags & SPEC_I_PT)
		ports_add(out);
}

static void unregister(struct out *out)
{
	unsigned type = out->pr->type;

	scsi_pr_remove(out->pr, out->own);
	out->own = NULL;
	if (type != SCSI_PR_NONE && out->pr->type == SCSI_PR_NONE &&
	    scsi_pr_type_registrants(type))
		tell_others(out, SCSI_UA_RELEASED);
}

static void do_register(struct out *out, bool ignore)
{
	struct scsi_task *task = out->task;

	if (!ignore && out->key != (out->own ? out->own->key : 0)) {
		conflict(out);
		return;
	}
	if ((out->flags & SPEC_I_PT) && (ignore || out->own)) {
		scsi_fail_list(task, 20, 3);
		return;
	}
	if ((out->flags & APTPL) && !out->unit->state_path) {
		scsi_fail_list(task, 20, 0);
		return;
	}
	if (out->own && out->action_key == 0)
		unregister(out);
	else if (out->own)
		out->own->key = out->action_key;
	else if (out->action_key)
		register_new(out);
	if (task->failed)
		return;
	out->pr->survives = out->flags & APTPL;
	out->pr->generation++;
}

/* ---- RESERVE, RELEASE, CLEAR ---- */

static void do_reserve(struct out *out)
{
	struct scsi_pr *pr = out->pr;

	if (pr->type != SCSI_PR_NONE) {
		if (!scsi_pr_holds(pr, out->own) || pr->type != out->type)
			conflict(out);
		return;
	}
	pr->type = (uint8_t)out->type;
	pr->holder = scsi_pr_type_all(out->type) ? NULL : out->own;
}

static void do_release(struct out *out)
{
	struct scsi_pr *pr = out->pr;

	if (!scsi_pr_holds(pr, out->own))
		return; /* it is none of its business, and no error */
	if (pr->type != out->type) {
		scsi_fail(out->task, SCSI_ILLEGAL_REQUEST,
			  SCSI_ASC_BAD_RELEASE);
		return;
	}
	pr->type = SCSI_PR_NONE;
	pr->holder = NULL;
	if (scsi_pr_type_registrants(out->type))
		tell_others(out, SCSI_UA_RELEASED);
}

static void do_clear(struct out *out)
{
	tell_others(out, SCSI_UA_PREEMPTED);
	scsi_pr_clear(out->pr);
	out->own = NULL;
	out->pr->generation++;
}

/* ---- PREEMPT, PREEMPT AND ABORT ---- */

static void abort_of(struct out *out, const struct scsi_registration *r)
{
	for (struct scsi_path *p = out->unit->paths; p; p = p->next_of_unit)
		if (p != out->task->path && is_of(p, r))
			scsi_path_abort(p, out->unit->mode.tell_aborted);
}

/*
 * Remove all but the own registration with that key; 0: any key. Returns how
 * many there were, with the own one.
 */
static unsigned remove_key(struct out *out, uint64_t key)
{
	struct scsi_registration *next;
	unsigned n = 0;

	for (struct scsi_registration *r = out->pr->first; r; r = next) {
		next = r->next;
		if (key && r->key != key)
			continue;
		n++;
		if (r == out->own)
			continue;
		pr_tell(out, r, SCSI_UA_UNREGISTERED);
		if (out->abort)
			abort_of(out, r);
		scsi_pr_remove(out->pr, r);
	}
	return n;
}

/* The reservation becomes the own one, of another type maybe. */
static void take_over(struct out *out, uint64_t key)
{
	struct scsi_pr *pr = out->pr;
	unsigned old = pr->type;

	(void)remove_key(out, key);
	if (old != out->type)
		tell_others(out, SCSI_UA_RELEASED);
	pr->type = (uint8_t)out->type;
	pr->holder = scsi_pr_type_all(out->type) ? NULL : out->own;
	pr->generation++;
}

static void do_preempt(struct out *out)
{
	struct scsi_pr *pr = out->pr;
	bool all = scsi_pr_type_all(pr->type);

	if (all && out->action_key == 0) {
		take_over(out, 0);
		return;
	}
	if (pr->holder && pr->holder->key == out->action_key) {
		take_over(out, out->action_key);
		return;
	}
	if (out->action_key == 0) {
		scsi_fail_list(out->task, 8, SCSI_NO_BIT);
		return;
	}
	if (remove_key(out, out->action_key) == 0)
		conflict(out);
	else
		pr->generation++;
}

/* ---- all of them ---- */

static void out_parse(struct scsi_task *task)
{
	enum action action = task->cdb[1] & 0x1f;
	bool typed = action == RESERVE || action == RELEASE ||
		     action == PREEMPT || action == PREEMPT_AND_ABORT ||
		     action == REPLACE_LOST;

	if (typed && task->cdb[2] >> 4)
		scsi_fail_cdb(task, 2, 7);
	else if (typed && !scsi_pr_type_ok(task->cdb[2] & 0x0f))
		scsi_fail_cdb(task, 2, 3);
	else if (task->transfer_length < LIST_LENGTH)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
}

/* The list is as long as it has to be. */
static bool list_check(struct scsi_task *task)
{
	enum action action = task->cdb[1] & 0x1f;
	bool ports;

	if (task->out_length < task->transfer_length) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
		return false;
	}
	if (action == REGISTER_AND_MOVE)
		return scsi_pr_move_check(task);
	ports = task->out[20] & SPEC_I_PT;
	if (ports && action != REGISTER && action != REGISTER_AND_IGNORE)
		scsi_fail_list(task, 20, 3);
	else if (!ports && task->transfer_length != LIST_LENGTH)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	return !task->failed;
}

static void act(struct out *out)
{
	enum action action = out->task->cdb[1] & 0x1f;

	if (out->unit->reserved) {
		conflict(out);
		return;
	}
	if (action != REGISTER && action != REGISTER_AND_IGNORE &&
	    action != REPLACE_LOST &&
	    (!out->own || out->own->key != out->key)) {
		conflict(out);
		return;
	}
	switch (action) {
	case REGISTER:
	case REGISTER_AND_IGNORE:
		do_register(out, action == REGISTER_AND_IGNORE);
		break;
	case RESERVE: do_reserve(out); break;
	case RELEASE: do_release(out); break;
	case CLEAR: do_clear(out); break;
	case PREEMPT:
	case PREEMPT_AND_ABORT: do_preempt(out); break;
	case REGISTER_AND_MOVE: scsi_pr_move(out->task, out->own); break;
	case REPLACE_LOST: scsi_pr_replace(out->task); break;
	}
}

/* ---- and then: aborted tasks are gone, lasting reservations are saved ---- */

static int save_run(struct loop_work *work)
{
	struct scsi_task *task = container_of(work, struct scsi_task, work);
	struct after *after = task->context;

	return scsi_pr_save(scsi_task_unit(task), &after->err);
}

static void save_done(struct loop_work *work, int res)
{
	struct scsi_task *task = container_of(work, struct scsi_task, work);
	struct after *after = task->context;

	if (res < 0) {
		(void)log_error(res, "persistent reservations: %s",
				error_text(&after->err));
		scsi_fail(task, SCSI_HARDWARE_ERROR, SCSI_ASC_INTERNAL);
	}
	if ((task->cdb[1] & 0x1f) == REPLACE_LOST)
		scsi_pr_replaced(task, res >= 0);
	scsi_task_complete(task);
}

static void pr_out_finish(struct after *after)
{
	struct scsi_task *task = after->task;

	if (task->failed || !after->save) {
		scsi_task_complete(task);
		return;
	}
	task->work.run = save_run;
	task->work.done = save_done;
	loop_work(task->nexus->loop, &task->work);
}

static void pr_drained(struct loop_message *message)
{
	struct scsi_drain *drain = container_of(message, struct scsi_drain,
						message);

	pr_out_finish(container_of(drain, struct after, drain));
}

static void out_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	struct out out = {.task = task, .unit = unit, .pr = &unit->pr};
	struct after *after;
	bool wait;

	if (!list_check(task)) {
		scsi_task_complete(task);
		return;
	}
	after = calloc(1, sizeof(*after));
	if (!after) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return;
	}
	task->context = after;
	after->task = task;
	out.key = scsi_be64(task->out);
	out.action_key = scsi_be64(task->out + 8);
	out.flags = task->out[20];
	out.type = task->cdb[2] & 0x0f;
	out.abort = (task->cdb[1] & 0x1f) == PREEMPT_AND_ABORT;
	pthread_mutex_lock(&unit->lock);
	out.own = scsi_pr_find(out.pr, task->path);
	act(&out);
	scsi_unit_guard(unit);
	after->save = unit->state_path && (out.pr->survives || out.pr->saved);
	wait = out.abort && !task->failed;
	if (wait) {
		after->drain.loop = task->nexus->loop;
		after->drain.message.run = pr_drained;
		scsi_drain_start(unit, &after->drain);
	}
	pthread_mutex_unlock(&unit->lock);
	if (!wait)
		pr_out_finish(after);
}

#define RESERVE_OUT(number)                                                \
	{                                                                  \
		.opcode = SCSI_PERSISTENT_RESERVE_OUT, .action = (number), \
		.length = 10, .flags = SCSI_C_PR | SCSI_C_LIST_OUT,        \
		.list_at = 5, .list_size = 4,                              \
		.usage = {0, 0x1f, 0xff, [5] = 0xff, 0xff, 0xff, 0xff},    \
		.parse = out_parse, .run = out_run                         \
	}

const struct scsi_command scsi_pr_out_commands[] = {
	RESERVE_OUT(REGISTER),
	RESERVE_OUT(RESERVE),
	RESERVE_OUT(RELEASE),
	RESERVE_OUT(CLEAR),
	RESERVE_OUT(PREEMPT),
	RESERVE_OUT(PREEMPT_AND_ABORT),
	RESERVE_OUT(REGISTER_AND_IGNORE),
	RESERVE_OUT(REGISTER_AND_MOVE),
	RESERVE_OUT(REPLACE_LOST),
	{.length = 0},
};
