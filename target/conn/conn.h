/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one protocol on one loop: their life, receiving, sending,
 * TLS, and their share of the loop's buffers. A protocol is a table of
 * functions (struct conn_ops). Its own struct embeds struct conn as the first
 * member. All functions run on the loop's thread.
 *
 * Speed: one receive takes many requests, they go to the device together, and
 * one send carries all replies that are ready. While requests are small, one
 * operation receives them again and again (a stream, base/loop/loop.h). A large
 * payload is received where the device takes it from.
 *
 * Bounds: a connection has at most CONN_BUFFER_MAX bytes of buffers. Beyond
 * that a request waits until its own connection gives buffers back. No other
 * connection waits for it. A request that finds no buffer for another reason
 * waits in the service's line, first come, first served. Its connection may
 * stop receiving. Meanwhile a peer that sits on buffers is dropped
 * (conn_buffer.c). A connection's first few bytes come from a reserve.
 *
 *	conn_start()   CONN_OPEN, and `opening` until conn_opened()
 *	conn_logout()  CONN_LOGOUT: feeds no more; ops->settle() goes on
 *	conn_drain()   CONN_DRAINING: feeds no more; answers, sends, then:
 *	conn_kill()    CONN_CLOSING: the socket is shut; freed when all is back
 */
#ifndef TARGET_CONN_H
#define TARGET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop/loop.h"
#include "target/conn/receiver.h"
#include "target/export/export_table.h"
#include "target/net/tls.h"

/* Bytes of buffers of one connection, or one request if larger. Ours. */
#define CONN_BUFFER_MAX (UINT32_C(32) << 20)

/*
 * Connections of a service that have not opened an export or logged in. One
 * more drops the oldest of them, so that silent peers keep nobody out. Ours.
 */
#define CONN_OPENING_MAX 128

#define CONN_PEER_TIMEOUT_S   60    /* without a word from it; ours */
#define CONN_STOP_TIMEOUT_MS  2000  /* target_free(), target.h */
#define CONN_DRAIN_TIMEOUT_MS 30000 /* for a peer that has said goodbye */

/* While requests wait for buffers. Ours. */
#define CONN_WAIT_CHECK_MS 50
#define CONN_WAIT_MAX_MS   8000 /* then ops->give_up() */
#define CONN_STUCK_MAX_MS  5000 /* of a peer that holds buffers */
/* Bytes in that time, of a peer that owes a payload. */
#define CONN_STUCK_DATA_MIN (UINT32_C(16) << 10)

/*
 * The most bytes that a connection may hold to get buffers of the loop's
 * reserve, these counted. The reserve needs no standing in line, so that other
 * connections never hold up such a small request. Ours.
 */
#define CONN_RESERVE_MAX (UINT32_C(256) << 10)

struct conn;
struct conn_wait;

/* A protocol; all members are Required but where said. */
struct conn_ops {
	const char *name;         /* in the log: "nbd" */
	size_t size;              /* bytes of the protocol's own struct */
	uint32_t receive_size;    /* bytes received at once; one element fits */
	unsigned open_timeout_ms; /* until conn_opened() */
	const char *open_late;    /* why it is dropped then... */
	const char *open_many;    /* ...and with CONN_OPENING_MAX others */

	/* The struct is zeroed, @conn is set. -ENOMEM. */
	int (*init)(struct conn *conn);
	/* Free the protocol's members; nothing is in flight. */
	void (*done)(struct conn *conn);

	/* ---- receiving ---- */

	/*
	 * Take what conn->in has, as far as there is room for it, and set
	 * conn->payload. Tell whether there is room to receive more.
	 */
	bool (*feed)(struct conn *conn);
	/* Small requests may follow each other: a stream is worth it. */
	bool (*may_stream)(const struct conn *conn);
	/* @n bytes are in conn->payload. */
	void (*payload_came)(struct conn *conn, uint32_t n);
	/* A buffer waits for bytes that are the peer's to send. */
	bool (*owes_payload)(struct conn *conn);
	/* The peer has closed its side: drain or kill. */
	void (*hung_up)(struct conn *conn);
	/* Optional. The TLS handshake that conn_tls_begin() began is over. */
	void (*tls_on)(struct conn *conn);

	/* ---- sending ---- */

	/* Set @message to the bytes that are ready. False: there are none. */
	bool (*gather)(struct conn *conn, struct msghdr *message);
	/* The gathered bytes are out, or never will be. */
	void (*sent)(struct conn *conn);

	/* ---- buffers ---- */

	/*
	 * Buffers may be there for @wait. True: it has them, and has left the
	 * line. False: the loop has none.
	 */
	bool (*retry)(struct conn_wait *wait);
	/* Optional. CONN_WAIT_MAX_MS have passed; removes it from the line. */
	void (*give_up)(struct conn_wait *wait);

