/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: what a process writes into records of its own accord, as the health
 * of a volume. A note takes the volume's lease, as every operation does, for a
 * few calls of the store. An operation of the same process that somebody asked
 * for shall not be refused for that; it waits for the note.
 *
 * All functions may be called from any thread.
 */
#ifndef VOLUME_NOTE_H
#define VOLUME_NOTE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "volume/record/volume_record.h"

#define NOTE_WAIT_MS 3000 /* for a note, by an operation; a store may hang */
#define NOTE_SLOTS   64   /* names share one by their hash: a wait too many */

struct notes {
	pthread_mutex_t making; /* held while one is made: one at a time */
	pthread_mutex_t lock;   /* guards what follows; innermost */
	pthread_cond_t ended;
	char name[RECORD_NAME_SIZE]; /* of the one being made; "": none */
	uint64_t begun[NOTE_SLOTS];
};

void notes_init(struct notes *notes);
void notes_done(struct notes *notes);

/* Around a note of volume @name, its lease included. */
void note_begin(struct notes *notes, const char *name);
void note_end(struct notes *notes);

/*
 * Wait until no note of @name is being made, or until @until_ms (clock_ms()).
 * Returns what note_since() wants.
 */
uint64_t note_wait(struct notes *notes, const char *name, int64_t until_ms);

/* A note of @name may have been made since note_wait() returned @seen. */
bool note_since(struct notes *notes, const char *name, uint64_t seen);

#endif
