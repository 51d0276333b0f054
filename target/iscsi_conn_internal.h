/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of iscsi_conn.h share. Nobody else includes it. */
#ifndef TARGET_ISCSI_CONN_INTERNAL_H
#define TARGET_ISCSI_CONN_INTERNAL_H

#include "target/iscsi_conn.h"
#include "target/iscsi_session.h"
#include "target/scsi.h"

/* Bytes received at once, at most; touched only as far as data comes. */
#define ISCSI_RECEIVE_SIZE ((ISCSI_NEED_MAX + 4095u) & ~4095u)

/* Commands: those in the window, and answers that are on their way. */
#define ISCSI_IOS_MAX (2 * ISCSI_WINDOW + ISCSI_IMMEDIATE_MAX)

/* Resets that one session has under way. Ours. */
#define ISCSI_RESETS_MAX 8u

/* A command, from its PDU to the end of its answer. */
struct iscsi_io {
	struct iscsi_task task; /* first: the session knows it as that */
	struct scsi_task scsi;
	struct iscsi_conn *conn;
	struct iscsi_io *next; /* free */
	struct iobuf *out, *in;
	bool started; /* the device server has it */
	bool abort_asked;
	uint32_t abort_itt; /* who asked */
	/* in the line for buffers */
	bool waiting;
	struct iscsi_io *waiting_next, *waiting_prev;
	int64_t since_ms;
};

/* A LUN of the session. */
struct iscsi_conn_lun {
	struct export_user user;
	struct iscsi_conn *conn;
	struct blockdev *dev;
	unsigned lun;
	bool entered;
	bool expelled;  /* a message from the table is due... */
	bool expel_ran; /* ...and has come */
	struct loop_message expel_message;
};

struct iscsi_conn_reset {
	struct scsi_reset reset;
	struct iscsi_conn *conn;
	uint32_t itt;
	bool cold;
};

enum iscsi_conn_phase {
	ISCSI_CONN_OPEN,
	ISCSI_CONN_LOGOUT,   /* takes no more; answers, and says goodbye */
	ISCSI_CONN_DRAINING, /* takes no more; sends what there is */
	ISCSI_CONN_CLOSING,  /* socket shut; waits for what is in flight */
};

struct iscsi_conn {
	struct iscsi_service *service;
	struct loop *loop;
	struct iscsi_conn *next, **link; /* of the service */
	int fd;
	enum iscsi_conn_phase phase;
	struct iscsi_session session;
	struct peer_address peer;
	char portal[PEER_ADDRESS_TEXT_MAX + 16];

	/* receiving */
	struct op receive_op;
	bool receiving;
	bool receiving_direct; /* into the buffer of conn->writing */
	uint8_t *buffer;       /* ISCSI_RECEIVE_SIZE bytes */
	uint32_t start, end;   /* of what is not parsed yet */
	uint32_t receive_limit;
	struct iscsi_io *writing; /* its payload is arriving */
	uint32_t writing_at, writing_left;
	bool heard; /* since the last look */

	/* commands */
	struct iscsi_io *free;
	unsigned n_ios;    /* in use */
	unsigned active;   /* at the device server */
	unsigned n_resets; /* under way */
	bool cold_reset;   /* done: when that is said, all sessions end */
	size_t buffered;   /* bytes of iobufs */
	int64_t progress_ms;

	/* sending */
	struct loop_batch settle;
	struct iscsi_batch *batch;
	struct op send_op;
	bool sending;
	struct msghdr message;

	/* the session */
	struct iscsi_place *place; /* a reference */
	struct iscsi_login_user user;
	bool entered;
	bool expelled, expel_ran; /* as with a LUN */
	struct loop_message expel_message;
	struct scsi_nexus *nexus;
	struct iscsi_conn_lun *luns;
	unsigned n_luns;
	struct iscsi_conn_lun *by_lun[SCSI_LUNS];
	bool committing; /* tried again by the timer */
	bool waited;     /* for an older session of the same initiator */

	struct loop_timer timer; /* login, drain */
	bool timer_running;
	unsigned drain_timeout_ms;
	struct loop_timer tick; /* commit, ping */
	bool tick_running;
};

/* ---- iscsi_conn.c ---- */

/* Look at the connection after this batch: send, or end. */
static inline void iscsi_conn_touch(struct iscsi_conn *conn)
{
	loop_batch_add(conn->loop, &conn->settle);
}

/* Shut the socket, let go of what is not in flight; freed in its batch. */
void iscsi_conn_kill(struct iscsi_conn *conn);

/* Log why, within a budget. */
void iscsi_conn_complain(struct iscsi_conn *conn, const char *what,
			 const char *why);

/* Complain, and kill it. */
void iscsi_conn_drop(struct iscsi_conn *conn, const char *why);

/* No more comes; what is queued is sent, then it is over. */
void iscsi_conn_drain(struct iscsi_conn *conn, unsigned timeout_ms);

void iscsi_conn_tick_start(struct iscsi_conn *conn, unsigned delay_ms);

/* ---- iscsi_receive.c ---- */

/* Parse what is received and ask for more, as far as there is room. */
void iscsi_conn_go_on(struct iscsi_conn *conn);
void iscsi_conn_receive_done(struct op *op, int res);

/* ---- iscsi_io.c ---- */

static inline struct iscsi_io *iscsi_io_of(struct iscsi_task *task)
{
	return (struct iscsi_io *)task;
}

static inline bool iscsi_io_room(const struct iscsi_conn *conn)
{
	return conn->n_ios < ISCSI_IOS_MAX;
}

/* For scsi_nexus_set_open(): the session's device; @context: the conn. */
int iscsi_io_open(struct scsi_path *path, void *context);

/* ISCSI_EVENT_COMMAND. False: no memory. */
bool iscsi_io_command(struct iscsi_conn *conn, const struct iscsi_event *event);

/* ISCSI_EVENT_READY */
void iscsi_io_ready(struct iscsi_io *io);

/* Its buffers go back; it is not in the session any more. */
void iscsi_io_free(struct iscsi_io *io);

/* The command has not started: it never will, and is not answered. */
void iscsi_io_forget(struct iscsi_io *io);

/* All that has not started; when closing, what has ends as soon as it can. */
void iscsi_io_forget_all(struct iscsi_conn *conn);

void iscsi_service_wake(struct loop_batch *batch);
void iscsi_service_check(struct op *op, int res);

/* ---- iscsi_manage.c ---- */

/* ISCSI_EVENT_MANAGE */
void iscsi_manage(struct iscsi_conn *conn, const struct iscsi_pdu *pdu);

/* ---- iscsi_enter.c ---- */

extern const struct iscsi_session_ops iscsi_conn_session_ops;

/* ISCSI_EVENT_COMMIT, and again when the tick says so. */
void iscsi_conn_commit(struct iscsi_conn *conn);

/* Close the devices and leave; nothing is at the device server. */
void iscsi_conn_leave(struct iscsi_conn *conn);

/* A message is still on its way to it. */
bool iscsi_conn_awaits_message(const struct iscsi_conn *conn);

/* On the loop, once. */
void iscsi_conn_expel_setup(struct iscsi_conn *conn);

/* ---- iscsi_send.c ---- */

/* Send what is ready. False: the peer is gone. */
bool iscsi_conn_send(struct iscsi_conn *conn);
void iscsi_conn_send_done(struct op *op, int res);

#endif
