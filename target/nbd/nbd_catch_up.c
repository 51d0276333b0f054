/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another connection waits until all requests that this one has received are
 * done (export_table_settle()). A slow peer that keeps it waiting is dropped.
 */
#include <poll.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

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

void nbd_catch_up_init(struct nbd_conn *conn)
{
	conn->export.user.ask = user_ask;
	conn->ask_message.run = ask_run;
}
