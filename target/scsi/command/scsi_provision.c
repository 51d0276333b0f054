/* SPDX-License-Identifier: Apache-2.0 */
/* UNMAP, WRITE SAME, GET LBA STATUS: SBC-3 5.28, 5.44, 5.45, 5.4 */
#include <string.h>

#include "target/scsi/command/scsi_primary.h"
#include "target/scsi/command/scsi_rw.h"

#define PROTECT 0xe0
#define ANCHOR  0x10
#define UNMAP   0x08
#define LEGACY  0x06 /* PBDATA, LBDATA: obsolete */
#define NDOB    0x01

#define FILL_PIECE SCSI_SCRATCH_MAX     /* bytes of a pattern at once */
#define ZERO_PIECE (UINT32_C(1) << 30)  /* bytes of zeroes, by the device */
#define ZEROES     (UINT32_C(64) << 10) /* bytes of them, if it can't */

/* A run of blocks to fill. */
struct fill {
	uint64_t offset, length; /* bytes */
};

struct fills {
	unsigned count, at;
	bool zero;           /* by the device, if it can; else with */
	const uint8_t *data; /* of @size bytes */
	uint32_t size;
	unsigned flags;
	struct fill runs[];
};

/* ---- filling ---- */

static void fill_next(struct scsi_task *task);

static void filled(struct scsi_task *task, int res)
{
	struct fills *f = task->context;
	struct fill *run = &f->runs[f->at];

	if (res < 0) {
		scsi_fail_errno(task, res, run->offset, true);
		scsi_task_complete(task);
		return;
	}
	run->offset += task->piece;
	run->length -= task->piece;
	fill_next(task);
}

/* The longest piece of the run that one operation may fill. */
static uint32_t piece_of(const struct fill *run, uint32_t max)
{
	return run->length < max ? (uint32_t)run->length : max;
}

static void fill_next(struct scsi_task *task)
{
	struct fills *f = task->context;
	struct blockdev *dev = task->path->dev;
	const struct fill *run;

	while (f->at < f->count && f->runs[f->at].length == 0)
		f->at++;
	if (f->at == f->count || scsi_task_stopped(task)) {
		scsi_task_complete(task);
		return;
	}
	run = &f->runs[f->at];
	if (f->zero) {
		task->piece = piece_of(run, ZERO_PIECE);
		blockdev_write_zeroes(dev, scsi_task_op(task, filled),
				      run->offset, task->piece, f->flags);
		return;
	}
	task->piece = piece_of(run, f->size);
	blockdev_write(dev, scsi_task_op(task, filled), f->data, task->piece,
		       run->offset, f->flags & BLOCKDEV_FUA);
}

/* @pattern: a block; NULL: zeroes */
static void fill_start(struct scsi_task *task, const uint8_t *pattern)
{
	static const uint8_t zeroes[ZEROES] __attribute__((aligned(4096)));
	struct fills *f = task->context;
	uint32_t block = scsi_task_unit(task)->block_size;

	f->zero = !pattern && task->path->dev->ops->write_zeroes;
	f->data = pattern ? task->scratch : zeroes;
	f->size = pattern ? task->scratch_size : ZEROES;
	for (uint32_t at = 0; pattern && at < task->scratch_size; at += block)
		memcpy(task->scratch + at, pattern, block);
	fill_next(task);
}

static struct fills *fills_new(struct scsi_task *task, unsigned count)
{
	struct fills *f = calloc(1, sizeof(*f) + count * sizeof(f->runs[0]));

	if (!f) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return NULL;
	}
	f->count = count;
	f->flags = scsi_write_flags(task);
	task->context = f;
	return f;
}

/* ---- UNMAP ---- */

static void unmap_parse(struct scsi_task *task)
{
	if (task->cdb[1] & 1)
		scsi_fail_cdb(task, 1, 0);
	else if (scsi_write_allowed(task))
		/* The ranges come with the data: take the whole unit. */
		task->length = scsi_unit_size(scsi_task_unit(task));
}

/* Count the descriptors of the list; an error fails the task. */
static unsigned unmap_count(struct scsi_task *task)
{
	const uint8_t *list = task->out;
	unsigned bytes;

	if (task->transfer_length == 0)
		return 0;
	if (task->out_length < 8) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
		return 0;
	}
	bytes = scsi_be16(list + 2) & ~15u;
	if (bytes > task->out_length - 8) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
		return 0;
	}
	if (bytes / 16 > SCSI_UNMAP_RANGES) {
		scsi_fail_list(task, 2, SCSI_NO_BIT);
		return 0;
	}
	return bytes / 16;
}

