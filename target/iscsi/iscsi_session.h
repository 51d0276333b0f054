/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iSCSI connection, which is a session's only one, as a state machine: bytes
 * in; PDUs to send, commands and verdicts out. It has no descriptor, never
 * waits, and knows nothing of the commands' effects.
 *
 * The owner keeps received bytes in one contiguous buffer and feeds it:
 *
 *	for (;;) {
 *		at += iscsi_session_feed(s, at, end - at, &event);
 *		switch (event.type) ...
 *	}
 *
 * and sends what collects inside:
 *
 *	while (iscsi_session_gather(s, &batch))
 *		send batch.iov; iscsi_session_sent(s, &batch);
 *
 * Error recovery is level 0 (RFC 7143 7): an error beyond a task ends the
 * connection, and with it the session.
 */
#ifndef TARGET_ISCSI_SESSION_H
#define TARGET_ISCSI_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "target/iscsi/iscsi_login.h"
#include "target/iscsi/iscsi_proto.h"

/* Commands that an initiator may have under way (RFC 7143 4.2.2.1); ours. */
#define ISCSI_WINDOW 128u

/* Immediate ones besides; of more, each is rejected. Ours. */
#define ISCSI_IMMEDIATE_MAX 16u

/* The session never asks for more contiguous bytes than this. */
#define ISCSI_NEED_MAX (ISCSI_HEAD_MAX + ISCSI_SEGMENT_MAX + 8u)

/* Data of a login request: what counts until another value is agreed on. */
#define ISCSI_LOGIN_SEGMENT_MAX 8192u /* bytes; RFC 7143 13.12 */

/* Answers that are queued, at most, before the owner has to stop feeding. */
#define ISCSI_SAYS_MAX       64u
#define ISCSI_SAYS_BYTES_MAX (UINT32_C(1) << 20)

/* ---- tasks ---- */

enum iscsi_item_kind {
	ISCSI_ITEM_SAY,
	ISCSI_ITEM_TASK, /* an answer: what is left of its data, and how it
			    ended */
	ISCSI_ITEM_PART, /* data of a task that is not answered yet */
};

/* An item in the queue of things to send. */
struct iscsi_item {
	struct iscsi_item *next;
	enum iscsi_item_kind kind;
};

/* Errors of a command's data. */
enum iscsi_task_error {
	ISCSI_TASK_FINE,
	ISCSI_TASK_DIGEST,     /* a data digest was wrong */
	ISCSI_TASK_UNEXPECTED, /* data that nobody asked for */
	ISCSI_TASK_SHORT,      /* less data than was asked for */
	ISCSI_TASK_NO_ROOM,    /* there was no buffer when data came */
};

enum iscsi_task_state {
	ISCSI_TASK_COLLECTING, /* its data comes */
	ISCSI_TASK_RUNNING,    /* the owner's */
	ISCSI_TASK_ANSWERED,   /* in the queue, or sent */
	ISCSI_TASK_FORGOTTEN,  /* the session does not know it any more */
};

#define ISCSI_TASK_SENSE_SIZE 18u /* bytes: fixed format */

/* A command; embedded in the owner's. */
struct iscsi_task {
	struct iscsi_item item;
	struct iscsi_task *next, **link; /* of the session */
	enum iscsi_task_state state;
	uint32_t itt;
	uint64_t lun;
	bool immediate, read, write;
	uint32_t expected_out, expected_in; /* bytes */

	/*
	 * The owner's, before iscsi_session_accept(): bytes of expected_out
	 * that it takes, into a buffer of its own if there is one yet. The
	 * rest is let go by.
	 */
	uint32_t wanted;
	bool has_buffer; /* may be set later: iscsi_session_solicit() */
	/*
	 * Number of bytes at which the owner is told of data before all of it
	 * is there (ISCSI_EVENT_PART); 0: never. The data is in order and free
	 * of errors. The number may be changed then.
	 */
	uint32_t tell;

	/* Collecting. */
	enum iscsi_task_error error;
	bool unsolicited;   /* data comes that need not be asked for */
	uint32_t received;  /* bytes, in order */
	uint32_t solicited; /* bytes received or asked for */
	uint32_t datasn;    /* of the next Data-Out */
	uint32_t r2tsn;     /* R2Ts so far */
	unsigned n_r2t;     /* that are outstanding, oldest first */
	struct {
		uint32_t ttt, end;
	} r2t[ISCSI_R2T_MAX];

	/* The answer: the owner's, before iscsi_session_answer(). Borrowed. */
	uint8_t status;
	uint32_t transfer_length; /* bytes that the command moves by itself */
	uint32_t in_length;       /* bytes at @in */
	const uint8_t *in;
	uint32_t sense_length; /* up to ISCSI_SENSE_MAX */
	const uint8_t *sense;

