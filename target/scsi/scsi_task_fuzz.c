/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of any bytes, with any data, one after the other, from two
 * sessions with one thin, removable unit in memory. Each input is a series
 * of:
 *
 *	1  which session (bit 0), LUN (bit 1), short of data (bit 2), ordered
 *	   (bit 3)
 *	16 CDB
 *	1  units of 16 bytes of data that follow
 *
 * What must hold of each: what it asks for is bounded and not more than was
 * expected; it is done exactly once; sense data goes with CHECK CONDITION
 * and nothing else; it says no more than there is room for; and in the end
 * nobody holds the medium. Data is given in heap copies of exactly its
 * length, so a read past it is caught. The saved state of reservations comes
 * back as it was.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/scsi/scsi_pr.h"

#define UNIT_SIZE (UINT32_C(1) << 20) /* bytes */
#define EXPECTED  (UINT32_C(64) << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct loop *loop;
	struct blockdev *ram;
	struct scsi_target *target;
	struct scsi_unit *unit;
	struct scsi_nexus *nexuses[2];
	struct scsi_task task;
	const uint8_t *at, *end; /* of the input */
	uint8_t *out, *in, *scratch;
	bool started, done;
	struct loop_batch batch;
};

static void step(struct loop_batch *batch);

static void task_done(struct scsi_task *task)
{
	struct world *w = container_of(task, struct world, task);

	assert(!w->done);
	w->done = true;
	loop_batch_add(w->loop, &w->batch);
}

/* All that the transport would look at. */
static void check(const struct scsi_task *task)
{
	assert(task->in_length <= task->in_size);
	assert(task->sense_length <= SCSI_SENSE_MAX);
	if (task->aborted)
		return;
	assert((task->status == SCSI_CHECK_CONDITION) ==
	       (task->sense_length > 0));
	if (task->status != SCSI_GOOD && task->status != SCSI_CONDITION_MET)
		assert(task->in_length == 0);
}

static void task_end(struct world *w)
{
	check(&w->task);
	scsi_task_finish(&w->task);
	free(w->out);
	free(w->in);
	free(w->scratch);
	w->out = w->in = w->scratch = NULL;
	w->started = w->done = false;
}

static const uint8_t *take(struct world *w, size_t length)
{
	const uint8_t *at = w->at;

	if ((size_t)(w->end - at) < length)
		return NULL;
	w->at += length;
	return at;
}

static void task_begin(struct world *w, const uint8_t *head)
{
	struct scsi_task *task = &w->task;
	size_t length = 16 * (size_t)head[17];
	const uint8_t *data;

	if (length > (size_t)(w->end - w->at))
		length = (size_t)(w->end - w->at);
	data = take(w, length);
	memset(task, 0, sizeof(*task));
	task->nexus = w->nexuses[head[0] & 1];
	task->lun[1] = head[0] >> 1 & 1;
	memcpy(task->cdb, head + 1, 16);
	task->expected_out = head[0] & 4 ? (uint32_t)length : EXPECTED;
	task->expected_in = head[0] & 4 ? head[17] : EXPECTED;
	task->attribute = head[0] & 8 ? SCSI_ORDERED : SCSI_SIMPLE;
	task->done = task_done;
	scsi_task_parse(task);
	assert(task->out_length <= task->expected_out);
	assert(task->in_size <= task->expected_in + 4096);
	w->out = calloc(1, task->out_length ?: 1);
	w->in = calloc(1, task->in_size ?: 1);
	assert(task->scratch_size <= SCSI_SCRATCH_MAX);
	w->scratch = malloc(task->scratch_size ?: 1);
	assert(w->out && w->in && w->scratch);
	if (length)
		memcpy(w->out, data,
		       length < task->out_length ? length : task->out_length);
	task->out = w->out;
	task->in = w->in;
	task->scratch = w->scratch;
	if (task->needs_device)
		task->path->dev = w->ram;
	w->started = true;
	scsi_task_start(task);
}

static void path_close(struct scsi_path *path, void *context)
{
	(void)context;
	assert(path->plain == 0 && path->granted == 0);
	path->dev = NULL;
}

static void step(struct loop_batch *batch)
{
	struct world *w = container_of(batch, struct world, batch);
	const uint8_t *head;

	if (w->started)
		task_end(w);
	head = take(w, 18);
	if (head)
		task_begin(w, head);
	else
		loop_stop(w->loop);
}

static void state_check(const struct scsi_pr *pr)
{
	static uint8_t data[SCSI_PR_STATE_MAX], again[SCSI_PR_STATE_MAX];
	size_t length = scsi_pr_encode(pr, data);
	struct scsi_pr other = {.first = NULL};

	assert(length <= sizeof(data));
	assert(scsi_pr_decode(&other, data, length, NULL) == 0);
	assert(scsi_pr_encode(&other, again) == length);
	assert(memcmp(data, again, length) == 0);
	scsi_pr_clear(&other);
}

static void decode_check(const uint8_t *data, size_t size)
{
	struct scsi_pr pr = {.first = NULL};

	if (scsi_pr_decode(&pr, data, size, NULL) == 0)
		state_check(&pr);
	scsi_pr_clear(&pr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct scsi_unit_options options = {.uuid = {1},
						  .block_size = 512,
						  .size = UNIT_SIZE,
						  .thin = true,
						  .removable = true};
	const uint8_t isid[6] = {0x80};
	struct world w = {.at = data, .end = data + size};

	decode_check(data, size);
	assert(loop_new(&(struct loop_options){0}, &w.loop, NULL) == 0);
	assert(blockdev_ram_open(w.loop, UNIT_SIZE, &w.ram, NULL) == 0);
	w.ram->block_size = 512;
	assert(scsi_target_new("iqn.f:t", &w.target, NULL) == 0);
	assert(scsi_unit_new(&options, &w.unit, NULL) == 0);
	assert(scsi_target_add(w.target, 0, w.unit, NULL) == 0);
	assert(scsi_nexus_new(w.target, w.loop, "iqn.f:a", isid,
			      &w.nexuses[0]) == 0);
	assert(scsi_nexus_new(w.target, w.loop, "iqn.f:b", isid,
			      &w.nexuses[1]) == 0);
	w.batch.run = step;
	loop_batch_add(w.loop, &w.batch);
	assert(loop_run(w.loop) == 0);
	state_check(&w.unit->pr);
	assert(w.unit->exclusive == 0 && !w.unit->held && !w.unit->waiting);
	for (unsigned i = 0; i < 2; i++) {
		scsi_nexus_each_path(w.nexuses[i], path_close, NULL);
		scsi_nexus_free(w.nexuses[i]);
	}
	blockdev_close(w.ram);
	scsi_target_unref(w.target);
	scsi_unit_unref(w.unit);
	loop_free(w.loop);
	return 0;
}
