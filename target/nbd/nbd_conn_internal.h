/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of nbd_conn.h. Nobody else includes it. */
#ifndef TARGET_NBD_CONN_INTERNAL_H
#define TARGET_NBD_CONN_INTERNAL_H

#include <sys/queue.h>

#include "target/conn/conn.h"
#include "target/conn/conn_export.h"
#include "target/nbd/nbd_conn.h"
#include "target/nbd/nbd_session.h"

/* A request, from its header to the end of its reply. */
struct nbd_io {
	struct op op;
	struct nbd_conn *conn;
	STAILQ_ENTRY(nbd_io) in_list; /* free, ready or in the send */
	/* Changes data, at the device: in conn->changing. */
	TAILQ_ENTRY(nbd_io) in_changing;
	uint64_t round; /* export_table_round(); 0: it is not in there */
	struct nbd_request request;
	const struct io_kind *kind;
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
STAILQ_HEAD(nbd_io_list, nbd_io);

/* The state of a connection when others asked. */
struct nbd_asked {
	uint64_t round;    /* 0: it was not asked */
	uint64_t received; /* bytes, ever */
	uint64_t unread;   /* bytes that the socket had */
	int64_t ms;        /* when; clock_ms() */
};

struct nbd_conn {
	struct conn base; /* first */
	struct nbd_session session;
	struct nbd_io *writing; /* its payload is arriving */

	/* requests */
	struct nbd_io *stalled; /* has no buffer yet: those behind it wait */
	struct conn_wait wait;  /* of @stalled */
	struct nbd_io_list free;
	unsigned n_ios;                  /* in use */
	unsigned used;                   /* of ios[], ever */
	struct nbd_io_changing changing; /* of these, the oldest first */
	int64_t now_ns; /* when the requests being parsed were taken up */

	/* sending */
	struct nbd_io_list ready; /* replies to send */
	struct nbd_io_list sent;  /* in the send under way */
	bool output_in_send;      /* session.out is in iov[] */
	struct iovec iov[2 * NBD_CONN_REQUESTS + 1];

	/* the export */
	struct conn_export export;
	struct loop_message ask_message; /* export_table_settle() */
	/* States since the first question that is not answered yet. */
	struct nbd_asked asked_first, asked_last;

	struct nbd_io ios[NBD_CONN_REQUESTS];
};

static inline struct nbd_conn *nbd_conn_of(struct conn *base)
{
	return container_of(base, struct nbd_conn, base);
}

/* ---- nbd_io.c ---- */

/* conn->n_ios is below NBD_CONN_REQUESTS. */
struct nbd_io *nbd_io_new(struct nbd_conn *conn, const struct nbd_request *r);

/* Return the buffer to the pool; requests that wait are tried again. */
void nbd_io_free(struct nbd_io *io);

/*
 * Carry out the request; a WRITE becomes conn->writing. False: it waits for a
 * buffer.
 */
bool nbd_io_start(struct nbd_io *io);

/* The payload of the WRITE is there. */
void nbd_io_write(struct nbd_io *io);

/* The reply is an error: queue it. @why: static text. */
void nbd_io_refuse(struct nbd_io *io, uint32_t error, const char *why);

/* No reply that is ready goes out any more. */
void nbd_io_drop_replies(struct nbd_conn *conn);

/* conn_ops */
bool nbd_io_gather(struct conn *base, struct msghdr *message);
void nbd_io_sent(struct conn *base);

/* ---- nbd_export_open.c ---- */

extern const struct nbd_session_ops nbd_conn_session_ops;

/* ---- nbd_catch_up.c ---- */

/* Once, when the connection is new: others may ask it to catch up. */
void nbd_catch_up_init(struct nbd_conn *conn);

#endif