	/* Sending. */
	struct iscsi_item part; /* iscsi_session_part() */
	bool part_queued;       /* it is in the queue, or in a batch */
	bool part_sending;      /* in a batch */
	uint32_t part_end;      /* bytes of @in that may be sent */
	uint32_t sent;          /* bytes of @in */
	uint32_t sent_datasn;   /* Data-Ins so far */
	uint8_t own_sense[ISCSI_TASK_SENSE_SIZE];
};

#define ISCSI_SENSE_MAX 252u /* bytes; SPC-4 4.5.1 */

/* ---- sending ---- */

#define ISCSI_BATCH_IOV   512u
#define ISCSI_BATCH_HEADS (UINT32_C(32) << 10) /* bytes */

/* The content of one send. */
struct iscsi_batch {
	struct iovec iov[ISCSI_BATCH_IOV];
	unsigned n_iov;
	struct iscsi_item *first, *last; /* whole after this send */
	uint32_t used;                   /* bytes of heads */
	uint8_t heads[ISCSI_BATCH_HEADS];
};

/* ---- sessions ---- */

struct iscsi_session;

struct iscsi_session_ops {
	struct iscsi_login_ops login;
	/* Call iscsi_session_list_add() for each target the peer may see. */
	int (*list)(void *context, struct iscsi_session *session);
	/*
	 * An answered task is out, or never will be, or a forgotten one that
	 * was being sent is not any more: its memory is yours.
	 */
	void (*task_done)(void *context, struct iscsi_task *task);
};

enum iscsi_session_state {
	ISCSI_SESSION_LOGIN,
	ISCSI_SESSION_COMMIT, /* waits for iscsi_session_begin() */
	ISCSI_SESSION_FULL,
	ISCSI_SESSION_LOGOUT, /* takes no more */
	ISCSI_SESSION_CLOSED,
};

#define ISCSI_TASK_TABLE 64u /* rows, a power of two */

struct iscsi_session {
	const struct iscsi_session_ops *ops; /* borrowed */
	void *context;
	enum iscsi_session_state state;
	struct iscsi_login login;
	struct iscsi_params params; /* since the login */
	struct iscsi_login_response login_response;
	struct iscsi_answer answer;
	const char *portal; /* ADDRESS:PORT, "": none; borrowed */

	/* numbers */
	uint32_t statsn, exp_cmdsn;
	uint32_t ttt; /* the last one given */
	bool ping;    /* a NOP-In of ours is not answered */

	/* the PDU under way */
	struct iscsi_wire_bhs bhs;
	struct iscsi_pdu pdu;
	bool in_payload;
	struct iscsi_task *payload_task; /* NULL: it goes by */
	uint32_t payload_take;           /* bytes that the owner takes */
	uint32_t payload_skip;           /* bytes that go by */
	uint32_t payload_rest;           /* as much as that was at first */
	uint32_t payload_crc;

	/* commands */
	struct iscsi_task *tasks[ISCSI_TASK_TABLE]; /* not answered yet */
	unsigned n_open;      /* of them, those in the window */
	unsigned n_immediate; /* of them, the others */

	/* text requests */
	struct iscsi_text text;
	uint32_t text_itt, text_ttt;
	size_t text_sent;      /* bytes of @answer */
	const char *list_only; /* the target that is asked for; NULL: all */

	/* logout */
	uint32_t logout_itt;

	/* the queue of things to send */
	struct iscsi_item *first, *last;
	unsigned n_says;
	size_t says_bytes;
	bool failed; /* no memory: drop the connection */
};

enum iscsi_event_type {
	ISCSI_EVENT_MORE,    /* needs more bytes */
	ISCSI_EVENT_COMMAND, /* iscsi_session_accept() comes next */
	/*
	 * @length bytes come for @task, for @offset of its buffer:
	 * iscsi_session_payload_taken() comes next, any number of times.
	 */
	ISCSI_EVENT_PAYLOAD,
	ISCSI_EVENT_PART,   /* task->tell bytes, or more, of @task are there */
	ISCSI_EVENT_READY,  /* @task is whole: answer it some day */
	ISCSI_EVENT_MANAGE, /* iscsi_session_task_response() some day */
	/*
	 * The login is agreed on: iscsi_session_begin() or _deny() some day.
	 * Until then it takes nothing.
	 */
	ISCSI_EVENT_COMMIT,
	/* No more comes: when all is answered, iscsi_session_goodbye(). */
	ISCSI_EVENT_LOGOUT,
	ISCSI_EVENT_CLOSE, /* send what there is, then close */
	ISCSI_EVENT_DROP,  /* the peer broke the protocol: close at once */
};

