/* SPDX-License-Identifier: Apache-2.0 */
/* A request: its buffer, the device, its reply. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

/* The buffer of a BLOCK_STATUS: runs in the first half, wire behind. */
#define STATUS_BUFFER 4096u /* bytes */
#define STATUS_RUNS \
	((unsigned)(STATUS_BUFFER / 2 / sizeof(struct blockdev_status)) - 1)
static_assert(NBD_STATUS_SIZE(STATUS_RUNS) <= STATUS_BUFFER / 2, "fits");

/* Zeroes to write where a device can't make them itself; never written. */
#define ZEROES_SIZE (UINT32_C(1) << 20) /* bytes */
static uint8_t zeroes[ZEROES_SIZE] __attribute__((aligned(4096)));

/* How requests of each command are counted and carried out. */
static const struct io_kind {
	enum export_op counted;
	bool changes;   /* the export */
	bool in_pieces; /* of BLOCKDEV_LENGTH_MAX at most */
	bool moves_data;
	uint32_t buffer; /* bytes, besides its data */
} kinds[] = {
	[NBD_CMD_READ] = {EXPORT_OP_READ, .moves_data = true},
	[NBD_CMD_WRITE] = {EXPORT_OP_WRITE, .changes = true,
			   .moves_data = true},
	[NBD_CMD_DISC] = {EXPORT_OP_OTHER}, /* and all that are refused */
	[NBD_CMD_FLUSH] = {EXPORT_OP_FLUSH},
	[NBD_CMD_TRIM] = {EXPORT_OP_DISCARD, .changes = true,
			  .in_pieces = true},
	[NBD_CMD_CACHE] = {EXPORT_OP_OTHER, .in_pieces = true},
	[NBD_CMD_WRITE_ZEROES] = {EXPORT_OP_WRITE_ZEROES, .changes = true,
				  .in_pieces = true},
	[NBD_CMD_BLOCK_STATUS] = {EXPORT_OP_OTHER, .buffer = STATUS_BUFFER},
};

static void nbd_io_done(struct op *op, int res);

struct nbd_io *nbd_io_new(struct nbd_conn *conn, const struct nbd_request *r)
{
	struct nbd_io *io = STAILQ_FIRST(&conn->free);

	if (io) {
		STAILQ_REMOVE_HEAD(&conn->free, in_list);
	} else {
		assert(conn->used < NBD_CONN_REQUESTS);
		io = &conn->ios[conn->used++];
		io->conn = conn;
		io->op.done = nbd_io_done;
	}
	conn->n_ios++;
	io->request = *r;
	io->kind = &kinds[r->type < array_size(kinds) ? r->type : NBD_CMD_DISC];
	io->buf = NULL;
	io->failed = false;
	io->round = 0;
	io->start_ns = conn->now_ns;
	io->progress = 0;
	io->data_length = 0;
	return io;
}

void nbd_io_free(struct nbd_io *io)
{
	struct nbd_conn *conn = io->conn;
	bool was_full = conn->n_ios-- == NBD_CONN_REQUESTS;

	conn_buffer_put(&conn->base, io->buf);
	STAILQ_INSERT_HEAD(&conn->free, io, in_list);
	if (was_full)
		conn_touch(&conn->base);
}

/* ---- replies ---- */

/*
 * Queue the reply. With structured replies data and errors need chunks, else a
 * simple reply is shorter; with extended headers all are chunks.
 */
static void io_reply(struct nbd_io *io, uint32_t error)
{
	const struct nbd_session *s = &io->conn->session;
	const struct nbd_reply to = {
		.extended = s->extended,
		.cookie = io->request.cookie,
		.offset = io->request.offset,
	};
	size_t head;

	if (!s->structured || (io->data_length == 0 && !s->extended))
		head = nbd_simple_reply_encode(io->head, to.cookie, error);
	else if (io->data_length == 0)
		head = nbd_none_chunk_encode(io->head, &to);
	else if (error)
		head = nbd_error_chunk_encode(io->head, &to, error,
					      (uint16_t)io->data_length);
	else if (io->request.type == NBD_CMD_BLOCK_STATUS)
		head = nbd_status_chunk_encode(io->head, &to, io->data_length);
	else
		head = nbd_data_chunk_encode(io->head, &to, to.offset,
					     io->data_length, true);
	io->head_length = (uint32_t)head;
	STAILQ_INSERT_TAIL(&io->conn->ready, io, in_list);
	conn_touch(&io->conn->base);
}

void nbd_io_refuse(struct nbd_io *io, uint32_t error, const char *why)
{
	io->failed = true;
	io->data = why;
	io->data_length = io->conn->session.structured ? (uint32_t)strlen(why)
						       : 0;
	io_reply(io, error);
}

