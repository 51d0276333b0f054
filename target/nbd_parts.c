/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large READ or WRITE goes to the device in parts, so that its socket and
 * its disk work at the same time: a part of a READ goes out, as a chunk of its
 * own, while those behind it are read; a part of a WRITE is written while
 * those behind it arrive. A part has a buffer of its own, that is small enough
 * to stay in the processor's cache and is used again soon.
 *
 * Parts cost processor time, a tenth of what 1 MiB takes from the socket to
 * the page cache. So a request is split only when the device is slow enough
 * for that to be worth it: when the last large request took long there.
 *
 * The peer is told once how the whole went, when all parts have ended: a READ
 * by an empty chunk or that of an error, after those with data. Not in parts:
 * a READ with simple replies, whose only head comes first and can't be taken
 * back, or with DF; a WRITE with FUA, which would wait for the disk each time.
 */
#include <assert.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd_conn_internal.h"

/* Bytes; a multiple of what any device has for a block. */
#define PART_SIZE (UINT32_C(256) << 10)

/*
 * Nanoseconds at the device for each MiB: memory takes less, though several
 * copies wait for one processor; disks with as many requests more.
 */
#define SLOW_NS 1000000

void nbd_parts_measure(const struct nbd_io *io)
{
	int64_t took_ns = clock_ns() - io->device_ns;

	io->conn->slow = (double)took_ns * (1 << 20) >
			 (double)io->request.length * SLOW_NS;
}

bool nbd_parts_wanted(const struct nbd_io *io)
{
	const struct nbd_request *request = &io->request;

	if (request->length <= PART_SIZE || !io->conn->slow)
		return false;
	if (request->type == NBD_CMD_WRITE)
		return !(request->flags & NBD_CMD_FLAG_FUA);
	return request->type == NBD_CMD_READ && io->conn->session.structured &&
	       !(request->flags & NBD_CMD_FLAG_DF);
}

void nbd_parts_next(struct nbd_conn *conn)
{
	struct nbd_io *whole = conn->splitting, *part;
	uint64_t left = whole->request.length - whole->progress;
	struct nbd_request request = whole->request;

	request.offset += whole->progress;
	request.length = left < PART_SIZE ? left : PART_SIZE;
	whole->progress += request.length;
	part = nbd_io_new(conn, &request);
	assert(part);
	part->whole = whole;
	if (!nbd_io_start(part))
		conn->stalled = part;
}

void nbd_part_start(struct nbd_io *part)
{
	struct nbd_io *whole = part->whole;

	whole->parts++;
	if (whole->progress == whole->request.length)
		whole->conn->splitting = NULL;
}

/* All parts that there will be have ended. */
static void whole_end(struct nbd_io *whole)
{
	struct nbd_conn *conn = whole->conn;

	nbd_conn_touch(conn);
	if (whole->dropped || conn->phase == NBD_CONN_CLOSING)
		nbd_io_free(whole);
	else if (whole->error)
		nbd_io_refuse(whole, whole->error, whole->why);
	else
		nbd_io_accept(whole);
}

void nbd_whole_part_end(struct nbd_io *whole, uint32_t error, const char *why)
{
	if (error && !whole->error) {
		whole->error = error;
		whole->why = why;
	}
	whole->parts--;
	if (whole->parts == 0 && whole->conn->splitting != whole)
		whole_end(whole);
}

void nbd_whole_part_refuse(struct nbd_io *whole, uint32_t error,
			   const char *why)
{
	whole->conn->splitting = NULL;
	whole->parts++;
	nbd_whole_part_end(whole, error, why);
}

void nbd_parts_forget(struct nbd_conn *conn)
{
	struct nbd_io *whole = take_ptr(conn->splitting);

	if (!whole)
		return;
	whole->dropped = true;
	if (whole->parts == 0)
		nbd_io_free(whole);
}
