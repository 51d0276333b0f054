/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PERSISTENT RESERVE OUT, REGISTER AND MOVE: the holder hands its reservation
 * to another initiator port. SPC-4 5.13.8, 6.16.4
 */
#include <errno.h>
#include <string.h>

#include "target/scsi/command/scsi_primary.h"
#include "target/scsi/scsi_pr.h"

#define HEAD  24u /* bytes; SPC-4 table 217; the TransportID is behind */
#define UNREG 0x02
#define APTPL 0x01

bool scsi_pr_move_check(struct scsi_task *task)
{
	const uint8_t *list = task->out;
	unsigned length = task->out_length - HEAD;

	if (scsi_be32(list + 20) != length)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	else if (scsi_be64(list + 8) == 0)
		scsi_fail_list(task, 8, SCSI_NO_BIT);
	else if ((list[17] & APTPL) && !scsi_task_unit(task)->state_path)
		scsi_fail_list(task, 17, 0);
	else if (scsi_be16(list + 18) != SCSI_PORT)
		scsi_fail_list(task, 18, SCSI_NO_BIT);
	else if (length == 0 ||
		 scsi_transport_id_check(list + HEAD, length) != length)
		scsi_fail_list(task, HEAD, SCSI_NO_BIT);
	return !task->failed;
}

/* The other, registered by the new key. NULL: there are too many. */
static struct scsi_registration *register_other(struct scsi_pr *pr,
						const struct scsi_task *task)
{
	const uint8_t *id = task->out + HEAD;
	unsigned length = task->out_length - HEAD;
	uint64_t key = scsi_be64(task->out + 8);
	struct scsi_registration *r = scsi_pr_find_id(pr, id, length);

	if (r)
		r->key = key;
	else if (scsi_pr_add(pr, id, length, key) == 0)
		r = scsi_pr_find_id(pr, id, length);
	return r;
}

void scsi_pr_move(struct scsi_task *task, struct scsi_registration *own)
{
	struct scsi_pr *pr = &scsi_task_unit(task)->pr;
	unsigned type = pr->type;
	struct scsi_registration *other;

	if (type == SCSI_PR_NONE) {
		scsi_fail_cdb(task, 1, 4);
		return;
	}
	if (scsi_pr_type_all(type) || pr->holder != own) {
		scsi_fail_status(task, SCSI_RESERVATION_CONFLICT);
		return;
	}
	if (task->out_length - HEAD == own->id_length &&
	    memcmp(task->out + HEAD, own->id, own->id_length) == 0) {
		scsi_fail_list(task, HEAD, SCSI_NO_BIT); /* to itself */
		return;
	}
	other = register_other(pr, task);
	if (!other) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_NO_REGISTRATION);
		return;
	}
	pr->holder = other; /* first: with its holder it would go */
	if (task->out[17] & UNREG)
		scsi_pr_remove(pr, own);
	pr->survives = task->out[17] & APTPL;
	pr->generation++;
}
