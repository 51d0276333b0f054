/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of nbd_conn.h share. Nobody else includes it. */
#ifndef TARGET_NBD_CONN_INTERNAL_H
#define TARGET_NBD_CONN_INTERNAL_H

#include <sys/queue.h>

#include "target/nbd/nbd_conn.h"
#include "target/nbd/nbd_session.h"
#include "target/net/receiver.h"
#include "target/net/tls.h"

/*
 * Bytes received at once, at most: 32 writes of 4 KiB, or more requests than
 * a connection may have. Memory is touched only as far as data comes.
 */
#define NBD_RECEIVE_SIZE (UINT32_C(128) << 10)
static_assert(NBD_RECEIVE_SIZE > NBD_SESSION_NEED_MAX, "an option must fit");

/* A request, from its header to the end of its reply. */
struct nbd_io {
	struct op op;
	struct nbd_conn *conn;
	struct nbd_io *next; /* free, ready or in the send */
	/* Changes data, at the device: in conn->changing. */
	TAILQ_ENTRY(nbd_io) in_changing;
	uint64_t round; /* export_table_round(); 0: it is not in there */
	struct nbd_request request;
	struct iobuf *buf; /* NULL: none */
	/* A WRITE: bytes received. TRIM and the like: done before @piece. */
	uint64_t progress;
	uint32_t piece; /* bytes of the operation under way */
	bool failed;    /* the reply says so */
	int64_t start_ns;
	uint32_t head_length;
	uint32_t data_length; /* of @data, behind the head */
	const void *data;     /* in @buf, or static text */
	uint8_t head[NBD_REPLY_HEAD_MAX];
};

TAILQ_HEAD(nbd_io_changing, nbd_io);

struct nbd_io_list {
	struct nbd_io *first, *last;
};

enum nbd_conn_phase {
	NBD_CONN_OPEN,
	NBD_CONN_DRAINING, /* takes no more requests; sends its replies */
	NBD_CONN_CLOSING,  /* socket shut; waits for what is in flight */
};

/* How far it was when others asked. */
struct nbd_asked {
	uint64_t round;    /* 0: it was not asked */
	uint64_t received; /* bytes, ever */
	uint64_t unread;   /* bytes that the socket had */
	int64_t ms;        /* when; clock_ms() */
};

/* What keeps the next request, or part of one, from going on. */
enum nbd_conn_stall {
	NBD_STALL_NONE,
	NBD_STALL_REQUESTS, /* NBD_CONN_REQUESTS are in flight */
	NBD_STALL_OWN,      /* NBD_CONN_BUFFER_MAX are in use */
	NBD_STALL_POOL,     /* the loop's pool is used up; queued */
};

struct nbd_conn {
	struct nbd_service *service;
	struct loop *loop;
	struct nbd_conn *next, **link; /* of the service */
	int fd;
	enum nbd_conn_phase phase;
	bool opening; /* counted by the service */
	struct nbd_session session;

	/* receiving */
	struct receiver in;
	struct nbd_io *writing; /* its payload is arriving */

	/* requests */
	enum nbd_conn_stall stall;
	struct nbd_io *stalled;        /* has no buffer yet */
	struct nbd_conn *waiting_next; /* NBD_STALL_POOL */
	struct nbd_io *free;
	unsigned used;                   /* of ios[], ever */
	unsigned active;                 /* at the device */
	struct nbd_io_changing changing; /* of these, the oldest first */
	size_t buffered;                 /* bytes of iobufs */
	int64_t progress_ms; /* when the peer last took or sent a byte, while
			      * a send or a direct receive is in flight */

	/* TLS (nbd_conn_tls.c); NULL: plain, or not yet */
	struct tls_session *tls;
	bool tls_starts;     /* once the answer to STARTTLS is out */
	struct msghdr plain; /* what is to be enciphered of @sent */

	/* sending */
	struct loop_batch batch;
	struct nbd_io_list ready; /* replies to send */
	struct nbd_io_list sent;  /* in the send under way */
	struct op send_op;
	bool sending;          /* send_op is in flight */
	bool output_in_send;   /* session.out is in iov[] */
	struct msghdr message; /* for the socket */
	struct iovec cipher;   /* its only part, with TLS */
	struct iovec iov[2 * NBD_CONN_REQUESTS + 1];

	/* the export */
	struct export_user user;
	bool entered;
	bool expelled;  /* a message from the table is due... */
	bool expel_ran; /* ...and has come */
	struct loop_message expel_message;
	struct loop_message ask_message; /* export_table_settle() */
	uint64_t received;               /* bytes, ever */
	/* Since it was asked for what it has not caught up with. */
	struct nbd_asked asked_first, asked_last;
	bool awaits; /* others, to settle */
	bool await_running;
	struct loop_timer await_timer;
	struct blockdev *dev;
	struct export_stats stats;
	int64_t now_ns; /* when the requests being parsed were taken up */

	struct loop_timer timer;
	bool timer_running;
	unsigned drain_timeout_ms;

	struct nbd_io ios[NBD_CONN_REQUESTS];
};