	/* ---- life ---- */

	/* Optional. After each batch of completions, once all was sent. */
	void (*settle)(struct conn *conn);
	/* The time of conn_tick_start() has come, in CONN_OPEN. */
	void (*tick)(struct conn *conn);
	/* Answers are to come: draining waits for them. */
	bool (*is_due)(const struct conn *conn);
	/*
	 * Drop requests that have not begun. In CONN_CLOSING nothing is
	 * answered, either, and requests that have begun may end early.
	 */
	void (*forget)(struct conn *conn);
	/* Close devices, leave exports; nothing is in flight. Repeated. */
	void (*leave)(struct conn *conn);
	/* A message of another thread is on its way. */
	bool (*is_called)(const struct conn *conn);
	/* conn_service_grow() */
	void (*grow)(struct conn *conn, const char *name, uint64_t size);
	/* Optional. The service stops: tell the peer, then it is drained. */
	void (*stop)(struct conn *conn);
};

enum conn_wait_place {
	CONN_WAIT_NOWHERE,
	CONN_WAIT_OWN,  /* in conn->own: for buffers of its connection */
	CONN_WAIT_LINE, /* in service->line: for buffers of the loop */
};

/* A request that waits for buffers; embedded in it. */
struct conn_wait {
	TAILQ_ENTRY(conn_wait) in_line; /* of @place */
	enum conn_wait_place place;
	struct conn *conn;
	uint64_t size;    /* bytes */
	int64_t since_ms; /* at @place */
};

TAILQ_HEAD(conn_line, conn_wait);
LIST_HEAD(conn_list, conn);

struct conn_service {
	const struct conn_ops *ops;
	struct loop *loop;
	struct export_table *exports;
	const struct tls_server *tls; /* NULL: none; set after init */
	bool tls_required;            /* of TCP peers; NBD */
	unsigned peer_timeout_s;      /* may be set after init */
	/* @n connections have ended and are freed; 0: only a timer has. */
	void (*ended)(struct conn_service *service, unsigned n);
	void *owner; /* of ended() */

	struct conn_list conns; /* the newest first */
	unsigned opening;       /* of them */
	bool stopping;
	struct conn_line line; /* for buffers */
	bool refused;          /* data came without room for it... */
	int64_t refused_ms;    /* ...the last time then */
	bool waits;  /* for buffers: some stand in line, or @refused */
	size_t held; /* bytes of buffers, without the reserve's */
	/* While the other protocol waits: @half of the loop's buffers, bytes */
	size_t half;
	struct conn_service *other; /* NULL: there is none */
	struct loop_batch wake;
	struct loop_timer check; /* runs only while requests wait */
	bool check_runs;
	struct log_limit log_limit;
};

enum conn_phase {
	CONN_OPEN,
	CONN_LOGOUT,
	CONN_DRAINING,
	CONN_CLOSING,
};

struct conn {
	struct conn_service *service;
	const struct conn_ops *ops;
	struct loop *loop;
	LIST_ENTRY(conn) in_service;
	int fd;
	struct peer_address peer;
	const char
		*asked_for; /* in the log; borrowed, safe to print; or NULL */
	enum conn_phase phase;
	bool opening;    /* counted by the service */
	bool paused;     /* feeds nothing until the tick */
	unsigned active; /* requests at the device; the protocol counts */
	struct loop_batch batch;

	/* receiving */
	struct receiver in;
	struct iovec payload; /* where the next bytes go; no length: to @in */
	uint64_t received;    /* bytes, ever */

	/* sending */
	struct op send_op;
	bool sending;          /* send_op is in flight */
	struct msghdr message; /* for the socket */

	/* TLS (conn_tls.c); NULL: plain, or not yet */
	struct tls_session *tls;
	bool tls_begins;     /* once the answer before it is out */
	struct msghdr plain; /* to be enciphered, of what was gathered */
	struct iovec cipher; /* the only part of @message, with TLS */

	/* buffers */
	size_t buffered;      /* bytes of iobufs */
	struct conn_line own; /* requests beyond CONN_BUFFER_MAX */
	int64_t progress_ms;  /* when the peer last took something of a send, or
			       * sent all of a payload's piece */
	/* While requests wait: the payloads that the peer owes. */
	int64_t data_ms;    /* enough of them last came, or began to be due */
	int64_t looked_ms;  /* when that was last looked at */
	uint32_t data_came; /* bytes, since @data_ms */

	struct loop_timer timer; /* to open, to drain */
	bool timer_runs;
	unsigned drain_timeout_ms;
	struct loop_timer tick;
	bool tick_runs;
};

/* ---- services ---- */

