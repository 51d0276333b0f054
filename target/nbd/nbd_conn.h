/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NBD connections on a loop: sockets, devices and the loop around
 * nbd_session.h.
 *
 * What makes it quick: one receive takes many requests, they go to the
 * device together, and the replies that are ready leave together in one
 * send (whatever is there; nothing waits for the slowest). While requests are
 * small one operation receives them again and again (a stream,
 * base/loop/loop.h); the payload of a large write is received where the device
 * takes it from.
 *
 * What keeps it honest: a connection has at most NBD_CONN_REQUESTS requests
 * and NBD_CONN_BUFFER_MAX bytes of buffers in flight; when they are used up,
 * or the loop's pool is, it stops receiving until some come back. Waiting
 * connections are served in order, so the largest request goes on in the end;
 * a peer that sits on buffers meanwhile is dropped. The first few bytes of a
 * connection are of a reserve (buffer_share.h).
 */
#ifndef TARGET_NBD_CONN_H
#define TARGET_NBD_CONN_H

#include <stdbool.h>

#include "base/log.h"
#include "base/loop/loop.h"
#include "target/export/export_table.h"
#include "target/export/initiators.h"
#include "target/net/buffer_share.h"
#include "target/net/tls.h"

#define NBD_CONN_REQUESTS 128 /* in flight; ours */

/* Bytes of buffers one connection may hold, or one request if larger. */
#define NBD_CONN_BUFFER_MAX (UINT32_C(32) << 20)

#define NBD_HANDSHAKE_TIMEOUT_MS 10000 /* ours */
#define NBD_STOP_TIMEOUT_MS      2000  /* target_free(), target.h */
#define NBD_DRAIN_TIMEOUT_MS     30000 /* for a peer that has said goodbye */

/*
 * Connections of a loop that have not begun to transmit; of more, the one that
 * has taken longest is dropped, so that who says nothing keeps nobody out.
 * Ours.
 */
#define NBD_OPENING_MAX 128

/*
 * While a connection waits for buffers, another that holds some and whose
 * peer neither takes nor sends a byte for so long is dropped. Ours.
 */
#define NBD_STARVE_TIMEOUT_MS 5000
#define NBD_STARVE_CHECK_MS   50

struct nbd_conn;

/* The connections of one loop; all on its thread. */
struct nbd_service {
	struct loop *loop;
	struct export_table *table;
	const struct tls_server *tls; /* NULL: none; set after init */
	bool tls_required;            /* of TCP peers */
	unsigned peer_timeout_s;      /* socket.h; may be set after init */
	/* @n connections have ended and are freed; 0: only a timer has. */
	void (*ended)(struct nbd_service *service, unsigned n);

	struct nbd_conn *conns; /* the newest first */
	unsigned opening;       /* of them: not transmitting yet */
	bool stopping;
	struct nbd_conn *waiting_first, *waiting_last; /* for buffers */
	struct buffer_share buffers;
	struct loop_batch wake;
	struct loop_timer starving; /* runs only while somebody waits */
	bool starving_runs;
	struct log_limit log_limit;
};

/* @loop, @table: borrowed until every connection has ended. */
void nbd_service_init(struct nbd_service *service, struct loop *loop,
		      struct export_table *table,
		      void (*ended)(struct nbd_service *service, unsigned n));

/*
 * End every connection: requests in flight finish, their replies are sent
 * if the peer takes them within NBD_STOP_TIMEOUT_MS. New ones end at once.
 */
void nbd_service_stop(struct nbd_service *service);

/*
 * Every connection of export @name (without epoch) reaches up to @size bytes
 * from here on, if that is more than it had.
 */
void nbd_service_grow(struct nbd_service *service, const char *name,
		      uint64_t size);

/* Nothing of it is in flight; for the owner, once it has no connections. */
bool nbd_service_still(const struct nbd_service *service);

/*
 * Serve the peer at @fd, which it takes. ended() is called for it in any
 * case; from inside the call if it can't be started.
 */
void nbd_conn_start(struct nbd_service *service, int fd,
		    const struct peer_address *peer);

#endif
