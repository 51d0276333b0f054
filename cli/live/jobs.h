/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: what the records say is begun and not finished. The program that works
 * on one may be gone: then the same command goes on, or the opposite one takes
 * it back.
 */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <json-c/json.h>
#include <stdio.h>

#include "volume/record/snapshot_record.h"
#include "volume/record/volume_record.h"

struct job {
	char object[RECORD_NAME_SIZE + 16]; /* "volume x", "snapshot x" */
	char doing[32];                     /* "moving" */
	uint64_t done, total; /* bytes or extents; total 0: it has no measure */
	bool bytes;
	char detail[RECORD_TEXT_SIZE];
};

/* Out of memory ends the program: it is a command, not a daemon. */
struct job_list {
	struct job *jobs; /* owned, free() */
	size_t n;
};

/* Add the jobs of one record. */
void jobs_of_volume(struct job_list *list, const struct volume_record *record);
void jobs_of_snapshot(struct job_list *list,
		      const struct snapshot_record *record);

/* A table; nothing without jobs. */
void jobs_print(const struct job_list *list, FILE *out);
/* An array. */
struct json_object *jobs_json(const struct job_list *list);

#endif
