/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_link.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/nbd/nbd_connector.h"
#include "initiator/nbd/nbd_durable.h"

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 1000
#define IOVECS_MAX     128 /* of one sendmsg(): 64 writes, or 128 reads */

#define NEVER INT64_MAX

enum state {
	UP,
	DOWN,      /* connecting again; requests wait */
	TIMED_OUT, /* connecting again; requests fail */
	FAILED,    /* for good */
};

TAILQ_HEAD(request_list, nbd_link_request);

struct nbd_link {
	enum state state;
	int fd;      /* -1 unless UP */
	int next_fd; /* to go on with once fd has nothing unanswered; or -1 */
	unsigned dead_timeout_ms;
	struct nbd_connector *connector;
	struct nbd_export first; /* the export with which the session began */

	struct request_list waiting; /* to be sent, the first maybe in part */
	struct request_list sent;    /* to be answered */
	struct nbd_link_request *table[NBD_LINK_REQUESTS]; /* by cookie */
	uint16_t unused[NBD_LINK_REQUESTS]; /* free places of the table */
	unsigned n_unused;
	uint64_t next_serial;

	struct nbd_durable durable;

	uint8_t *received;
	uint32_t received_size; /* bytes */
	uint32_t have;          /* bytes in it */

	bool is_new;         /* never was connected */
	bool blocked;        /* the socket's buffer is full */
	int64_t dead_at_ms;  /* requests fail then, unless answered */
	int64_t retry_at_ms; /* next connect */
	unsigned backoff_ms;
	struct log_limit log; /* a server can cause what is logged */

	void (*size_done)(void *context, int error, uint64_t size);
	void *size_context;
	bool size_asked; /* the connector is at it */

	struct error reason; /* why it is not UP */
	char state_text[ERROR_TEXT_MAX + 32];
};

static_assert(NBD_LINK_REQUESTS <= 65536, "a place fits in two bytes");

static void note(struct nbd_link *link, const char *what)
{
	unsigned suppressed;

	if (log_limit_allow(&link->log, &suppressed))
		log_warning("%s: %s", what, error_text(&link->reason));
}

/* ---- requests ---- */

static void link_finish(struct nbd_link *link, struct nbd_link_request *r,
			int error, const void *data)
{
	uint16_t place = (uint16_t)(r->cookie & (NBD_LINK_REQUESTS - 1));

	assert(link->table[place] == r);
	link->table[place] = NULL;
	link->unused[link->n_unused++] = place;
	r->done(r, error, data);
}

/*
 * 0 or the error of a request that goes to no server. A flush with nothing to
 * make durable needs none.
 */
static int unserved(const struct nbd_link *link,
		    const struct nbd_link_request *r)
{
	bool done = r->type == NBD_CMD_FLUSH &&
		    nbd_durable_has(&link->durable, r->mark);

	return done ? 0 : -EIO;
}

static void fail_all(struct nbd_link *link)
{
	struct request_list failed = TAILQ_HEAD_INITIALIZER(failed);
	struct nbd_link_request *r;

	TAILQ_CONCAT(&failed, &link->sent, entry);
	TAILQ_CONCAT(&failed, &link->waiting, entry);
	while ((r = TAILQ_FIRST(&failed))) {
		TAILQ_REMOVE(&failed, r, entry);
		link_finish(link, r, unserved(link, r), NULL);
	}
}

static bool is_idle(const struct nbd_link *link)
{
	return link->n_unused == NBD_LINK_REQUESTS;
}

static bool carries_data(const struct nbd_link_request *r)
{
	return r->type == NBD_CMD_WRITE;
}

static uint32_t bytes_of(const struct nbd_link_request *r)
{
	return (uint32_t)sizeof(r->wire) + (carries_data(r) ? r->length : 0);
}

