/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent reservations, SPC-4 5.13: the registrations with a unit, and the
 * holder of the reservation. Registrations belong to an initiator port, not to
 * a session: they stay when a session ends. All of it under the unit's lock.
 */
#ifndef TARGET_SCSI_PR_H
#define TARGET_SCSI_PR_H

#include "target/scsi/scsi_internal.h"

#define SCSI_PR_MAX 256u /* registrations of a unit; ours */

enum scsi_pr_type { /* SPC-4 table 59 */
		    SCSI_PR_NONE = 0,
		    SCSI_PR_WRITE = 1,
		    SCSI_PR_ACCESS = 3,
		    SCSI_PR_WRITE_REGISTRANTS = 5,
		    SCSI_PR_ACCESS_REGISTRANTS = 6,
		    SCSI_PR_WRITE_ALL = 7,
		    SCSI_PR_ACCESS_ALL = 8,
};

struct scsi_registration {
	struct scsi_registration *next;
	uint64_t key;
	unsigned id_length; /* bytes */
	uint8_t id[];       /* TransportID */
};

bool scsi_pr_type_ok(unsigned type);
/* All registrants hold it. */
bool scsi_pr_type_all(unsigned type);
/* Tell whether registrants may do the same as the holder. */
bool scsi_pr_type_registrants(unsigned type);
/* Tell whether others may not even read. */
bool scsi_pr_type_access(unsigned type);

/* @ret: at least SCSI_TRANSPORT_ID_MAX bytes. Returns the length. */
unsigned scsi_transport_id(const char *initiator, const uint8_t isid[6],
			   uint8_t *ret);

/*
 * The length of the iSCSI initiator port's TransportID at the beginning of
 * @data; 0: it is none, or not whole.
 */
unsigned scsi_transport_id_check(const uint8_t *data, size_t length);

/* Of the path's initiator port; NULL: it is not registered. */
struct scsi_registration *scsi_pr_find(const struct scsi_pr *pr,
				       const struct scsi_path *path);
struct scsi_registration *scsi_pr_find_id(const struct scsi_pr *pr,
					  const uint8_t *id, unsigned length);

/* The registrant holds the reservation, alone or with others. */
bool scsi_pr_holds(const struct scsi_pr *pr,
		   const struct scsi_registration *registration);

/* -ENOSPC: there are too many. -ENOMEM. */
int scsi_pr_add(struct scsi_pr *pr, const uint8_t *id, unsigned length,
		uint64_t key);
/* A reservation that it holds, alone or as the last one, is over. */
void scsi_pr_remove(struct scsi_pr *pr, struct scsi_registration *registration);
/* Remove all registrations; only the generation is kept. */
void scsi_pr_clear(struct scsi_pr *pr);

/* ---- REGISTER AND MOVE: scsi_pr_move.c ---- */

/*
 * Check the list of REGISTER AND MOVE, of at least 24 bytes. False: the task
 * has failed.
 */
bool scsi_pr_move_check(struct scsi_task *task);

/*
 * Move @own's reservation to the port that the list names, and register that
 * port by the new key. The key of @own was right.
 */
void scsi_pr_move(struct scsi_task *task, struct scsi_registration *own);

/* ---- kept over restarts: scsi_pr_state.c ---- */

#define SCSI_PR_STATE_MAX \
	(32 + SCSI_PR_MAX * (8 + 4 + SCSI_TRANSPORT_ID_MAX)) /* bytes */

/* @ret: at least SCSI_PR_STATE_MAX bytes. Returns the length. */
size_t scsi_pr_encode(const struct scsi_pr *pr, uint8_t *ret);

/* @pr: empty. -EBADMSG: damaged. -ENOMEM. On failure it is empty again. */
int scsi_pr_decode(struct scsi_pr *pr, const void *data, size_t length,
		   struct error *err);

/*
 * From unit->state_path. No such file: there are none. -EBADMSG, -EFBIG:
 * damaged; -EIO: it can't be read; others are of opening it, or -ENOMEM.
 */
int scsi_pr_load(struct scsi_unit *unit, struct error *err);

/*
 * Save the present state to unit->state_path, if it is to survive; else remove
 * the file. Blocks; the lock is not held.
 */
int scsi_pr_save(struct scsi_unit *unit, struct error *err);

/*
 * ---- reservations that are lost: scsi_pr_lost.c ----
 *
 * SPC-4 5.13.5.3.2. An initiator may hold a reservation that nobody knows of
 * any more. Every command that could get in its way is refused with DATA
 * PROTECT, PERSISTENT RESERVATION INFORMATION LOST. That ends when an initiator
 * says by REPLACE LOST RESERVATION which reservation is to be instead.
 */

/*
 * scsi_pr_load(); but a file that is damaged or can't be read is no error:
 * unit->pr.lost, and it is logged if that was not so before.
 */
int scsi_pr_restore(struct scsi_unit *unit, struct error *err);

/* Tell whether the command is answered all the same. */
bool scsi_pr_lost_allows(const struct scsi_task *task);

/*
 * REPLACE LOST RESERVATION: the initiator port is registered and holds the
 * reservation, alone. The reservation is saved first, and counts as lost until
 * scsi_pr_replaced(). A command that comes meanwhile is told BUSY. The unit's
 * lock is held.
 */
void scsi_pr_replace(struct scsi_task *task);
void scsi_pr_replaced(struct scsi_task *task, bool saved); /* takes the lock */

#endif
