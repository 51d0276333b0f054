/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and the export that it asks for. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

/* ---- others wait for received requests ---- */

/*
 * The most bytes that may have been taken from the socket and not been told of
 * yet, or be waiting to be parsed. A connection that has received so many more
 * has begun all requests that were there before.
 */
#define UNTOLD_MAX (UINT64_C(4) << 20) /* bytes */

#define UNTAKEN_MS 1000 /* without a byte taken; ours */
#define DRIP_MS    5000 /* with some taken; below NBD_HANDSHAKE_TIMEOUT_MS */

static bool has_hung_up(const struct nbd_conn *conn)
{
	struct pollfd fd = {.fd = conn->base.fd, .events = POLLRDHUP};

	return poll(&fd, 1, 0) > 0 &&
	       fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static uint64_t conn_unread(const struct nbd_conn *conn)
{
	int n = 0;

	return ioctl(conn->base.fd, FIONREAD, &n) == 0 && n > 0 ? (uint64_t)n
								: 0;
}

/*
 * Tell whether all requests that had come when it was asked first are at the
 * device, or done.
 */
static bool has_caught_up(const struct nbd_conn *conn,
			  const struct nbd_asked *last)
{
	if (conn->base.received >=
	    conn->asked_first.received + conn->asked_first.unread + UNTOLD_MAX)
		return true;
	/* Nothing has come since, and there was nothing. */
	return last->round && conn->base.received == last->received &&
	       last->unread == 0 && !conn->stalled &&
	       (conn->n_ios < NBD_CONN_REQUESTS ||
		receiver_is_empty(&conn->base.in));
}

/* Return the round with which the connection has caught up; 0: ask again. */
static uint64_t conn_catch_up(struct nbd_conn *conn)
{
	const struct nbd_asked last = conn->asked_last;
	const struct nbd_asked now = {
		.round = export_table_round(conn->base.service->exports),
		.received = conn->base.received,
		.unread = conn_unread(conn),
		.ms = clock_ms(),
	};
	uint64_t round;

	if (conn->base.phase != CONN_OPEN ||
	    !nbd_session_transmits(&conn->session))
		return now.round; /* nothing of it will begin */
	conn->asked_last = now;
	if (!conn->asked_first.round) {
		conn->asked_first = now;
		return 0;
	}
	if (!has_caught_up(conn, &last))
		return 0;
	conn->asked_last = (struct nbd_asked){0};
	round = conn->asked_first.round;
	conn->asked_first = (struct nbd_asked){0};
	return round;
}

/*
 * Tell whether the peer takes no replies, or little at a time, so that its
 * requests find no room. A slow disk or buffers that others have are no fault
 * of the peer's.
 */
static bool takes_too_little(const struct nbd_conn *conn)
{
	int64_t now_ms = clock_ms();

	return conn->base.sending &&
	       (now_ms - conn->base.progress_ms >= UNTAKEN_MS ||
		(conn->asked_first.round &&
		 now_ms - conn->asked_first.ms >= DRIP_MS));
}

static void ask_run(struct loop_message *message)
{
	struct nbd_conn *conn = container_of(message, struct nbd_conn,
					     ask_message);
	uint64_t round;

	/*
	 * A request that is not begun yet never will be: the peer sends it
	 * again.
	 */
	if (has_hung_up(conn))
		conn_drain(&conn->base, CONN_DRAIN_TIMEOUT_MS);
	round = conn_catch_up(conn);
	if (!export_table_answer(conn->base.service->exports,
				 &conn->export.user, round) &&
	    conn->base.phase == CONN_OPEN && takes_too_little(conn))
		conn_drop(&conn->base, "it holds up another connection");
	conn_touch(&conn->base); /* its end may have waited for this */
}

/* On another thread. */
static void user_ask(struct export_user *user)
{
	struct nbd_conn *conn = container_of(user, struct nbd_conn,
					     export.user);

	loop_post(conn->base.loop, &conn->ask_message);
}

void nbd_export_setup(struct nbd_conn *conn)
{
	conn_export_init(&conn->export, &conn->base);
	conn->export.user.ask = user_ask;
	conn->ask_message.run = ask_run;
}

bool nbd_export_is_called(const struct conn *base)
{
	const struct nbd_conn *conn = (const struct nbd_conn *)base;

	return conn_revoke_is_coming(&conn->export.revoke) ||
	       export_table_is_asked(base->service->exports,
				     &conn->export.user);
}

/* ---- opening ---- */

static uint16_t device_flags(const struct blockdev *dev, bool read_only)
{
	uint16_t flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_CAN_MULTI_CONN;

	if (dev->ops->cache)
		flags |= NBD_TRANSMIT_SEND_CACHE;
	if (read_only)
		return flags | NBD_TRANSMIT_READ_ONLY;
	flags |= NBD_TRANSMIT_SEND_FUA | NBD_TRANSMIT_SEND_WRITE_ZEROES;
	if (dev->ops->discard)
		flags |= NBD_TRANSMIT_SEND_TRIM;
	if (dev->ops->write_zeroes)
		flags |= NBD_TRANSMIT_SEND_FAST_ZERO;
	return flags;
}

static void export_describe(const struct nbd_conn *conn, struct nbd_export *ret)
{
	const struct export_object *export = conn->export.user.export;
	const struct blockdev *dev = conn->export.dev;

	ret->size = dev->size;
	ret->block_size = dev->block_size;
	ret->preferred_size = dev->preferred_size;
	ret->flags = device_flags(dev,
				  export_read_only(export) || dev->read_only);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", export_name(export));
	(void)snprintf(ret->description, sizeof(ret->description), "%s",
		       export_description(export));
}

/* Describe the outcome of the handshake, for statistics. */
static void features_tell(struct nbd_conn *conn)
{
	const struct nbd_session *s = &conn->session;
	char tls[64] = "";

	if (conn->base.tls)
		(void)tls_session_describe(conn->base.tls, tls, sizeof(tls));
	(void)snprintf(conn->export.user.features,
		       sizeof(conn->export.user.features), "%s%s%s%s",
		       s->extended     ? "extended"
		       : s->structured ? "structured"
				       : "simple",
		       s->allocation ? " base:allocation" : "",
		       conn->base.tls ? " " : "", tls);
}

/* nbd_session_ops.open */
static int session_open(void *context, const char *name, bool keep,
			struct nbd_export *ret, struct error *err)
{
	struct nbd_conn *conn = context;
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned dropped;
	int r;

	if (conn->export.revoke.due)
		return error_set(err, ESHUTDOWN, "the connection is closing");
	if (!conn->export.entered) {
		features_tell(conn);
		r = conn_export_enter(&conn->export, name, err);
		if (r < 0)
			return r;
	}
	if (keep && !export_read_only(conn->export.user.export)) {
		r = export_table_settle(conn->base.service->exports,
					&conn->export.user);
		if (r < 0)
			return r;
	}
	r = conn_export_open(&conn->export, err);
	if (r < 0) {
		if (log_limit_allow(&conn->base.service->log_limit, &dropped))
			log_write(LOG_LEVEL_WARNING,
				  "nbd: export '%s' refused to %s: %s",
				  export_name(conn->export.user.export),
				  peer_address_format(&conn->base.peer, peer,
						      sizeof(peer)),
				  error_text(err));
		conn_export_leave(&conn->export);
		return error_set(err, EIO, "the export can't be opened");
	}
	export_describe(conn, ret);
	if (!keep)
		conn_export_leave(&conn->export);
	return 0;
}

static int list_each(void *context, const char *name)
{
	return nbd_session_list_add(context, name);
}

/* nbd_session_ops.list */
static int session_list(void *context, struct nbd_session *session)
{
	struct nbd_conn *conn = context;

	return export_table_list(conn->base.service->exports, &conn->base.peer,
				 list_each, session);
}

const struct nbd_session_ops nbd_conn_session_ops = {
	.open = session_open,
	.list = session_list,
};