static bool unmap_decode(struct scsi_task *task, struct fills *f)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint64_t all = scsi_unit_blocks(unit);
	uint64_t total = 0;

	for (unsigned i = 0; i < f->count; i++) {
		const uint8_t *d = task->out + 8 + 16 * (size_t)i;
		uint64_t lba = scsi_be64(d);
		uint32_t blocks = scsi_be32(d + 8);

		if (lba > all || blocks > all - lba) {
			scsi_fail_range(task, lba > all ? lba : all);
			return false;
		}
		total += (uint64_t)blocks << unit->block_shift;
		if (total > SCSI_UNMAP_MAX) {
			scsi_fail_list(task, 8 + 16 * i + 8, SCSI_NO_BIT);
			return false;
		}
		f->runs[i].offset = lba << unit->block_shift;
		f->runs[i].length = (uint64_t)blocks << unit->block_shift;
	}
	return true;
}

/*
 * Write zeroes, which frees all blocks that can be freed. Unmapped blocks are
 * promised to read as zeroes, and a discard may do nothing.
 */
static void unmap_run(struct scsi_task *task)
{
	unsigned count = unmap_count(task);
	struct fills *f;

	if (task->failed || count == 0) {
		scsi_task_complete(task);
		return;
	}
	f = fills_new(task, count);
	if (!f)
		return;
	if (unmap_decode(task, f))
		fill_start(task, NULL);
	else
		scsi_task_complete(task);
}

/* ---- WRITE SAME ---- */

static bool same_no_data(const struct scsi_task *task)
{
	return task->command->length == 16 && (task->cdb[1] & NDOB);
}

/* Ask for one block of data; or none, where the command says so or unmaps. */
static void same_data(struct scsi_task *task)
{
	uint32_t block = scsi_task_unit(task)->block_size;

	if (same_no_data(task) ||
	    ((task->cdb[1] & UNMAP) && task->expected_out == 0))
		return;
	if (task->expected_out != block) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
		return;
	}
	task->transfer_length = task->out_length = block;
	scsi_scratch_ask(task, task->length, FILL_PIECE);
}

/*
 * Read the number of blocks (SBC-3 5.44): none stands for all up to the end of
 * the medium. Not on a thin unit, which would too easily unmap more than was
 * meant (WSNZ).
 */
static bool same_blocks(struct scsi_task *task, const struct scsi_rw *rw,
			uint64_t *ret)
{
	uint64_t all = scsi_unit_blocks(scsi_task_unit(task));

	*ret = rw->blocks;
	if (rw->blocks > 0)
		return true;
	if (scsi_task_unit(task)->thin) {
		scsi_fail_cdb(task, rw->blocks_at, SCSI_NO_BIT);
		return false;
	}
	if (rw->lba >= all) {
		scsi_fail_range(task, rw->lba);
		return false;
	}
	*ret = all - rw->lba;
	return true;
}

static void same_parse(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_rw rw;
	uint64_t blocks;

	if (!scsi_rw_decode(task, &rw))
		return;
	if (task->cdb[1] & ANCHOR) {
		scsi_fail_cdb(task, 1, 4);
		return;
	}
	if ((task->cdb[1] & UNMAP) && !unit->thin) {
		scsi_fail_cdb(task, 1, 3);
		return;
	}
	if (task->cdb[1] & LEGACY) {
		scsi_fail_cdb(task, 1, 2);
		return;
	}
	if (!same_blocks(task, &rw, &blocks) ||
	    !scsi_task_range(task, rw.lba, blocks) || !scsi_write_allowed(task))
		return;
	if (blocks > SCSI_SAME_MAX) {
		scsi_fail_cdb(task, rw.blocks_at, SCSI_NO_BIT);
		return;
	}
	same_data(task);
}

static bool all_zero(const uint8_t *data, size_t length)
{
	return data[0] == 0 && memcmp(data, data + 1, length - 1) == 0;
}