static inline struct nbd_io *nbd_io_list_take(struct nbd_io_list *list)
{
	struct nbd_io *io = list->first;

	if (io)
		list->first = io->next;
	if (!list->first)
		list->last = NULL;
	return io;
}

static inline void nbd_io_list_add(struct nbd_io_list *list, struct nbd_io *io)
{
	io->next = NULL;
	if (list->last)
		list->last->next = io;
	else
		list->first = io;
	list->last = io;
}

/* ---- nbd_conn.c ---- */

/* Look at the connection after this batch: send, or end. */
static inline void nbd_conn_touch(struct nbd_conn *conn)
{
	loop_batch_add(conn->loop, &conn->batch);
}

/* Shut the socket, let go of what is not in flight; freed in its batch. */
void nbd_conn_kill(struct nbd_conn *conn);

/* Log why, within a budget, and kill it. */
void nbd_conn_drop(struct nbd_conn *conn, const char *why);

/*
 * No more requests; what is under way is finished and answered, if the peer
 * takes it in time.
 */
void nbd_conn_drain(struct nbd_conn *conn, unsigned timeout_ms);

/* The handshake is over: its time limit, too. */
void nbd_conn_begin(struct nbd_conn *conn);

/* Requests that have not reached the device never will. */
void nbd_conn_forget(struct nbd_conn *conn);

/* ---- nbd_receive.c ---- */

/* The next payload is received straight into the buffer of conn->writing. */
bool nbd_conn_is_direct(const struct nbd_conn *conn);

/* Bytes of a payload are where they belong. */
void nbd_conn_payload_received(struct nbd_conn *conn, uint32_t length);

/* Parse what is received and ask for more, as far as there is room. */
void nbd_conn_go_on(struct nbd_conn *conn);
extern const struct receiver_ops nbd_conn_receiver_ops;

/* ---- nbd_enter.c ---- */

extern const struct nbd_session_ops nbd_conn_session_ops;

/* Close the device and let go of the export; nothing is at the device. */
void nbd_conn_leave(struct nbd_conn *conn);

/* On the loop, once. */
void nbd_conn_expel_setup(struct nbd_conn *conn);

/* A message or timer of its export is still to come. */
bool nbd_conn_is_called(const struct nbd_conn *conn);

/* NBD_EVENT_WAIT: go on in a while. */
void nbd_conn_await(struct nbd_conn *conn);

/* ---- nbd_conn_tls.c ---- */

/* TLS begins here: what comes next is its first message. */
void nbd_conn_tls_start(struct nbd_conn *conn);

/* What a new connection is offered. */
enum nbd_tls nbd_conn_tls_mode(const struct nbd_service *service,
			       const struct peer_address *peer);

/* Tell a peer behind TLS that nothing more comes, if it takes it at once. */
void nbd_conn_say_goodbye(struct nbd_conn *conn);

/* Receive what there is, for the next nbd_conn_tls_fill(). */
void nbd_conn_tls_receive(struct nbd_conn *conn);

/*
 * Decipher what was received to where it belongs. False: nothing came of it,
 * receive more; or the connection ends.
 */
bool nbd_conn_tls_fill(struct nbd_conn *conn);

/* Encipher the next part of conn->plain. False: it can't go on. */
bool nbd_conn_tls_encipher(struct nbd_conn *conn);

/* ---- nbd_io.c ---- */

/* NULL: NBD_CONN_REQUESTS are in flight. */
struct nbd_io *nbd_io_new(struct nbd_conn *conn, const struct nbd_request *r);

/* Its buffer goes back to the pool, and whoever waits for it is told. */
void nbd_io_free(struct nbd_io *io);

/*
 * Carry out the request; a WRITE becomes conn->writing.
 * False: no buffer can be had now; conn->stall says why.
 */
bool nbd_io_start(struct nbd_io *io);

/* The payload of the WRITE is there. */
void nbd_io_write(struct nbd_io *io);

/* Queue the reply: success without data. */
void nbd_io_accept(struct nbd_io *io);

/* The reply is an error: queue it. @why: static text. */
void nbd_io_refuse(struct nbd_io *io, uint32_t error, const char *why);

/* ---- nbd_buffer.c ---- */

enum nbd_buffer_result {
	NBD_BUFFER_GOT,
	NBD_BUFFER_STALLED, /* conn->stall says what is waited for */
	NBD_BUFFER_NONE,    /* waiting would not help: no memory */
};

/* Of at least @size bytes, as io->buf. */
enum nbd_buffer_result nbd_buffer_get(struct nbd_io *io, uint32_t size);
void nbd_buffer_put(struct nbd_conn *conn, struct iobuf *buf);

/* conn->stalled got nothing and does not want it any more. */
void nbd_io_stop_waiting(struct nbd_conn *conn);

void nbd_service_wake(struct loop_batch *batch);
void nbd_service_starving(struct op *op, int res);
void nbd_service_drop_stuck(struct buffer_share *share, int64_t now_ms);

/* ---- nbd_send.c ---- */

/* Send what is ready. False: the peer is gone. */
bool nbd_conn_send(struct nbd_conn *conn);
void nbd_conn_send_done(struct op *op, int res);

/* Nothing is to be sent, or under way. */
bool nbd_conn_all_sent(const struct nbd_conn *conn);

#endif
