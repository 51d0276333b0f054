/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of iscsi_conn.h. Nobody else includes it. */
#ifndef TARGET_ISCSI_CONN_INTERNAL_H
#define TARGET_ISCSI_CONN_INTERNAL_H

#include "target/conn/conn.h"
#include "target/conn/conn_export.h"
#include "target/iscsi/iscsi_conn.h"
#include "target/iscsi/iscsi_session.h"
#include "target/scsi/scsi.h"

/* Commands: those in the window, and answers that are on their way. */
#define ISCSI_IOS_MAX (2 * ISCSI_WINDOW + ISCSI_IMMEDIATE_MAX)

/*
 * Parts that the commands of one session may have; a device has to bear them
 * and as many commands as there may be. Ours.
 */
#define ISCSI_PARTS_MAX 64u

/* Resets that one session has under way. Ours. */
#define ISCSI_RESETS_MAX 8u

/* A command, from its PDU to the end of its answer. */
struct iscsi_io {
	struct iscsi_task task; /* first: the session knows it as that */
	struct scsi_task scsi;
	struct iscsi_conn *conn;
	struct iscsi_io *next; /* free */
	struct iobuf *out, *in, *scratch;
	int64_t start_ns;  /* clock_ns() when it was there */
	bool started;      /* the device server has it, and all of its data */
	bool dropped;      /* it is not answered; freed when it is not in use */
	bool sending;      /* then: some of it is in a send */
	int64_t device_ns; /* iscsi_split_look() */
	struct iscsi_split *parts; /* NULL: it goes whole */
	bool abort_asked;
	uint32_t abort_itt;    /* of the abort */
	struct conn_wait wait; /* for buffers */
};

/* A LUN of the session. */
struct iscsi_conn_lun {
	struct iscsi_conn_lun *next; /* of the connection */
	struct conn_export use;
	struct iscsi_conn *conn;
	unsigned lun;
	bool slow; /* the device, with large commands */
};

struct iscsi_conn_reset {
	struct scsi_reset reset;
	struct iscsi_conn *conn;
	uint32_t itt;
	bool cold;
};

struct iscsi_conn {
	struct conn base; /* first */
	struct iscsi_session session;
	char portal[PEER_ADDRESS_TEXT_MAX + 16];

	struct iscsi_io *writing; /* its payload is arriving */
	uint32_t writing_at, writing_left;
	uint64_t heard; /* conn->received, at the last look */

	/* commands; base.active: at the device server, each part, resets */
	struct iscsi_io *free;
	unsigned n_ios;    /* in use */
	unsigned n_parts;  /* of commands that are in parts */
	unsigned n_resets; /* under way */
	bool cold_reset;   /* done: when that is said, all sessions end */

	struct iscsi_batch *batch; /* in the send */

	/* the session */
	struct iscsi_target *target; /* a reference */
	struct chap_secrets secrets;
	struct iscsi_login_user user;
	bool entered;
	struct conn_revoke revoke;
	struct scsi_nexus *nexus;
	struct iscsi_conn_lun *luns; /* owned; @by_lun: those entered */
	struct iscsi_conn_lun *by_lun[SCSI_LUNS];
	bool waited; /* for an older session of the same initiator */
};

static inline struct iscsi_conn *iscsi_conn_of(struct conn *base)
{
	return container_of(base, struct iscsi_conn, base);
}

static inline struct iscsi_service *iscsi_service_of(
	const struct iscsi_conn *conn)
{
	return container_of(conn->base.service, struct iscsi_service, base);
}

/* ---- iscsi_io.c ---- */

static inline struct iscsi_io *iscsi_io_of(struct iscsi_task *task)
{
	return (struct iscsi_io *)task;
}

static inline bool iscsi_io_room(const struct iscsi_conn *conn)
{
	return conn->n_ios < ISCSI_IOS_MAX;
}

/* For scsi_nexus_set_ops(): the session's device; @context: the conn. */
int iscsi_io_open(struct scsi_path *path, void *context);

/* ISCSI_EVENT_COMMAND. False: no memory. */
bool iscsi_io_command(struct iscsi_conn *conn, const struct iscsi_event *event);

/* ISCSI_EVENT_READY */
void iscsi_io_ready(struct iscsi_io *io);

/* For iscsi_session_ops: it is not in the session any more. */
void iscsi_io_sent(struct iscsi_io *io);

/*
 * The command has not started: it never will, and is not answered. An
 * abort of it is answered when none of its parts is at the device.
 */
void iscsi_io_forget(struct iscsi_io *io);

/* The command has started: it ends as soon as it can. */
void iscsi_io_abort(struct iscsi_io *io);

/* A use of a dropped command has ended: the last one frees it. */
void iscsi_io_drop(struct iscsi_io *io);

/* io->scsi says how it ended: it is answered, if it is to be. */
void iscsi_io_end(struct iscsi_io *io);

/*
 * Drop all requests that have not started. When the connection closes, started
 * ones end as soon as they can.
 */
void iscsi_io_forget_all(struct iscsi_conn *conn);

/* conn_ops */
bool iscsi_io_owes_payload(struct conn *base);
bool iscsi_io_retry(struct conn_wait *wait);
void iscsi_io_give_up(struct conn_wait *wait);

/* ---- iscsi_split_io.c ---- */

/*
 * When a command goes to the device: clock_ns() if it is so large that its time
 * there says something; else 0. And afterwards: was that slow?
 */
int64_t iscsi_split_look(const struct iscsi_io *io);
void iscsi_split_measure(const struct iscsi_io *io, int64_t start_ns);

/*
 * True: it goes in parts. Of a WRITE before iscsi_session_accept(), of a READ
 * when it has its buffer.
 */
bool iscsi_split_plan(struct iscsi_io *io);

/* No part runs. Does nothing where there is none. */
void iscsi_split_free(struct iscsi_io *io);

/* ISCSI_EVENT_PART */
void iscsi_split_feed(struct iscsi_io *io);

/*
 * Go on when all data of the command has come; begin a READ. io->started is
 * set.
 */
void iscsi_split_whole(struct iscsi_io *io);

bool iscsi_split_run(const struct iscsi_io *io);

/* Parts that run end as soon as they can, no others begin. */
void iscsi_split_abort(struct iscsi_io *io);

/* ---- iscsi_count.c ---- */

/* Count the command, which is answered now. */
void iscsi_io_count(const struct iscsi_io *io);

/* Write the features that were agreed on, for struct export_user. */
void iscsi_conn_features(const struct iscsi_conn *conn,
			 char ret[static TARGET_FEATURES_MAX]);

/* ---- iscsi_manage.c ---- */

/* ISCSI_EVENT_MANAGE */
void iscsi_manage(struct iscsi_conn *conn, const struct iscsi_pdu *pdu);

/* ---- iscsi_session_open.c ---- */

extern const struct iscsi_session_ops iscsi_conn_session_ops;

/* Once, when the connection is new. */
void iscsi_conn_revoke_setup(struct iscsi_conn *conn);

/* ISCSI_EVENT_COMMIT, and again when the tick says so. */
void iscsi_conn_commit(struct iscsi_conn *conn);

/* For scsi_nexus_set_ops(): may the session see that LUN? */
bool iscsi_conn_admits_lun(unsigned lun, void *context);

/* Free the LUNs. Nothing of them is in use, and no message is on its way. */
void iscsi_conn_free_luns(struct iscsi_conn *conn);

/* conn_ops */
void iscsi_conn_leave(struct conn *base);
bool iscsi_conn_is_called(const struct conn *base);

#endif
