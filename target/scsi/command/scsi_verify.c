/* SPDX-License-Identifier: Apache-2.0 */
/* VERIFY, WRITE AND VERIFY: SBC-3 5.29 to 5.32, 5.40 to 5.43 */
#include <string.h>

#include "target/scsi/command/scsi_rw.h"

#define PIECE (UINT32_C(256) << 10) /* bytes read at once; ours */

/* BYTCHK, SBC-3 table 115 */
enum {
	CHECK_MEDIUM = 0,
	CHECK_DATA = 1,
	CHECK_SAME = 3, /* one block for all */
};

static unsigned check_of(const struct scsi_task *task)
{
	return task->cdb[1] >> 1 & 3;
}

size_t scsi_differ(const uint8_t *a, const uint8_t *b, size_t length)
{
	size_t at = 0;

	if (memcmp(a, b, length) == 0)
		return length;
	while (a[at] == b[at])
		at++;
	return at;
}

void scsi_fail_miscompare(struct scsi_task *task, uint64_t offset)
{
	scsi_fail_sense(task, &(struct scsi_sense){.key = SCSI_MISCOMPARE,
						   .asc = SCSI_ASC_MISCOMPARE,
						   .has_information = true,
						   .information = offset});
}

/* ---- read and compare ---- */

struct verify {
	const uint8_t *data; /* borrowed; NULL: nothing to compare with */
	uint32_t period;     /* bytes */
	uint64_t length;     /* bytes in all */
};

static void verify_next(struct scsi_task *task);

/* The offset in the data where the piece differs; its end: nowhere. */
static uint64_t piece_differs(const struct scsi_task *task,
			      const struct verify *v)
{
	const uint8_t *read = task->scratch;
	uint32_t at = 0;

	while (at < task->piece) {
		uint32_t in = (uint32_t)((task->at + at) % v->period);
		uint32_t n = v->period - in;
		size_t same;

		if (n > task->piece - at)
			n = task->piece - at;
		same = scsi_differ(read + at, v->data + in, n);
		if (same < n)
			return (task->at + at + same) % v->period;
		at += n;
	}
	return UINT64_MAX;
}

static void verify_read(struct scsi_task *task, int res)
{
	const struct verify *v = task->context;
	uint64_t differs;

	if (res < 0) {
		scsi_fail_errno(task, res, task->offset + task->at, false);
		scsi_task_complete(task);
		return;
	}
	differs = v->data ? piece_differs(task, v) : UINT64_MAX;
	if (differs != UINT64_MAX) {
		scsi_fail_miscompare(task, differs);
		scsi_task_complete(task);
		return;
	}
	task->at += task->piece;
	verify_next(task);
}

static void verify_next(struct scsi_task *task)
{
	const struct verify *v = task->context;
	uint64_t left = v->length - task->at;

	if (left == 0 || scsi_task_stopped(task)) {
		scsi_task_complete(task);
		return;
	}
	task->piece = left < PIECE ? (uint32_t)left : PIECE;
	assert(task->piece <= task->scratch_size);
	blockdev_read(task->path->dev, scsi_task_op(task, verify_read),
		      task->scratch, task->piece, task->offset + task->at);
}

void scsi_verify_ask(struct scsi_task *task, uint64_t length)
{
	scsi_scratch_ask(task, length, PIECE);
}

void scsi_verify_start(struct scsi_task *task, const uint8_t *data,
		       uint32_t period, uint64_t length)
{
	struct verify *v;

	if (length == 0) {
		scsi_task_complete(task);
		return;
	}
	v = malloc(sizeof(*v));
	if (!v) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return;
	}
	*v = (struct verify){.data = data, .period = period, .length = length};
	task->context = v;
	task->at = 0;
	verify_next(task);
}

/* ---- VERIFY ---- */

static void verify_parse(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_rw rw;
	uint32_t out = 0;

	if (!scsi_rw_decode(task, &rw) ||
	    !scsi_task_range(task, rw.lba, rw.blocks))
		return;
	switch (check_of(task)) {
	case CHECK_MEDIUM: break;
	case CHECK_DATA:
		if (task->length > unit->transfer_max) {
			scsi_fail_cdb(task, rw.blocks_at, SCSI_NO_BIT);
			return;
		}
		out = (uint32_t)task->length;
		break;
	case CHECK_SAME: out = task->length ? unit->block_size : 0; break;
	default: scsi_fail_cdb(task, 1, 2); return;
	}
	task->transfer_length = out;
	task->out_length = out < task->expected_out ? out : task->expected_out;
	scsi_verify_ask(task, task->length);
}

static void verify_run(struct scsi_task *task)
{
	uint32_t out = task->transfer_length;

	if (task->out_length < out) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
		scsi_task_complete(task);
		return;
	}
	scsi_verify_start(task, out ? task->out : NULL, out, task->length);
}

/* ---- WRITE AND VERIFY ---- */

static void write_verify_parse(struct scsi_task *task)
{
	if (check_of(task) > CHECK_DATA)
		scsi_fail_cdb(task, 1, 2);
	else
		scsi_write_parse(task);
	if (!task->failed)
		scsi_verify_ask(task, task->out_length);
}

static void verify_written(struct scsi_task *task, int res)
{
	uint32_t length = task->out_length;

	if (res < 0 || scsi_task_stopped(task))
		scsi_write_done(task, res);
	else
		scsi_verify_start(
			task, check_of(task) == CHECK_DATA ? task->out : NULL,
			length, length);
}

static void write_verify_run(struct scsi_task *task)
{
	uint32_t length = task->out_length;

	if (!scsi_write_whole(task) || length == 0)
		scsi_task_complete(task);
	else /* it is the medium that is verified, so it has to be there */
		blockdev_write(task->path->dev,
			       scsi_task_op(task, verify_written), task->out,
			       length, task->offset, BLOCKDEV_FUA);
}

#define VERIFY(code, bytes, ...)                                               \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_READS,                         \
		.usage = {0, 0xf6, __VA_ARGS__}, .parse = verify_parse,        \
		.run = verify_run                                              \
	}

#define WRITE_VERIFY(code, bytes, ...)                                         \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_WRITES,                        \
		.usage = {0, 0xf6, __VA_ARGS__}, .parse = write_verify_parse,  \
		.run = write_verify_run                                        \
	}

const struct scsi_command scsi_verify_commands[] = {
	VERIFY(SCSI_VERIFY_10, 10, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff),
	VERIFY(SCSI_VERIFY_12, 12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	       0xff),
	VERIFY(SCSI_VERIFY_16, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	       0xff, 0xff, 0xff, 0xff, 0xff),
	WRITE_VERIFY(SCSI_WRITE_VERIFY_10, 10, 0xff, 0xff, 0xff, 0xff, 0, 0xff,
		     0xff),
	WRITE_VERIFY(SCSI_WRITE_VERIFY_12, 12, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff),
	WRITE_VERIFY(SCSI_WRITE_VERIFY_16, 16, 0xff, 0xff, 0xff, 0xff, 0xff,
		     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	{.length = 0},
};