struct iscsi_event {
	enum iscsi_event_type type;
	size_t need; /* MORE: contiguous bytes, up to ISCSI_NEED_MAX */
	bool again;  /* MORE: it got on; feed what there is at once */
	const struct iscsi_pdu *pdu; /* COMMAND, MANAGE: until the next feed */
	bool cdb_long;        /* COMMAND: there is more of it than in the PDU */
	uint32_t read_length; /* COMMAND: of a bidirectional one */
	struct iscsi_task *task;
	uint32_t offset, length; /* PAYLOAD */
	const char *why;         /* CLOSE, DROP: static text */
};

/* @ops, @context, @portal: borrowed until iscsi_session_done() */
void iscsi_session_init(struct iscsi_session *session,
			const struct iscsi_session_ops *ops, void *context,
			const char *portal);

/* No task is left in it (iscsi_session_abandon()). */
void iscsi_session_done(struct iscsi_session *session);

/*
 * Take the next whole element from @data, up to one event. Returns the bytes
 * consumed. While session->in_payload, feed also when there are none. With
 * ISCSI_EVENT_MORE feed again at once if @again, else when there are at least
 * @need bytes from there on.
 */
size_t iscsi_session_feed(struct iscsi_session *session, const void *data,
			  size_t length, struct iscsi_event *ret);

/* Too much is to be sent: feed no more until some of it is gone. */
bool iscsi_session_full(const struct iscsi_session *session);

/* The login ends well, with this handle, which is not 0; or with a status. */
void iscsi_session_begin(struct iscsi_session *session, uint16_t tsih);
void iscsi_session_deny(struct iscsi_session *session,
			enum iscsi_login_status status, const char *why);

/* For ops->list. @name: of a target */
int iscsi_session_list_add(struct iscsi_session *session, const char *name);

/* ---- commands ---- */

/*
 * Begin a task after ISCSI_EVENT_COMMAND; @task is zeroed. Sets the members
 * that the PDU tells. Then the owner looks at the command, sets @wanted and
 * @has_buffer, and calls iscsi_session_accept().
 */
void iscsi_session_task_init(struct iscsi_session *session,
			     struct iscsi_task *task,
			     const struct iscsi_event *event);

/* True: it is whole already, as if ISCSI_EVENT_READY had come. */
bool iscsi_session_accept(struct iscsi_session *session,
			  struct iscsi_task *task);

/* Ask for the data, as there is a buffer now. */
void iscsi_session_solicit(struct iscsi_session *session,
			   struct iscsi_task *task);

/* @length bytes at @data went to where ISCSI_EVENT_PAYLOAD said. */
void iscsi_session_payload_taken(struct iscsi_session *session,
				 const void *data, uint32_t length);

/* The answer is set: send it. */
void iscsi_session_answer(struct iscsi_session *session,
			  struct iscsi_task *task);

/* The same for a task->error. */
void iscsi_session_answer_error(struct iscsi_session *session,
				struct iscsi_task *task);

/*
 * Let the first @end bytes of task->in be sent before the answer, which will
 * have them. Set task->in_length first: the bytes that there will be, of which
 * these are not all. The answer may be that there are no more.
 */
void iscsi_session_part(struct iscsi_session *session, struct iscsi_task *task,
			uint32_t end);

/*
 * No answer: it was aborted. Data that still comes for it goes by. False: a
 * part of it is being sent, ops->task_done() is called when it is out.
 */
bool iscsi_session_forget(struct iscsi_session *session,
			  struct iscsi_task *task);

/* The task with that tag that is not answered yet; NULL: none. */
struct iscsi_task *iscsi_session_task(const struct iscsi_session *session,
				      uint32_t itt);

/* Call @visit for all tasks not answered; it may forget the one. */
void iscsi_session_each_task(struct iscsi_session *session,
			     void (*visit)(struct iscsi_task *task,
					   void *context),
			     void *context);

/* ---- what the owner has said ---- */

void iscsi_session_task_response(struct iscsi_session *session, uint32_t itt,
				 enum iscsi_task_answer response);
void iscsi_session_ping(struct iscsi_session *session);
void iscsi_session_async(struct iscsi_session *session,
			 enum iscsi_async_event event);
void iscsi_session_goodbye(struct iscsi_session *session);

/* ---- sending ---- */

/* Fill @batch; false: there is nothing. */
bool iscsi_session_gather(struct iscsi_session *session,
			  struct iscsi_batch *batch);

/* @batch is out, or never will be. */
void iscsi_session_sent(struct iscsi_session *session,
			struct iscsi_batch *batch);

/* Give up a connection that is over: queued items never go out. */
void iscsi_session_abandon(struct iscsi_session *session);

static inline bool iscsi_session_all_sent(const struct iscsi_session *session)
{
	return !session->first;
}

#endif