static void status_reply(struct nbd_io *io, unsigned n)
{
	uint8_t *wire = (uint8_t *)io->buf->data + STATUS_BUFFER / 2;

	io->data = wire;
	io->data_length = (uint32_t)nbd_status_encode(
		wire, io->conn->session.extended, io->buf->data, n);
	io_reply(io, NBD_SUCCESS);
}

/* ---- the device ---- */

static unsigned request_device_flags(const struct nbd_request *request)
{
	unsigned flags = 0;

	if (request->flags & NBD_CMD_FLAG_FUA)
		flags |= BLOCKDEV_FUA;
	if (request->type != NBD_CMD_WRITE_ZEROES)
		return flags;
	if (request->flags & NBD_CMD_FLAG_NO_HOLE)
		flags |= BLOCKDEV_NO_HOLE;
	if (request->flags & NBD_CMD_FLAG_FAST_ZERO)
		flags |= BLOCKDEV_FAST;
	return flags;
}

/* Others can see how old the oldest one is: export_table_settle(). */
static void changing_tell(struct nbd_conn *conn)
{
	const struct nbd_io *oldest = TAILQ_FIRST(&conn->changing);

	atomic_store_explicit(&conn->export.user.oldest,
			      oldest ? oldest->round : 0, memory_order_release);
}

static void change_begin(struct nbd_io *io)
{
	struct nbd_conn *conn = io->conn;

	io->round = export_table_round(conn->base.service->exports);
	TAILQ_INSERT_TAIL(&conn->changing, io, in_changing);
	if (TAILQ_FIRST(&conn->changing) == io)
		changing_tell(conn);
}

static void change_end(struct nbd_io *io)
{
	struct nbd_conn *conn = io->conn;
	const bool oldest = TAILQ_FIRST(&conn->changing) == io;

	TAILQ_REMOVE(&conn->changing, io, in_changing);
	io->round = 0;
	if (oldest)
		changing_tell(conn);
}

/* The next piece of a TRIM, WRITE_ZEROES or CACHE. */
static void piece_start(struct nbd_io *io)
{
	const struct nbd_request *request = &io->request;
	struct blockdev *dev = io->conn->export.dev;
	uint64_t offset = request->offset + io->progress;
	uint64_t left = request->length - io->progress;
	unsigned flags = request_device_flags(request);

	io->piece = left < BLOCKDEV_LENGTH_MAX ? (uint32_t)left
					       : BLOCKDEV_LENGTH_MAX;
	if (request->type == NBD_CMD_CACHE) {
		blockdev_cache(dev, &io->op, offset, io->piece);
	} else if (request->type == NBD_CMD_TRIM) {
		blockdev_discard(dev, &io->op, offset, io->piece, flags);
	} else if (dev->ops->write_zeroes) {
		blockdev_write_zeroes(dev, &io->op, offset, io->piece, flags);
	} else {
		if (io->piece > ZEROES_SIZE)
			io->piece = ZEROES_SIZE;
		blockdev_write(dev, &io->op, zeroes, io->piece, offset,
			       flags & BLOCKDEV_FUA);
	}
}

/* A piece of it is done, and there is another one. */
static bool piece_next(struct nbd_io *io, int res)
{
	if (res < 0 || io->conn->base.phase == CONN_CLOSING)
		return false;
	io->progress += io->piece;
	if (io->progress == io->request.length)
		return false;
	io->conn->base.active++;
	piece_start(io);
	return true;
}

static const char *errno_text(int res)
{
	return strerrordesc_np(-res) ?: "an error";
}

static void nbd_io_done(struct op *op, int res)
{
	struct nbd_io *io = container_of(op, struct nbd_io, op);
	struct nbd_conn *conn = io->conn;

	conn->base.active--;
	if (io->kind->in_pieces && piece_next(io, res))
		return;
	if (io->round)
		change_end(io);
	if (conn->base.phase == CONN_CLOSING) { /* nobody to tell */
		nbd_io_free(io);
		conn_touch(&conn->base);
	} else if (res < 0) {
		nbd_io_refuse(io, nbd_error_from_errno(res), errno_text(res));
	} else if (io->request.type == NBD_CMD_BLOCK_STATUS) {
		status_reply(io, (unsigned)res);
	} else {
		if (io->request.type == NBD_CMD_READ) {
			io->data = io->buf->data;
			io->data_length = (uint32_t)io->request.length;
		}
		io_reply(io, NBD_SUCCESS);
	}
}

void nbd_io_write(struct nbd_io *io)
{
	io->conn->base.active++;
	change_begin(io);
	blockdev_write(io->conn->export.dev, &io->op, io->buf->data,
		       (uint32_t)io->request.length, io->request.offset,
		       request_device_flags(&io->request));
}

