/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large READ or WRITE goes to the device in parts, so that socket and disk
 * work at the same time. The first part of a READ goes out while the rest is
 * read. The first part of a WRITE is written while R2Ts ask for the rest. Parts
 * are only for devices that have shown to take their time, as parts cost
 * processor time. There are none with FUA, which would wait for the disk each
 * time, and none of ordered commands.
 *
 * A part is a command of its own to the device server, READ (16) or WRITE (16),
 * in the command's buffer. A part enters its range alone, and is turned away or
 * aborted like any other command. So a peer that stops in the middle of its
 * data keeps nobody from the medium. Unit attentions, which the unit owes to
 * the session's next command, are told to the first part alone. When that has
 * passed, the others follow, of a WRITE as their data is there, each PDU's
 * digest checked. No part follows one that failed. The answer is that of the
 * first part, in the order of blocks, that did not succeed. The blocks before
 * it were moved, as the residual says.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"
#include "target/scsi/command/scsi_rw.h"
#include "target/scsi/scsi_defs.h"

/* The least bytes of a part; a multiple of any unit's block size. */
#define PART_SIZE (UINT32_C(256) << 10)

/* Of one command. */
#define PARTS_MAX 4u

/*
 * Nanoseconds at the device for each MiB: more is slow. Memory takes less,
 * though several copies wait for one processor.
 */
#define SLOW_NS 1000000

struct part {
	struct scsi_task scsi;
	struct iscsi_io *io;
	bool runs;
	int64_t start_ns;
};

struct iscsi_split {
	uint32_t total, size; /* bytes; of each but the last */
	uint32_t there; /* of a WRITE, bytes: of PDUs whose digest was right */
	unsigned n, begun, running;
	bool writes;
	bool whole;   /* of a WRITE: no more comes */
	bool stopped; /* aborted: none begins any more */
	bool begins;  /* some are being begun */
	struct part part[PARTS_MAX];
};

static struct iscsi_conn_lun *lun_of(const struct iscsi_io *io)
{
	const struct scsi_path *path = io->scsi.path;

	return path ? io->conn->by_lun[path->lun] : NULL;
}

/* ---- which ---- */

/* READ and WRITE, and nothing of their like. */
static bool is_plain(const struct scsi_task *scsi, bool *ret_writes)
{
	switch (scsi->cdb[0]) {
	case SCSI_READ_6:
	case SCSI_READ_10:
	case SCSI_READ_12:
	case SCSI_READ_16: *ret_writes = false; return true;
	case SCSI_WRITE_6:
	case SCSI_WRITE_10:
	case SCSI_WRITE_12:
	case SCSI_WRITE_16: *ret_writes = true; return true;
	default: return false;
	}
}

/* Bytes that it moves, if it can be in parts; 0: it can't. */
static uint32_t split_bytes_of(const struct iscsi_io *io, bool *ret_writes)
{
	const struct scsi_task *scsi = &io->scsi;
	uint32_t bytes;

	if (scsi->failed || !scsi->path || !is_plain(scsi, ret_writes))
		return 0;
	bytes = *ret_writes ? scsi->out_length : scsi->in_size;
	return bytes == scsi->length ? bytes : 0; /* not cut short */
}

int64_t iscsi_split_look(const struct iscsi_io *io)
{
	bool writes;

	return split_bytes_of(io, &writes) >= PART_SIZE ? clock_ns() : 0;
}

static void lun_measure(const struct iscsi_io *io, uint32_t bytes,
			int64_t start_ns)
{
	struct iscsi_conn_lun *lun = lun_of(io);
	int64_t took_ns = clock_ns() - start_ns;

	if (lun)
		lun->slow = (double)took_ns * (1 << 20) >
			    (double)bytes * SLOW_NS;
}

void iscsi_split_measure(const struct iscsi_io *io, int64_t start_ns)
{
	bool writes;
	uint32_t bytes = split_bytes_of(io, &writes);

	if (io->scsi.status == SCSI_GOOD && bytes > 0)
		lun_measure(io, bytes, start_ns);
}

static bool is_wanted(const struct iscsi_io *io, uint32_t bytes, bool writes)
{
	const struct scsi_task *scsi = &io->scsi;
	const struct iscsi_conn_lun *lun = lun_of(io);
	unsigned flags = writes ? scsi_write_flags(scsi) : scsi->flags;

	return bytes > PART_SIZE && lun && lun->slow &&
	       !(flags & BLOCKDEV_FUA) && scsi->attribute <= SCSI_SIMPLE &&
	       io->conn->n_parts + PARTS_MAX <= ISCSI_PARTS_MAX;
}