/* @ops, @loop, @exports: borrowed until every connection has ended. */
void conn_service_init(struct conn_service *service, const struct conn_ops *ops,
		       struct loop *loop, struct export_table *exports);

/*
 * Share the loop's buffers, @limit bytes. While connections of one service
 * wait, those of the other get no more than half of them.
 */
void conn_service_pair(struct conn_service *a, struct conn_service *b,
		       size_t limit);

/*
 * End every connection: requests in flight finish, their replies are sent if
 * the peer takes them within CONN_STOP_TIMEOUT_MS. New ones end at once.
 */
void conn_service_stop(struct conn_service *service);

/*
 * Every connection of export @name (without epoch) reaches up to @size bytes
 * from here on, if that is more than it had.
 */
void conn_service_grow(struct conn_service *service, const char *name,
		       uint64_t size);

/* Nothing of it is in flight, and it has no connections. */
bool conn_service_still(const struct conn_service *service);

/*
 * Serve the peer at @fd, which it takes. ended() is called for it in any case;
 * from inside the call if it can't be started.
 */
void conn_start(struct conn_service *service, int fd,
		const struct peer_address *peer);

/* ---- life ---- */

/* Look at the connection after this batch: send, or end. */
void conn_touch(struct conn *conn);

/* The export is open, or the peer has logged in; its time limit ends. */
void conn_opened(struct conn *conn);

/* Feed no more; the protocol says goodbye in its own time. */
void conn_logout(struct conn *conn);

/*
 * Feed no more. Requests under way are answered if the peer takes it in time.
 */
void conn_drain(struct conn *conn, unsigned timeout_ms);

/* Shut the socket and forget all that is not in flight. */
void conn_kill(struct conn *conn);

/* Log "dropped", @why (within a budget), and kill it. */
void conn_drop(struct conn *conn, const char *why);

/* Log "NAME: WHAT PEER: WHY", within a budget. */
void conn_complain(struct conn *conn, const char *what, const char *why);

/* ops->tick() in @delay_ms; none runs yet. */
void conn_tick_start(struct conn *conn, unsigned delay_ms);

/* ---- receiving and sending ---- */

/* Feed the received bytes and ask for more, as far as there is room. */
void conn_go_on(struct conn *conn);

/* Send the bytes that are ready. False: the peer is gone. */
bool conn_send(struct conn *conn);

/* For conn_tls.c. @length bytes of @message are out: leave them behind. */
void conn_message_advance(struct msghdr *message, size_t length);

/* ---- TLS: conn_tls.c ---- */

/*
 * The peer is told to begin TLS: once that is sent, the handshake begins. Drops
 * a peer that has sent bytes behind its request.
 */
void conn_tls_begin(struct conn *conn);

/* For conn.c. What conn_tls_begin() promised. */
void conn_tls_start(struct conn *conn);

/* For conn.c. Receive what there is, for conn_tls_fill(). */
void conn_tls_receive(struct conn *conn);

/*
 * For conn.c. Decipher received bytes to the place of the next ones. False: no
 * plain bytes came, receive more; or the connection ends.
 */
bool conn_tls_fill(struct conn *conn);

/*
 * For conn.c. Set conn->message to enciphered bytes. Returns 0 (there are
 * none), 1, or -EPROTO: the connection can't go on.
 */
int conn_tls_gather(struct conn *conn);

/* For conn.c. Tell the peer that nothing more comes, if it takes it at once. */
void conn_tls_goodbye(struct conn *conn);

/* ---- buffers: conn_buffer.c ---- */

/*
 * Get a buffer of @size bytes or more. NULL: @wait must wait, or the request be
 * refused.
 *
 * @wait  the request's own: in the line, it is its turn
 */
struct iobuf *conn_buffer_get(struct conn *conn, const struct conn_wait *wait,
			      uint32_t size);

/* Get @n buffers of @sizes bytes or more, 0: none. False: none of them. */
bool conn_buffers_get(struct conn *conn, const struct conn_wait *wait,
		      const uint32_t *sizes, unsigned n, struct iobuf **ret);

/* Give it back: requests that wait are tried again. NULL is fine. */
void conn_buffer_put(struct conn *conn, struct iobuf *buf);

/* Wait for @size bytes, all that the request needs now. */
void conn_wait_add(struct conn *conn, struct conn_wait *wait, uint64_t size);
/* Wait no more; does nothing if it does not wait. */
void conn_wait_remove(struct conn_wait *wait);

/* Data came without room for it, and went by: its peer will try again. */
void conn_buffers_refused(struct conn_service *service);

/* @n bytes of a payload came. */
void conn_data_came(struct conn *conn, uint32_t n);

/* For conn.c. */
void conn_service_wake(struct loop_batch *batch);
void conn_service_check(struct op *op, int res);

#endif