void nbd_link_submit(struct nbd_link *link, struct nbd_link_request *r)
{
	uint16_t place;

	assert(link->n_unused);
	place = link->unused[--link->n_unused];
	link->table[place] = r;
	r->cookie = link->next_serial++ * NBD_LINK_REQUESTS + place;
	r->mark = link->durable.acknowledged;
	r->sent = 0;
	nbd_request_encode(&r->wire, r->type, r->flags, r->cookie, r->offset,
			   r->length);
	if (link->state == FAILED || link->state == TIMED_OUT ||
	    (link->state == DOWN && unserved(link, r) == 0)) {
		link_finish(link, r, unserved(link, r), NULL);
		return;
	}
	if (link->state == DOWN && link->dead_at_ms == NEVER)
		link->dead_at_ms = clock_ms() + link->dead_timeout_ms;
	TAILQ_INSERT_TAIL(&link->waiting, r, entry);
}

/* ---- the connection goes ---- */

static void close_socket(struct nbd_link *link)
{
	nbd_socket_reset(link->fd);
	link->fd = -1;
	nbd_socket_reset(link->next_fd);
	link->next_fd = -1;
	link->have = 0;
	link->blocked = false;
}

static void fail_for_good(struct nbd_link *link)
{
	close_socket(link);
	link->state = FAILED;
	link->dead_at_ms = NEVER;
	link->retry_at_ms = NEVER;
	(void)log_error(0,
			"every request fails with EIO from now on: %s; detach "
			"and attach again",
			error_text(&link->reason));
	fail_all(link);
}

static void try_later(struct nbd_link *link)
{
	link->retry_at_ms = clock_ms() + link->backoff_ms;
	link->backoff_ms *= 2;
	if (link->backoff_ms > BACKOFF_MAX_MS)
		link->backoff_ms = BACKOFF_MAX_MS;
}

/*
 * Drop the connection. All unanswered requests are sent again, oldest first.
 * The dead time runs on until an answer comes: a server that takes connections
 * only to drop them is as dead as one that takes none.
 */
static void drop(struct nbd_link *link, int error, const char *what)
{
	struct nbd_link_request *r;

	(void)error_set(&link->reason, error, "%s: %s", what, strerror(error));
	note(link, "the connection is lost, connecting again");
	close_socket(link);
	TAILQ_FOREACH (r, &link->waiting, entry)
		r->sent = 0;
	TAILQ_FOREACH (r, &link->sent, entry)
		r->sent = 0;
	TAILQ_CONCAT(&link->sent, &link->waiting, entry);
	TAILQ_CONCAT(&link->waiting, &link->sent, entry);
	link->state = DOWN;
	if (link->dead_at_ms == NEVER && !is_idle(link))
		link->dead_at_ms = clock_ms() + link->dead_timeout_ms;
	try_later(link);
}

static void time_out(struct nbd_link *link)
{
	if (link->state == UP)
		drop(link, ETIMEDOUT, "no answer after connecting again");
	link->state = TIMED_OUT;
	link->dead_at_ms = NEVER;
	(void)log_error(0,
			"no server for %u ms: requests fail with EIO until it "
			"is back (%s)",
			link->dead_timeout_ms, error_text(&link->reason));
	fail_all(link);
}

/* ---- the connection comes back ---- */

bool nbd_link_is_durable(const struct nbd_link *link)
{
	return nbd_durable_has(&link->durable, link->durable.acknowledged);
}

/*
 * Is the error final? A refusal is; a missing export may only be a server that
 * starts.
 */
static bool is_final(int error)
{
	return error == -EACCES;
}

static void reconnected(struct nbd_link *link,
			struct nbd_connector_result *result)
{
	struct error *err = &link->reason;
	int fd = take_fd(&result->fd);
	unsigned suppressed;

	if (result->error < 0) {
		*err = result->err;
		if (is_final(result->error))
			fail_for_good(link);
		else
			try_later(link);
		return;
	}
	if (nbd_export_may_resume(&link->first, &result->export,
				  nbd_durable_is_dirty(&link->durable),
				  err) < 0) {
		nbd_socket_reset(fd);
		fail_for_good(link);
		return;
	}
	if (nbd_socket_adopt(fd) < 0) {
		(void)error_set(err, errno, "socket: %s", strerror(errno));
		nbd_socket_reset(fd);
		try_later(link);
		return;
	}
	if (!link->is_new && log_limit_allow(&link->log, &suppressed))
		log_info("connected again%s",
			 is_idle(link)
				 ? ""
				 : ", repeating requests without an answer");
	if (link->is_new)
		link->first = result->export;
	link->is_new = false;
	link->fd = fd;
	link->state = UP;
	link->retry_at_ms = NEVER;
	if (is_idle(link)) {
		link->dead_at_ms = NEVER;
		link->backoff_ms = BACKOFF_MIN_MS;
	}
	nbd_link_send(link);
}

