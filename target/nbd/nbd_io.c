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

static void io_done(struct op *op, int res);

struct nbd_io *nbd_io_new(struct nbd_conn *conn, const struct nbd_request *r)
{
	struct nbd_io *io = STAILQ_FIRST(&conn->free);

	if (io) {
		STAILQ_REMOVE_HEAD(&conn->free, in_list);
	} else {
		assert(conn->used < NBD_CONN_REQUESTS);
		io = &conn->ios[conn->used++];
		io->conn = conn;
		io->op.done = io_done;
	}
	io->request = *r;
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
	bool was_full = !nbd_io_has_slot(conn);

	conn_buffer_put(&conn->base, io->buf);
	STAILQ_INSERT_HEAD(&conn->free, io, in_list);
	if (was_full)
		conn_touch(&conn->base);
}

void nbd_io_list_free(struct nbd_io_list *list)
{
	struct nbd_io *io;

	while ((io = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, in_list);
		nbd_io_free(io);
	}
}

/* ---- replies ---- */

static void reply_queue(struct nbd_io *io)
{
	STAILQ_INSERT_TAIL(&io->conn->ready, io, in_list);
	conn_touch(&io->conn->base);
}

static struct nbd_reply reply_to(const struct nbd_io *io)
{
	return (struct nbd_reply){
		.extended = io->conn->session.extended,
		.cookie = io->request.cookie,
		.offset = io->request.offset,
	};
}

void nbd_io_refuse(struct nbd_io *io, uint32_t error, const char *why)
{
	struct nbd_reply to = reply_to(io);

	io->failed = true;
	if (io->conn->session.structured) {
		io->data = why;
		io->data_length = (uint32_t)strlen(why);
		io->head_length = (uint32_t)nbd_error_chunk_encode(
			io->head, &to, error, (uint16_t)io->data_length);
	} else {
		io->head_length = (uint32_t)nbd_simple_reply_encode(
			io->head, to.cookie, error);
	}
	reply_queue(io);
}

/*
 * Success. With structured replies only READ and BLOCK_STATUS need chunks, a
 * simple reply is shorter; with extended headers all do.
 */
static void io_accept(struct nbd_io *io)
{
	struct nbd_reply to = reply_to(io);
	bool chunk = to.extended || (io->request.type == NBD_CMD_READ &&
				     io->conn->session.structured);

	if (chunk)
		io->head_length = (uint32_t)nbd_none_chunk_encode(io->head,
								  &to);
	else
		io->head_length = (uint32_t)nbd_simple_reply_encode(
			io->head, to.cookie, NBD_SUCCESS);
	reply_queue(io);
}

static void reply_data(struct nbd_io *io)
{
	struct nbd_reply to = reply_to(io);

	io->data = io->buf->data;
	io->data_length = (uint32_t)io->request.length;
	if (!io->conn->session.structured) {
		io_accept(io);
		return;
	}
	io->head_length = (uint32_t)nbd_data_chunk_encode(
		io->head, &to, io->request.offset, io->data_length, true);
	reply_queue(io);
}

static void reply_status(struct nbd_io *io, unsigned n)
{
	uint8_t *wire = (uint8_t *)io->buf->data + STATUS_BUFFER / 2;
	struct nbd_reply to = reply_to(io);

	io->data = wire;
	io->data_length = (uint32_t)nbd_status_encode(wire, to.extended,
						      io->buf->data, n);
	io->head_length = (uint32_t)nbd_status_chunk_encode(io->head, &to,
							    io->data_length);
	reply_queue(io);
}

/* ---- the device ---- */

static unsigned device_flags(const struct nbd_request *request)
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

	if (!io->round)
		return;
	TAILQ_REMOVE(&conn->changing, io, in_changing);
	io->round = 0;
	if (oldest)
		changing_tell(conn);
}

static bool in_pieces(const struct nbd_request *request)
{
	return request->type == NBD_CMD_TRIM ||
	       request->type == NBD_CMD_CACHE ||
	       request->type == NBD_CMD_WRITE_ZEROES;
}