static void same_run(struct scsi_task *task)
{
	uint32_t block = scsi_task_unit(task)->block_size;
	const uint8_t *pattern = task->out_length ? task->out : NULL;
	struct fills *f = fills_new(task, 1);

	if (!f)
		return;
	f->runs[0] = (struct fill){task->offset, task->length};
	if (!(task->cdb[1] & UNMAP))
		f->flags |= BLOCKDEV_NO_HOLE;
	if (pattern && all_zero(pattern, block))
		pattern = NULL;
	fill_start(task, pattern);
}

/* ---- GET LBA STATUS ---- */

#define STATUS_MAX 64u /* runs in one answer; ours */

struct lba_status {
	struct blockdev_status runs[STATUS_MAX];
	uint8_t data[8 + 16 * STATUS_MAX];
};

enum { MAPPED = 0, DEALLOCATED = 1 };

static void status_parse(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint64_t lba = scsi_be64(task->cdb + 2);
	uint64_t all = scsi_unit_blocks(unit);

	if (lba >= all)
		scsi_fail_range(task, lba);
	else
		(void)scsi_task_range(task, lba, all - lba); /* it fits */
}

/*
 * Put runs of whole blocks; one that is a hole only in part is mapped.
 * Returns the bytes.
 */
static size_t lba_status_put(const struct scsi_task *task, struct lba_status *s,
			     unsigned n)
{
	uint64_t block = scsi_task_unit(task)->block_size;
	uint64_t from = task->offset, end = from;
	size_t length = 8;

	for (unsigned i = 0; i < n; i++) {
		bool hole = s->runs[i].flags & BLOCKDEV_HOLE;
		bool cut;
		uint64_t to;

		end += s->runs[i].length;
		to = hole ? end & ~(block - 1)
			  : (end + block - 1) & ~(block - 1);
		if (to <= from)
			continue;
		cut = to - from > (uint64_t)UINT32_MAX * block;
		if (cut)
			to = from + (uint64_t)UINT32_MAX * block;
		scsi_put64(s->data + length, from / block);
		scsi_put32(s->data + length + 8,
			   (uint32_t)((to - from) / block));
		s->data[length + 12] = hole ? DEALLOCATED : MAPPED;
		length += 16;
		if (cut)
			break; /* the next command goes on */
		from = to;
	}
	scsi_put32(s->data, (uint32_t)length - 4);
	return length;
}

static void status_got(struct scsi_task *task, int res)
{
	struct lba_status *s = task->context;

	if (res < 0) {
		scsi_fail_errno(task, res, task->offset, false);
		scsi_task_complete(task);
		return;
	}
	scsi_task_reply(task, s->data, lba_status_put(task, s, (unsigned)res));
}

static void lba_status_run(struct scsi_task *task)
{
	struct blockdev *dev = task->path->dev;
	struct lba_status *s = calloc(1, sizeof(*s));

	if (!s) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return;
	}
	task->context = s;
	if (dev->ops->status) {
		blockdev_get_status(dev, scsi_task_op(task, status_got),
				    task->offset, task->length, s->runs,
				    STATUS_MAX);
		return;
	}
	s->runs[0].length = task->length;
	status_got(task, 1);
}

#define SAME(code, bytes, ...)                                                 \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_WRITES,                        \
		.usage = {0, __VA_ARGS__}, .parse = same_parse,                \
		.run = same_run                                                \
	}

const struct scsi_command scsi_provision_commands[] = {
	{.opcode = SCSI_UNMAP,
	 .action = SCSI_NO_ACTION,
	 .length = 10,
	 .flags = SCSI_C_MEDIUM | SCSI_C_WRITES | SCSI_C_LIST_OUT | SCSI_C_THIN,
	 .list_at = 7,
	 .list_size = 2,
	 .usage = {[1] = 0x01, [7] = 0xff, 0xff},
	 .parse = unmap_parse,
	 .run = unmap_run},
	SAME(SCSI_WRITE_SAME_10, 10, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff,
	     0xff),
	SAME(SCSI_WRITE_SAME_16, 16, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	     0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	{.opcode = SCSI_SERVICE_ACTION_IN_16,
	 .action = 0x12, /* GET LBA STATUS */
	 .length = 16,
	 .flags = SCSI_C_MEDIUM | SCSI_C_READS | SCSI_C_LIST_IN,
	 .list_at = 10,
	 .list_size = 4,
	 .usage = {0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		   0xff, 0xff, 0xff, 0xff},
	 .parse = status_parse,
	 .run = lba_status_run},
	{.length = 0},
};