/*
 * Go on with the grown export: the server told its size, on a connection of its
 * own. Our server lets the old connections through to the new end. Another may
 * hold them to the size they began with. So the link takes the new connection,
 * as after a loss, but with nothing to send again.
 */
static int take_grown(struct nbd_link *link,
		      struct nbd_connector_result *result)
{
	struct error err;
	int fd = take_fd(&result->fd);
	int r = result->error;

	if (!r)
		r = nbd_export_may_resume(&link->first, &result->export,
					  nbd_durable_is_dirty(&link->durable),
					  &err);
	if (!r && link->state != UP)
		r = -EAGAIN; /* lost meanwhile: ask again */
	if (!r)
		r = nbd_socket_adopt(fd);
	if (r < 0) {
		nbd_socket_reset(fd);
		return r;
	}
	link->next_fd = fd;
	link->first.size = result->export.size; /* nor less after a loss */
	return 0;
}

static void grown(struct nbd_link *link, struct nbd_connector_result *result)
{
	void (*done)(void *, int, uint64_t) = link->size_done;
	int r = take_grown(link, result);

	link->size_done = NULL;
	link->size_asked = false;
	done(link->size_context, r, result->export.size);
}

static void connector_ready(struct nbd_link *link)
{
	struct nbd_connector_result *result;

	result = nbd_connector_take(link->connector);
	if (!result)
		return;
	if (link->size_asked)
		grown(link, result);
	else
		reconnected(link, result);
}

/* ---- sending ---- */

static unsigned gather(struct nbd_link *link, struct iovec *iov)
{
	struct nbd_link_request *r;
	unsigned n = 0;

	TAILQ_FOREACH (r, &link->waiting, entry) {
		uint32_t skip = r->sent;
		uint8_t *header = (uint8_t *)&r->wire;

		if (n + 2 > IOVECS_MAX)
			break;
		if (skip < sizeof(r->wire)) {
			iov[n].iov_base = header + skip;
			iov[n++].iov_len = sizeof(r->wire) - skip;
			skip = 0;
		} else {
			skip -= (uint32_t)sizeof(r->wire);
		}
		if (carries_data(r)) {
			iov[n].iov_base = (uint8_t *)r->data + skip;
			iov[n++].iov_len = r->length - skip;
		}
	}
	return n;
}

static void account(struct nbd_link *link, size_t n)
{
	while (n) {
		struct nbd_link_request *r = TAILQ_FIRST(&link->waiting);
		uint32_t left = bytes_of(r) - r->sent;

		if (n < left) {
			r->sent += (uint32_t)n;
			return;
		}
		n -= left;
		r->sent += left;
		TAILQ_REMOVE(&link->waiting, r, entry);
		TAILQ_INSERT_TAIL(&link->sent, r, entry);
	}
}