/* ---- making them ---- */

static uint32_t start_of(const struct iscsi_split *parts, unsigned i)
{
	return i * parts->size;
}

static uint32_t length_of(const struct iscsi_split *parts, unsigned i)
{
	uint32_t left = parts->total - start_of(parts, i);

	return left < parts->size ? left : parts->size;
}

static void part_done(struct scsi_task *scsi);

static void part_init(struct iscsi_io *io, unsigned i)
{
	struct iscsi_split *parts = io->parts;
	const struct scsi_task *whole = &io->scsi;
	uint32_t block = scsi_unit_block_size(whole->path->unit);
	uint32_t length = length_of(parts, i);
	be64 lba = be64_make((whole->offset + start_of(parts, i)) / block);
	be32 blocks = be32_make(length / block);
	struct scsi_task *scsi = &parts->part[i].scsi;

	parts->part[i].io = io;
	scsi->nexus = whole->nexus;
	scsi->attribute = whole->attribute;
	scsi->follows = i > 0;
	scsi->expected_out = parts->writes ? length : 0;
	scsi->expected_in = parts->writes ? 0 : length;
	scsi->done = part_done;
	memcpy(scsi->lun, whole->lun, sizeof(scsi->lun));
	scsi->cdb[0] = parts->writes ? SCSI_WRITE_16 : SCSI_READ_16;
	memcpy(scsi->cdb + 2, &lba, sizeof(lba));
	memcpy(scsi->cdb + 10, &blocks, sizeof(blocks));
	scsi_task_parse(scsi);
	scsi->epoch = whole->epoch; /* what aborts the command aborts it */
}

static uint32_t part_size(uint32_t total)
{
	uint32_t size = (total + PARTS_MAX - 1) / PARTS_MAX;

	return (size + PART_SIZE - 1) / PART_SIZE * PART_SIZE;
}

bool iscsi_split_plan(struct iscsi_io *io)
{
	bool writes = false;
	uint32_t total = split_bytes_of(io, &writes);
	struct iscsi_split *parts;

	if (!is_wanted(io, total, writes))
		return false;
	parts = calloc(1, sizeof(*parts));
	if (!parts)
		return false; /* it goes whole */
	io->parts = parts;
	parts->total = total;
	parts->size = part_size(total);
	parts->n = (total + parts->size - 1) / parts->size;
	parts->writes = writes;
	io->conn->n_parts += parts->n;
	for (unsigned i = 0; i < parts->n; i++)
		part_init(io, i);
	if (writes)
		io->task.tell = parts->size;
	return true;
}

void iscsi_split_free(struct iscsi_io *io)
{
	struct iscsi_split *parts = take_ptr(io->parts);

	if (!parts)
		return;
	assert(parts->running == 0);
	io->conn->n_parts -= parts->n;
	for (unsigned i = 0; i < parts->n; i++)
		scsi_task_finish(&parts->part[i].scsi);
	free(parts);
}

/* ---- one after the other ---- */

static bool is_good(const struct part *part)
{
	return !part->runs && !part->scsi.aborted &&
	       part->scsi.status == SCSI_GOOD;
}

/* From the first on, without a gap. */
static unsigned good_ones(const struct iscsi_split *parts)
{
	unsigned n = 0;

	while (n < parts->begun && is_good(&parts->part[n]))
		n++;
	return n;
}

static bool any_failed(const struct iscsi_split *parts)
{
	for (unsigned i = 0; i < parts->begun; i++)
		if (!parts->part[i].runs && !is_good(&parts->part[i]))
			return true;
	return false;
}

/* The data of the next one is there. */
static bool has_data(const struct iscsi_io *io)
{
	const struct iscsi_split *parts = io->parts;
	uint32_t end = start_of(parts, parts->begun) +
		       length_of(parts, parts->begun);

	return !parts->writes || parts->whole || parts->there >= end;
}

static bool may_begin(const struct iscsi_io *io)
{
	const struct iscsi_split *parts = io->parts;

	return parts->begun < parts->n && !parts->stopped && !io->dropped &&
	       io->task.error == ISCSI_TASK_FINE &&
	       io->conn->base.phase != CONN_CLOSING && !any_failed(parts) &&
	       has_data(io);
}