/* The next piece of a TRIM, WRITE_ZEROES or CACHE. */
static void piece_start(struct nbd_io *io)
{
	const struct nbd_request *request = &io->request;
	struct blockdev *dev = io->conn->export.dev;
	uint64_t offset = request->offset + io->progress;
	uint64_t left = request->length - io->progress;
	unsigned flags = device_flags(request);

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
	if (res < 0 || !in_pieces(&io->request) ||
	    io->conn->base.phase == CONN_CLOSING)
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

static void io_done(struct op *op, int res)
{
	struct nbd_io *io = container_of(op, struct nbd_io, op);
	struct nbd_conn *conn = io->conn;

	conn->base.active--;
	if (piece_next(io, res))
		return;
	change_end(io);
	if (conn->base.phase == CONN_CLOSING) { /* nobody to tell */
		nbd_io_free(io);
		conn_touch(&conn->base);
		return;
	}
	if (res < 0) {
		nbd_io_refuse(io, nbd_error_from_errno(res), errno_text(res));
		return;
	}
	switch (io->request.type) {
	case NBD_CMD_READ: reply_data(io); break;
	case NBD_CMD_BLOCK_STATUS: reply_status(io, (unsigned)res); break;
	default: io_accept(io); break;
	}
}

static void read_start(struct nbd_io *io)
{
	struct blockdev *dev = io->conn->export.dev;
	uint32_t length = (uint32_t)io->request.length;

	io->conn->base.active++;
	blockdev_read(dev, &io->op, io->buf->data, length, io->request.offset);
}

void nbd_io_write(struct nbd_io *io)
{
	io->conn->base.active++;
	change_begin(io);
	blockdev_write(io->conn->export.dev, &io->op, io->buf->data,
		       (uint32_t)io->request.length, io->request.offset,
		       device_flags(&io->request));
}

static void status_start(struct nbd_io *io)
{
	const struct nbd_request *request = &io->request;
	struct blockdev *dev = io->conn->export.dev;
	bool one = request->flags & NBD_CMD_FLAG_REQ_ONE;

	if (!dev->ops->status) { /* all of it is data */
		struct blockdev_status run = {.length = request->length};

		memcpy(io->buf->data, &run, sizeof(run));
		reply_status(io, 1);
		return;
	}
	io->conn->base.active++;
	blockdev_get_status(dev, &io->op, request->offset, request->length,
			    io->buf->data, one ? 1 : STATUS_RUNS);
}

/* Bytes of buffer that a request needs; 0: none. */
static uint32_t buffer_size(const struct nbd_request *request)
{
	switch (request->type) {
	case NBD_CMD_READ:
	case NBD_CMD_WRITE: return (uint32_t)request->length;
	case NBD_CMD_BLOCK_STATUS: return STATUS_BUFFER;
	default: return 0;
	}
}

/* Nobody has a buffer that could come back: there is no memory. */
static bool is_waiting_vain(const struct nbd_conn *conn)
{
	return (conn->wait.place == CONN_WAIT_LINE ||
		TAILQ_EMPTY(&conn->base.service->line)) &&
	       conn->base.buffered == 0 &&
	       loop_iobufs_in_use(conn->base.loop) == 0;
}

static void no_memory(struct nbd_io *io)
{
	static const char text[] = "the server has no memory for it";

	if (io->request.type == NBD_CMD_WRITE)
		nbd_session_payload_skip(&io->conn->session);
	nbd_io_refuse(io, NBD_ENOMEM, text);
}

bool nbd_io_start(struct nbd_io *io)
{
	struct nbd_conn *conn = io->conn;
	uint32_t size = buffer_size(&io->request);

	if (size > 0 &&
	    !conn_buffers_get(&conn->base, &conn->wait, &size, 1, &io->buf)) {
		if (is_waiting_vain(conn)) {
			no_memory(io);
			return true;
		}
		if (conn->wait.place == CONN_WAIT_NOWHERE)
			conn_wait_add(&conn->base, &conn->wait, size);
		return false;
	}
	switch (io->request.type) {
	case NBD_CMD_READ: read_start(io); break;
	case NBD_CMD_WRITE: conn->writing = io; break;
	case NBD_CMD_BLOCK_STATUS: status_start(io); break;
	case NBD_CMD_FLUSH:
		conn->base.active++;
		blockdev_flush(conn->export.dev, &io->op);
		break;
	default: /* the session lets nothing else through */
		assert(in_pieces(&io->request));
		if (io->request.type != NBD_CMD_CACHE)
			change_begin(io);
		conn->base.active++;
		piece_start(io);
		break;
	}
	return true;
}

/* ---- the send ---- */

static void iov_add(struct nbd_conn *conn, struct msghdr *message,
		    const void *data, size_t length)
{
	conn->iov[message->msg_iovlen++] = (struct iovec){
		.iov_base = (void *)data,
		.iov_len = length,
	};
}

static enum export_op op_of(uint16_t type)
{
	switch (type) {
	case NBD_CMD_READ: return EXPORT_OP_READ;
	case NBD_CMD_WRITE: return EXPORT_OP_WRITE;
	case NBD_CMD_FLUSH: return EXPORT_OP_FLUSH;
	case NBD_CMD_TRIM: return EXPORT_OP_DISCARD;
	case NBD_CMD_WRITE_ZEROES: return EXPORT_OP_WRITE_ZEROES;
	default: return EXPORT_OP_OTHER;
	}
}

/* Look at the clock once for all replies of a send. */
static void replies_count(struct nbd_conn *conn)
{
	int64_t now_ns = STAILQ_EMPTY(&conn->sent) ? 0 : clock_ns();
	struct nbd_io *io;

	STAILQ_FOREACH (io, &conn->sent, in_list)
		export_stats_note(&conn->export.stats, op_of(io->request.type),
				  io->request.length, now_ns - io->start_ns,
				  io->failed);
}

bool nbd_io_gather(struct conn *base, struct msghdr *message)
{
	struct nbd_conn *conn = nbd_conn_of(base);
	struct nbd_io *io;

	*message = (struct msghdr){.msg_iov = conn->iov};
	conn->output_in_send = conn->session.out.length > 0;
	if (conn->output_in_send)
		iov_add(conn, message, conn->session.out.data,
			conn->session.out.length);
	STAILQ_CONCAT(&conn->sent, &conn->ready);
	STAILQ_FOREACH (io, &conn->sent, in_list) {
		iov_add(conn, message, io->head, io->head_length);
		if (io->data_length > 0)
			iov_add(conn, message, io->data, io->data_length);
	}
	replies_count(conn);
	return message->msg_iovlen > 0;
}

void nbd_io_sent(struct conn *base)
{
	struct nbd_conn *conn = nbd_conn_of(base);

	if (conn->output_in_send)
		conn->session.out.length = 0;
	conn->output_in_send = false;
	nbd_io_list_free(&conn->sent);
}
