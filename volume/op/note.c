/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/note.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void notes_init(struct notes *notes)
{
	pthread_condattr_t monotonic;

	*notes = (struct notes){0};
	(void)pthread_mutex_init(&notes->making, NULL);
	(void)pthread_mutex_init(&notes->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&notes->ended, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
}

void notes_done(struct notes *notes)
{
	(void)pthread_cond_destroy(&notes->ended);
	(void)pthread_mutex_destroy(&notes->lock);
	(void)pthread_mutex_destroy(&notes->making);
}

/* FNV-1a. */
static uint64_t *slot_of(struct notes *notes, const char *name)
{
	uint32_t hash = UINT32_C(2166136261);

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
	return &notes->begun[hash % NOTE_SLOTS];
}

void note_begin(struct notes *notes, const char *name)
{
	(void)pthread_mutex_lock(&notes->making);
	(void)pthread_mutex_lock(&notes->lock);
	(void)snprintf(notes->name, sizeof(notes->name), "%s", name);
	(*slot_of(notes, name))++;
	(void)pthread_mutex_unlock(&notes->lock);
}

void note_end(struct notes *notes)
{
	(void)pthread_mutex_lock(&notes->lock);
	notes->name[0] = '\0';
	(void)pthread_cond_broadcast(&notes->ended);
	(void)pthread_mutex_unlock(&notes->lock);
	(void)pthread_mutex_unlock(&notes->making);
}

uint64_t note_wait(struct notes *notes, const char *name, int64_t until_ms)
{
	const struct timespec until = {.tv_sec = until_ms / 1000,
				       .tv_nsec = until_ms % 1000 * 1000000};
	uint64_t seen;

	(void)pthread_mutex_lock(&notes->lock);
	while (strcmp(notes->name, name) == 0 && clock_ms() < until_ms)
		(void)pthread_cond_timedwait(&notes->ended, &notes->lock,
					     &until);
	seen = *slot_of(notes, name);
	(void)pthread_mutex_unlock(&notes->lock);
	return seen;
}

bool note_since(struct notes *notes, const char *name, uint64_t seen)
{
	bool since;

	(void)pthread_mutex_lock(&notes->lock);
	since = strcmp(notes->name, name) == 0 || *slot_of(notes, name) != seen;
	(void)pthread_mutex_unlock(&notes->lock);
	return since;
}
