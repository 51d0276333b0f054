/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of iscsi_conn.h share. Nobody else includes it. */
#ifndef TARGET_ISCSI_CONN_INTERNAL_H
#define TARGET_ISCSI_CONN_INTERNAL_H

#include "target/iscsi/iscsi_conn.h"
#include "target/iscsi/iscsi_session.h"
#include "target/net/receiver.h"
#include "target/scsi/scsi.h"

/* Bytes received at once, at most; touched only as far as data comes. */
#define ISCSI_RECEIVE_SIZE ((ISCSI_NEED_MAX + 4095u) & ~4095u)

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
	int64_t device_ns; /* iscsi_parts_look() */
	struct iscsi_parts *parts; /* NULL: it goes whole */
	bool abort_asked;
	uint32_t abort_itt; /* who asked */
	/* in the line for buffers */
	bool waiting;
	struct iscsi_io *waiting_next, *waiting_prev;
	int64_t since_ms;
};

/* A LUN of the session. */
struct iscsi_conn_lun {
	struct iscsi_conn_lun *next; /* of the connection */
	struct export_user user;
	struct export_stats stats;
	struct iscsi_conn *conn;
	struct blockdev *dev;
	unsigned lun;
	bool slow; /* the device, with large commands */
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
	struct receiver in;
	struct iscsi_io *writing; /* its payload is arriving */
	uint32_t writing_at, writing_left;
	bool heard;   /* since the last look */
	bool opening; /* it has not logged in yet; the service counts it */

	/* commands */
	struct iscsi_io *free;
	unsigned n_ios;      /* in use */
	unsigned active;     /* at the device server; parts one by one */
	unsigned n_parts;    /* of commands that are in parts */
	unsigned n_resets;   /* under way */
	bool cold_reset;     /* done: when that is said, all sessions end */
	size_t buffered;     /* bytes of iobufs */
	int64_t progress_ms; /* when the peer last took or sent something */
	/* while others wait for buffers: data of commands, of the peer */
	int64_t data_ms;   /* when enough of it last came, or began to be due */
	int64_t looked_ms; /* when that was last looked at */
	uint32_t data_came; /* bytes, since @data_ms */

	/* sending */
	struct loop_batch settle;
	struct iscsi_batch *batch;
	struct op send_op;
	bool sending;
	struct msghdr message;

	/* the session */
	struct iscsi_place *place; /* a reference */
	struct iscsi_chap_secrets secrets;
	struct iscsi_login_user user;
	bool entered;
	bool expelled, expel_ran; /* as with a LUN */
	struct loop_message expel_message;
	struct scsi_nexus *nexus;
	struct iscsi_conn_lun *luns; /* owned; @by_lun: those entered */
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

/* It has logged in, or never will. */
void iscsi_conn_opened(struct iscsi_conn *conn);

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
extern const struct receiver_ops iscsi_conn_receiver_ops;

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
 * The command has not started: it never will, and is not answered. Who has
 * asked for its abort is told when none of its parts is at the device.
 */
void iscsi_io_forget(struct iscsi_io *io);

/* It has started: it ends as soon as it can. */
void iscsi_io_abort(struct iscsi_io *io);

/* One of its uses has ended: it is freed with the last. It is dropped. */
void iscsi_io_drop(struct iscsi_io *io);

/* io->scsi says how it ended: it is answered, if it is to be. */
void iscsi_io_end(struct iscsi_io *io);

/* All that has not started; when closing, what has ends as soon as it can. */
void iscsi_io_forget_all(struct iscsi_conn *conn);

void iscsi_service_wake(struct loop_batch *batch);
void iscsi_service_check(struct op *op, int res);
void iscsi_service_drop_stuck(struct buffer_share *share, int64_t now_ms);

/* ---- iscsi_parts.c ---- */

/*
 * When a command goes to the device: clock_ns() if it is so large that its time
 * there says something; else 0. And afterwards: was that slow?
 */
int64_t iscsi_parts_look(const struct iscsi_io *io);
void iscsi_parts_measure(const struct iscsi_io *io, int64_t start_ns);

/*
 * True: it goes in parts. Of a WRITE before iscsi_session_accept(), of a READ
 * when it has its buffer.
 */
bool iscsi_parts_plan(struct iscsi_io *io);

/* None runs. Without any: nothing is done. */
void iscsi_parts_free(struct iscsi_io *io);

/* ISCSI_EVENT_PART */
void iscsi_parts_feed(struct iscsi_io *io);

/* All that comes has come; of a READ: begin. io->started is set. */
void iscsi_parts_whole(struct iscsi_io *io);

bool iscsi_parts_run(const struct iscsi_io *io);

/* Those that run end as soon as they can, no others begin. */
void iscsi_parts_abort(struct iscsi_io *io);

/* ---- iscsi_count.c ---- */

/* It is answered now. */
void iscsi_io_count(const struct iscsi_io *io);

/* What was agreed on, for struct export_user. */
void iscsi_conn_features(const struct iscsi_conn *conn,
			 char ret[static TARGET_FEATURES_MAX]);

/* ---- iscsi_manage.c ---- */

/* ISCSI_EVENT_MANAGE */
void iscsi_manage(struct iscsi_conn *conn, const struct iscsi_pdu *pdu);

/* ---- iscsi_enter.c ---- */

extern const struct iscsi_session_ops iscsi_conn_session_ops;

/* ISCSI_EVENT_COMMIT, and again when the tick says so. */
void iscsi_conn_commit(struct iscsi_conn *conn);

/* Close the devices and leave; nothing is at the device server. */
void iscsi_conn_leave(struct iscsi_conn *conn);

/* For scsi_nexus_set_ops(): may the session see that LUN? */
bool iscsi_conn_admits_lun(unsigned lun, void *context);

/* Nothing of them is in use, and no message is on its way. */
void iscsi_conn_free_luns(struct iscsi_conn *conn);

/* A message is still on its way to it. */
bool iscsi_conn_awaits_message(const struct iscsi_conn *conn);

/* On the loop, once. */
void iscsi_conn_expel_setup(struct iscsi_conn *conn);

/* ---- iscsi_send.c ---- */

/* Send what is ready. False: the peer is gone. */
bool iscsi_conn_send(struct iscsi_conn *conn);
void iscsi_conn_send_done(struct op *op, int res);

#endif