static void status_start(struct nbd_io *io)
{
	const struct nbd_request *request = &io->request;
	struct blockdev *dev = io->conn->export.dev;
	bool one = request->flags & NBD_CMD_FLAG_REQ_ONE;

	if (!dev->ops->status) { /* all of it is data */
		struct blockdev_status run = {.length = request->length};

		io->conn->base.active--;
		memcpy(io->buf->data, &run, sizeof(run));
		status_reply(io, 1);
		return;
	}
	blockdev_get_status(dev, &io->op, request->offset, request->length,
			    io->buf->data, one ? 1 : STATUS_RUNS);
}

/* Nobody has a buffer that could come back: there is no memory. */
static bool is_waiting_vain(const struct nbd_conn *conn)
{
	return (conn->wait.place == CONN_WAIT_LINE ||
		TAILQ_EMPTY(&conn->base.service->line)) &&
	       conn->base.buffered == 0 &&
	       loop_iobufs_in_use(conn->base.loop) == 0;
}

/* There is no buffer now. False: the request waits. True: it is refused. */
static bool buffer_await(struct nbd_io *io, uint32_t size)
{
	struct nbd_conn *conn = io->conn;

	if (is_waiting_vain(conn)) {
		if (io->request.type == NBD_CMD_WRITE)
			nbd_session_payload_skip(&conn->session);
		nbd_io_refuse(io, NBD_ENOMEM,
			      "the server has no memory for it");
		return true;
	}
	if (conn->wait.place == CONN_WAIT_NOWHERE)
		conn_wait_add(&conn->base, &conn->wait, size);
	return false;
}

bool nbd_io_start(struct nbd_io *io)
{
	struct nbd_conn *conn = io->conn;
	struct blockdev *dev = conn->export.dev;
	uint32_t length = (uint32_t)io->request.length;
	uint32_t size = io->kind->moves_data ? length : io->kind->buffer;

	if (size > 0)
		io->buf = conn_buffer_get(&conn->base, &conn->wait, size);
	if (size > 0 && !io->buf)
		return buffer_await(io, size);
	if (io->request.type == NBD_CMD_WRITE) {
		conn->writing = io;
		return true;
	}
	if (io->kind->changes)
		change_begin(io);
	conn->base.active++;
	switch (io->request.type) {
	case NBD_CMD_READ:
		blockdev_read(dev, &io->op, io->buf->data, length,
			      io->request.offset);
		break;
	case NBD_CMD_FLUSH: blockdev_flush(dev, &io->op); break;
	case NBD_CMD_BLOCK_STATUS: status_start(io); break;
	default: /* the session lets nothing else through */
		assert(io->kind->in_pieces);
		piece_start(io);
		break;
	}
	return true;
}

/* ---- the send ---- */

/* One look at the clock is for all replies of a send. */
bool nbd_io_gather(struct conn *base, struct msghdr *message)
{
	struct nbd_conn *conn = nbd_conn_of(base);
	struct iovec *to = conn->iov;
	int64_t now_ns;
	struct nbd_io *io;

	conn->output_in_send = conn->session.out.length > 0;
	if (conn->output_in_send)
		*to++ = (struct iovec){conn->session.out.data,
				       conn->session.out.length};
	STAILQ_CONCAT(&conn->sent, &conn->ready);
	now_ns = STAILQ_EMPTY(&conn->sent) ? 0 : clock_ns();
	STAILQ_FOREACH (io, &conn->sent, in_list) {
		*to++ = (struct iovec){io->head, io->head_length};
		if (io->data_length > 0)
			*to++ = (struct iovec){(void *)io->data,
					       io->data_length};
		export_stats_note(&conn->export.stats, io->kind->counted,
				  io->request.length, now_ns - io->start_ns,
				  io->failed);
	}
	*message = (struct msghdr){.msg_iov = conn->iov};
	message->msg_iovlen = (size_t)(to - conn->iov);
	return to > conn->iov;
}

void nbd_io_sent(struct conn *base)
{
	struct nbd_conn *conn = nbd_conn_of(base);
	struct nbd_io *io;

	if (conn->output_in_send)
		conn->session.out.length = 0;
	conn->output_in_send = false;
	while ((io = STAILQ_FIRST(&conn->sent))) {
		STAILQ_REMOVE_HEAD(&conn->sent, in_list);
		nbd_io_free(io);
	}
}

void nbd_io_drop_replies(struct nbd_conn *conn)
{
	struct nbd_io *io;

	while ((io = STAILQ_FIRST(&conn->ready))) {
		STAILQ_REMOVE_HEAD(&conn->ready, in_list);
		nbd_io_free(io);
	}
}
