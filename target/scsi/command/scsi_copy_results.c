/* SPDX-License-Identifier: Apache-2.0 */
/* RECEIVE COPY RESULTS, SPC-4 6.21: what copies there were, and the limits */
#include <string.h>

#include "target/scsi/command/scsi_copy.h"

static struct scsi_copy_result *result_find(struct scsi_path *path,
					    uint8_t list_id)
{
	for (struct scsi_copy_result *r = path->copied; r; r = r->next)
		if (r->list_id == list_id)
			return r;
	return NULL;
}

/* The oldest ones are forgotten. */
static void results_trim(struct scsi_path *path)
{
	struct scsi_copy_result **at = &path->copied;

	for (unsigned i = 0; *at && i < SCSI_COPY_HELD; i++)
		at = &(*at)->next;
	while (*at) {
		struct scsi_copy_result *r = *at;

		*at = r->next;
		free(r);
	}
}

void scsi_copy_note(const struct scsi_copy *copy, enum scsi_copy_status status)
{
	struct scsi_path *path = copy->task->path;
	struct scsi_copy_result *r = result_find(path, copy->list_id);

	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return; /* then there is nothing to ask for */
		r->list_id = copy->list_id;
		r->next = path->copied;
		path->copied = r;
		results_trim(path);
	}
	/* A copy that was aborted has no details. */
	r->has_details = status == SCSI_COPY_FAILED && copy->task->failed;
	if (r->has_details) {
		r->scsi_status = copy->task->status;
		r->sense_length = copy->task->sense_length;
		memcpy(r->sense, copy->task->sense, r->sense_length);
	}
	r->status = status;
	r->segments = copy->segment;
	r->bytes = copy->bytes;
}

static void copy_status_run(struct scsi_task *task)
{
	const struct scsi_copy_result *r = result_find(task->path,
						       task->cdb[2]);
	uint8_t data[12] = {0};

	if (!r) {
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
		scsi_task_complete(task);
		return;
	}
	scsi_put32(data, sizeof(data) - 4);
	data[4] = (uint8_t)r->status;
	scsi_put16(data + 5, r->segments);
	data[7] = 0x01; /* counted in KiB */
	scsi_put32(data + 8, (uint32_t)(r->bytes >> 10));
	scsi_task_reply(task, data, sizeof(data));
}

/* SPC-4 6.18: once; then, and of a copy that did not fail, there are none. */
static void details_run(struct scsi_task *task)
{
	struct scsi_copy_result *r = result_find(task->path, task->cdb[2]);
	uint8_t data[60 + SCSI_SENSE_MAX] = {0};

	if (!r || !r->has_details) {
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
		scsi_task_complete(task);
		return;
	}
	scsi_put32(data, 60u + r->sense_length - 4);
	data[56] = r->scsi_status;
	scsi_put16(data + 58, r->sense_length);
	memcpy(data + 60, r->sense, r->sense_length);
	r->has_details = false;
	scsi_task_reply(task, data, 60u + r->sense_length);
}

/* The data that a copy holds: none of the segments we know holds any. */
static void data_run(struct scsi_task *task)
{
	const uint8_t data[4] = {0};

	if (!result_find(task->path, task->cdb[2])) {
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
		scsi_task_complete(task);
		return;
	}
	scsi_task_reply(task, data, sizeof(data));
}

static void parameters_run(struct scsi_task *task)
{
	uint8_t data[47] = {0};

	scsi_put32(data, sizeof(data) - 4);
	data[4] = 0x01; /* SNLID: no list identifier is fine */
	scsi_put16(data + 8, SCSI_COPY_ENDS);
	scsi_put16(data + 10, SCSI_COPY_SEGMENTS);
	scsi_put32(data + 12, SCSI_COPY_LIST_MAX);
	scsi_put32(data + 16, SCSI_COPY_SEGMENT_MAX);
	scsi_put16(data + 34, 0xffff); /* copies at once */
	data[36] = 0xff;
	data[37] = 9; /* granularity: 512 bytes */
	data[43] = 3; /* descriptors */
	data[44] = SCSI_COPY_BLOCKS_TYPE;
	data[45] = SCSI_COPY_BYTES_TYPE;
	data[46] = SCSI_COPY_END_TYPE;
	scsi_task_reply(task, data, sizeof(data));
}

#define RESULTS(number, id, call)                                        \
	{                                                                \
		.opcode = SCSI_RECEIVE_COPY_RESULTS, .action = (number), \
		.length = 16, .flags = SCSI_C_LIST_IN, .list_at = 10,    \
		.list_size = 4,                                          \
		.usage = {0, 0x1f, (id), [10] = 0xff, 0xff, 0xff, 0xff}, \
		.run = (call)                                            \
	}

const struct scsi_command scsi_copy_results_commands[] = {
	RESULTS(0x00, 0xff, copy_status_run),
	RESULTS(0x01, 0xff, data_run),
	RESULTS(0x03, 0, parameters_run),
	RESULTS(0x04, 0xff, details_run),
	{.length = 0},
};
