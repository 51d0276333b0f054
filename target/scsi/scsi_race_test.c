/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions on loops of their own change the same blocks at once: no COMPARE
 * AND WRITE may be lost, and no plain write come between. For ThreadSanitizer,
 * too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/scsi/scsi.h"
#include "target/scsi/scsi_internal.h"

#define WORKERS 3
#define ROUNDS  150
#define BLOCK   512u
#define BLOCKS  8u

struct worker {
	pthread_t thread;
	struct loop *loop;
	struct loop_batch batch;
	struct scsi_target *target;
	struct scsi_nexus *nexus;
	struct scsi_task task;
	const char *path;
	unsigned index;
	unsigned rounds; /* done */
	unsigned writes; /* plain ones, done */
	uint8_t *out, *in, *scratch;
	bool compare;
};

static void next(struct loop_batch *batch);

static void task_done(struct scsi_task *task)
{
	struct worker *w = container_of(task, struct worker, task);

	loop_batch_add(w->loop, &w->batch);
}

static void task_go(struct worker *w, const uint8_t cdb[16], uint32_t out,
		    uint32_t in)
{
	struct scsi_task *task = &w->task;

	memset(task, 0, sizeof(*task));
	task->nexus = w->nexus;
	memcpy(task->cdb, cdb, 16);
	task->expected_out = out;
	task->expected_in = in;
	task->out = w->out;
	task->in = w->in;
	task->scratch = w->scratch;
	task->done = task_done;
	scsi_task_parse(task);
	if (task->needs_device && !task->path->dev)
		assert_int_equal(blockdev_file_open(w->loop, w->path, 0, 0,
						    &task->path->dev, NULL),
				 0);
	scsi_task_start(task);
}

/* Block 0 is a counter in its first eight bytes. */
static void read_counter(struct worker *w)
{
	const uint8_t cdb[16] = {SCSI_READ_16, [13] = 1};

	w->compare = false;
	task_go(w, cdb, 0, BLOCK);
}

static void add_one(struct worker *w)
{
	const uint8_t cdb[16] = {SCSI_COMPARE_AND_WRITE, [13] = 1};

	memcpy(w->out, w->in, BLOCK);
	memcpy(w->out + BLOCK, w->in, BLOCK);
	scsi_put64(w->out + BLOCK, scsi_be64(w->in) + 1);
	w->compare = true;
	task_go(w, cdb, 2 * BLOCK, 0);
}

/* A plain write beside the counter, to a block of its own. */
static void write_beside(struct worker *w)
{
	const uint8_t cdb[16] = {
		SCSI_WRITE_16, [9] = (uint8_t)(1 + w->index), [13] = 1};

	w->writes++;
	w->compare = false;
	w->task.step = NULL;
	scsi_put64(w->out, w->writes);
	task_go(w, cdb, BLOCK, 0);
}

static void next(struct loop_batch *batch)
{
	struct worker *w = container_of(batch, struct worker, batch);
	struct scsi_task *task = &w->task;
	uint8_t opcode = task->cdb[0];

	if (task->nexus)
		scsi_task_finish(task);
	if (opcode == SCSI_COMPARE_AND_WRITE && task->status == SCSI_GOOD)
		w->rounds++;
	if (w->rounds == ROUNDS)
		loop_stop(w->loop);
	else if (opcode == SCSI_READ_16 && task->status == SCSI_GOOD)
		add_one(w);
	else if (opcode == SCSI_COMPARE_AND_WRITE)
		write_beside(w);
	else
		read_counter(w); /* also past the unit attention */
}

static void path_close(struct scsi_path *path, void *context)
{
	(void)context;
	blockdev_close(path->dev);
	path->dev = NULL;
}

static void *worker_run(void *context)
{
	struct worker *w = context;
	const uint8_t isid[6] = {0x40, [5] = (uint8_t)w->index};

	assert_int_equal(loop_new(&(struct loop_options){0}, &w->loop, NULL),
			 0);
	assert_int_equal(scsi_nexus_new(w->target, w->loop, "iqn.2026-11.t:r",
					isid, &w->nexus),
			 0);
	w->out = aligned_alloc(4096, 4096);
	w->in = aligned_alloc(4096, 4096);
	w->scratch = aligned_alloc(4096, 4096);
	assert_true(w->out && w->in && w->scratch);
	memset(w->out, 0, 4096);
	w->batch.run = next;
	loop_batch_add(w->loop, &w->batch);
	assert_int_equal(loop_run(w->loop), 0);
	scsi_nexus_each_path(w->nexus, path_close, NULL);
	while (loop_in_flight(w->loop))
		assert_int_equal(loop_run(w->loop), 0);
	scsi_nexus_free(w->nexus);
	loop_free(w->loop);
	free(w->out);
	free(w->in);
	free(w->scratch);
	return NULL;
}

static void loses_no_change_of_many_sessions(void **state)
{
	const struct scsi_unit_options options = {.block_size = BLOCK,
						  .size = BLOCKS * BLOCK};
	int fd = memfd_create("scsi-race", MFD_CLOEXEC);
	struct worker workers[WORKERS] = {0};
	struct scsi_target *target;
	struct scsi_unit *unit;
	uint8_t data[BLOCKS * BLOCK];
	char path[32];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BLOCKS * BLOCK), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(scsi_target_new("iqn.2026-11.t:t", &target, NULL), 0);
	assert_int_equal(scsi_unit_new(&options, &unit, NULL), 0);
	assert_int_equal(scsi_target_add(target, 0, unit, NULL), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].target = target;
		workers[i].path = path;
		workers[i].index = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL,
						worker_run, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	assert_int_equal(pread(fd, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(scsi_be64(data), WORKERS * ROUNDS);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(scsi_be64(data + (size_t)(1 + i) * BLOCK),
				 workers[i].writes);
	assert_int_equal(unit->exclusive, 0);
	assert_null(unit->held);
	scsi_target_unref(target);
	scsi_unit_unref(unit);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loses_no_change_of_many_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