static void part_begin(struct iscsi_io *io)
{
	struct iscsi_split *parts = io->parts;
	unsigned i = parts->begun++;
	struct part *part = &parts->part[i];
	const struct iobuf *buf = parts->writes ? io->out : io->in;
	uint8_t *data = (uint8_t *)buf->data + start_of(parts, i);

	part->scsi.out = parts->writes ? data : NULL;
	part->scsi.in = parts->writes ? NULL : data;
	part->runs = true;
	part->start_ns = clock_ns();
	parts->running++;
	io->conn->base.active++;
	scsi_task_start(&part->scsi); /* maybe part_done() from inside */
}

/* Send the bytes of a READ that may go out while the rest is read. */
static void split_send_some(struct iscsi_io *io)
{
	const struct iscsi_split *parts = io->parts;
	unsigned good = good_ones(parts);
	uint32_t end = start_of(parts, good);

	if (parts->writes || io->dropped || good == parts->n ||
	    end <= io->task.part_end || io->conn->base.phase == CONN_CLOSING)
		return;
	io->task.in = io->in->data;
	io->task.in_length = parts->total;
	iscsi_session_part(&io->conn->session, &io->task, end);
}

static bool is_over(const struct iscsi_io *io)
{
	const struct iscsi_split *parts = io->parts;

	if (parts->running > 0)
		return false;
	return io->dropped ||
	       ((parts->whole || !parts->writes) && !may_begin(io));
}

/* The one whose end is the command's; NULL: it was stopped between two. */
static const struct scsi_task *split_decisive(const struct iscsi_split *parts)
{
	unsigned good = good_ones(parts);

	for (unsigned i = 0; i < parts->begun; i++)
		if (parts->part[i].scsi.aborted)
			return &parts->part[i].scsi;
	return good < parts->begun ? &parts->part[good].scsi : NULL;
}

/* As if it had been one command. */
static void split_conclude(struct iscsi_io *io)
{
	const struct iscsi_split *parts = io->parts;
	const struct scsi_task *end = split_decisive(parts);
	unsigned good = good_ones(parts);
	struct scsi_task *whole = &io->scsi;

	whole->transfer_length = good == parts->n ? parts->total
						  : start_of(parts, good);
	whole->in_length = parts->writes ? 0 : whole->transfer_length;
	whole->aborted = parts->stopped && good < parts->n;
	if (whole->aborted) { /* the abort alone is answered */
		whole->status = SCSI_GOOD;
		whole->sense_length = 0;
		return;
	}
	if (!end)
		return;
	whole->aborted = end->aborted;
	whole->status = end->status;
	whole->sense_length = end->sense_length;
	memcpy(whole->sense, end->sense, sizeof(whole->sense));
}

static void split_go_on(struct iscsi_io *io)
{
	struct iscsi_split *parts = io->parts;

	if (parts->begins)
		return; /* the one that begins them looks again */
	parts->begins = true;
	while (may_begin(io))
		part_begin(io);
	parts->begins = false;
	split_send_some(io);
	if (!is_over(io))
		return;
	if (io->dropped) {
		iscsi_io_drop(io);
		return;
	}
	split_conclude(io);
	iscsi_io_end(io);
}

static void part_done(struct scsi_task *scsi)
{
	struct part *part = container_of(scsi, struct part, scsi);
	struct iscsi_io *io = part->io;

	part->runs = false;
	io->parts->running--;
	io->conn->base.active--;
	conn_touch(&io->conn->base);
	if (is_good(part))
		lun_measure(io, (uint32_t)scsi->length, part->start_ns);
	split_go_on(io);
}

void iscsi_split_feed(struct iscsi_io *io)
{
	struct iscsi_split *parts = io->parts;

	assert(parts);
	parts->there = io->task.received;
	split_go_on(io);
	io->task.tell = parts->begun < parts->n
				? start_of(parts, parts->begun) +
					  length_of(parts, parts->begun)
				: 0;
}

void iscsi_split_whole(struct iscsi_io *io)
{
	io->parts->whole = true;
	split_go_on(io);
}

bool iscsi_split_run(const struct iscsi_io *io)
{
	return io->parts && io->parts->running > 0;
}

void iscsi_split_abort(struct iscsi_io *io)
{
	struct iscsi_split *parts = io->parts;

	if (!parts)
		return;
	parts->stopped = true;
	for (unsigned i = 0; i < parts->begun; i++)
		if (parts->part[i].runs)
			scsi_task_abort(&parts->part[i].scsi);
}