static void link_say_goodbye(int fd)
{
	struct nbd_wire_request bye;

	nbd_request_encode(&bye, NBD_CMD_DISC, 0, 0, 0, 0);
	/* A courtesy: a closed connection says the same. */
	(void)send(fd, &bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
	nbd_socket_close(fd);
}

/*
 * Change over to the new connection. True: go on sending. False: the old one
 * has to run dry first.
 */
static bool change_over(struct nbd_link *link)
{
	struct nbd_link_request *first = TAILQ_FIRST(&link->waiting);

	if (link->next_fd < 0 || (first && first->sent))
		return true;
	if (!TAILQ_EMPTY(&link->sent))
		return false;
	link_say_goodbye(link->fd);
	link->fd = take_fd(&link->next_fd);
	link->have = 0;
	link->blocked = false;
	return true;
}

void nbd_link_send(struct nbd_link *link)
{
	struct iovec iov[IOVECS_MAX];

	if (link->state == UP && !change_over(link))
		return;
	while (link->state == UP && !link->blocked &&
	       !TAILQ_EMPTY(&link->waiting)) {
		struct msghdr message = {
			.msg_iov = iov,
			.msg_iovlen = gather(link, iov),
		};
		ssize_t n = sendmsg(link->fd, &message,
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0)
			account(link, (size_t)n);
		else if (errno == EAGAIN)
			link->blocked = true;
		else if (errno != EINTR)
			drop(link, errno, "send");
	}
}

/* ---- receiving ---- */

static struct nbd_link_request *find_sent(struct nbd_link *link,
					  uint64_t cookie)
{
	struct nbd_link_request *r;

	r = link->table[cookie & (NBD_LINK_REQUESTS - 1)];
	return r && r->cookie == cookie && r->sent == bytes_of(r) ? r : NULL;
}

/* Note that something was answered: the server is alive. */
static void proven(struct nbd_link *link)
{
	link->dead_at_ms = NEVER;
	link->backoff_ms = BACKOFF_MIN_MS;
}

/*
 * Take one reply from the front of the received bytes. Returns its bytes, 0
 * (more is needed) or a negative errno: drop.
 */
static int64_t take_reply(struct nbd_link *link, const uint8_t *at,
			  uint32_t length)
{
	struct nbd_wire_simple_reply wire;
	struct nbd_link_request *r;
	struct nbd_reply reply;
	uint32_t size = sizeof(wire);

	if (length < size)
		return 0;
	memcpy(&wire, at, sizeof(wire));
	if (nbd_reply_decode(&wire, &reply) < 0)
		return -EPROTO;
	r = find_sent(link, reply.cookie);
	if (!r)
		return -EPROTO;
	if (reply.leaving)
		return -ESHUTDOWN;
	if (r->type == NBD_CMD_READ && !reply.error) {
		size += r->length;
		if (length < size)
			return 0;
	}
	proven(link);
	if (!reply.error)
		nbd_durable_count(&link->durable, r->type, r->flags, r->mark);
	TAILQ_REMOVE(&link->sent, r, entry);
	link_finish(link, r, reply.error, at + sizeof(wire));
	return size;
}

/* Take all replies. False: the connection was dropped. */
static bool take_replies(struct nbd_link *link)
{
	uint32_t at = 0;

	for (;;) {
		int64_t n = take_reply(link, link->received + at,
				       link->have - at);

		if (n < 0) {
			drop(link, (int)-n,
			     n == -ESHUTDOWN ? "the server is shutting down"
					     : "the server broke the protocol");
			return false;
		}
		if (!n)
			break;
		at += (uint32_t)n;
	}
	link->have -= at;
	if (at && link->have)
		memmove(link->received, link->received + at, link->have);
	return true;
}

static void link_receive(struct nbd_link *link)
{
	for (;;) {
		uint32_t space = link->received_size - link->have;
		ssize_t n = recv(link->fd, link->received + link->have, space,
				 MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			drop(link, n ? errno : ECONNRESET, "receive");
			return;
		}
		link->have += (uint32_t)n;
		if (!take_replies(link))
			return;
		if ((uint32_t)n < space)
			return; /* that was all there is */
	}
}

/* ---- waiting ---- */

int nbd_link_prepare(struct nbd_link *link, struct pollfd *fds)
{
	int64_t next = link->dead_at_ms, now;

	fds[0] = (struct pollfd){
		.fd = link->fd,
		.events = (short)(POLLIN | (link->blocked ? POLLOUT : 0)),
	};
	fds[1] = (struct pollfd){
		.fd = nbd_connector_fd(link->connector),
		.events = POLLIN,
	};
	if (link->retry_at_ms < next && !nbd_connector_is_busy(link->connector))
		next = link->retry_at_ms;
	if (next == NEVER)
		return -1;
	now = clock_ms();
	return next <= now              ? 0
	       : next - now > INT32_MAX ? INT32_MAX
					: (int)(next - now);
}

static void run_timers(struct nbd_link *link)
{
	int64_t now;
	bool busy;

	if (link->dead_at_ms == NEVER && link->retry_at_ms == NEVER &&
	    !link->size_done)
		return;
	now = clock_ms();
	busy = nbd_connector_is_busy(link->connector);
	if (link->dead_at_ms <= now)
		time_out(link);
	if (!busy && link->retry_at_ms <= now) {
		link->retry_at_ms = NEVER;
		nbd_connector_start(link->connector);
	} else if (!busy && link->size_done && !link->size_asked) {
		link->size_asked = true;
		nbd_connector_start(link->connector);
	}
}

void nbd_link_run(struct nbd_link *link, const struct pollfd *fds)
{
	if (link->fd >= 0 && fds[0].fd == link->fd) {
		if (fds[0].revents & POLLOUT)
			link->blocked = false;
		if (fds[0].revents & (POLLIN | POLLHUP | POLLERR))
			link_receive(link);
	}
	if (fds[1].revents)
		connector_ready(link);
	run_timers(link);
	nbd_link_send(link);
}

int nbd_link_ask_size(struct nbd_link *link,
		      void (*done)(void *context, int error, uint64_t size),
		      void *context)
{
	if (link->size_done || link->next_fd >= 0)
		return -EBUSY;
	if (link->state != UP)
		return -EIO;
	link->size_done = done;
	link->size_context = context;
	run_timers(link);
	return 0;
}

const struct nbd_export *nbd_link_export(const struct nbd_link *link)
{
	return &link->first;
}

const char *nbd_link_state(struct nbd_link *link)
{
	static const char *const names[] = {NBD_LINK_CONNECTED, "waiting: ",
					    "timed out: ", NBD_LINK_FAILED};

	(void)snprintf(link->state_text, sizeof(link->state_text), "%s%s",
		       names[link->state],
		       link->state == UP ? "" : error_text(&link->reason));
	return link->state_text;
}

/* ---- life ---- */

int nbd_link_new(const struct nbd_link_options *options, struct nbd_link **ret,
		 struct error *err)
{
	struct nbd_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link) {
		fd_close(options->fd); /* -1 is fine */
		return error_set(err, ENOMEM, "no memory for a connection");
	}
	link->fd = options->fd;
	link->next_fd = -1;
	link->dead_timeout_ms = options->dead_timeout_ms;
	link->first = *options->export;
	link->dead_at_ms = link->retry_at_ms = NEVER;
	link->backoff_ms = BACKOFF_MIN_MS;
	TAILQ_INIT(&link->waiting);
	TAILQ_INIT(&link->sent);
	for (unsigned i = 0; i < NBD_LINK_REQUESTS; i++)
		link->unused[link->n_unused++] = (uint16_t)i;
	/* A whole reply, and room to receive on behind it without moving it. */
	link->received_size = options->data_max + options->data_max / 4;
	link->received = mmap(NULL, link->received_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->received == MAP_FAILED) {
		link->received = NULL;
		r = error_set(err, ENOMEM, "no memory for a connection");
	} else {
		r = nbd_connector_new(
			options->address, options->export_name,
			nbd_connector_silence_ms(options->dead_timeout_ms),
			&link->connector, err);
	}
	if (!r && link->fd < 0) {
		link->is_new = !options->goes_on;
		link->durable.acknowledged = options->goes_on;
		link->state = DOWN;
		(void)error_set(&link->reason, ENOTCONN, "connecting");
		nbd_connector_start(link->connector);
	} else if (!r && nbd_socket_adopt(link->fd) < 0) {
		r = error_set(err, errno, "socket: %s", strerror(errno));
	}
	if (r < 0) {
		nbd_link_free(link);
		return r;
	}
	*ret = link;
	return 0;
}

void nbd_link_free(struct nbd_link *link)
{
	if (!link)
		return;
	nbd_connector_free(link->connector);
	if (link->fd >= 0)
		link_say_goodbye(link->fd);
	nbd_socket_reset(link->next_fd);
	if (link->received)
		(void)munmap(link->received, link->received_size);
	free(link);
}
