/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that a process writes into records by itself, as the health of a
 * volume. A write takes the volume's lease, as every operation does, for a few
 * calls of the store. An operation of the same process is not refused for
 * that: the operation waits for the write.
 *
 * All functions may be called from any thread.
 */
#ifndef VOLUME_CONDITION_WRITER_H
#define VOLUME_CONDITION_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "volume/record/volume_record.h"

#define CONDITION_WAIT_MS 3000 /* for a write; the store may hang */
#define CONDITION_SLOTS   64   /* names that share a slot only wait longer */

struct condition_writer {
	pthread_mutex_t writing; /* held during a write: one at a time */
	pthread_mutex_t lock;    /* guards what follows; innermost */
	pthread_cond_t ended;
	char name[RECORD_NAME_SIZE]; /* of the volume written to; "": none */
	uint64_t begun[CONDITION_SLOTS];
};

void condition_writer_init(struct condition_writer *notes);
void condition_writer_done(struct condition_writer *notes);

/* Begin and end a write to volume @name, its lease included. */
void condition_write_begin(struct condition_writer *writer, const char *name);
void condition_write_end(struct condition_writer *writer);

/*
 * Wait until no write to @name is going on, or until @until_ms (clock_ms()).
 * Returns what condition_write_since() takes.
 */
uint64_t condition_write_wait(struct condition_writer *writer, const char *name,
			      int64_t until_ms);

/* Tell whether @name may have been written to since that wait, which returned
 * @seen.
 */
bool condition_write_since(struct condition_writer *writer, const char *name,
			   uint64_t seen);

#endif
