/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/condition_writer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

void condition_writer_init(struct condition_writer *writer)
{
	pthread_condattr_t monotonic;

	*writer = (struct condition_writer){0};
	(void)pthread_mutex_init(&writer->writing, NULL);
	(void)pthread_mutex_init(&writer->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&writer->ended, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
}

void condition_writer_done(struct condition_writer *writer)
{
	(void)pthread_cond_destroy(&writer->ended);
	(void)pthread_mutex_destroy(&writer->lock);
	(void)pthread_mutex_destroy(&writer->writing);
}

/* FNV-1a. */
static uint64_t *slot_of(struct condition_writer *writer, const char *name)
{
	uint32_t hash = UINT32_C(2166136261);

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
	return &writer->begun[hash % CONDITION_SLOTS];
}

void condition_write_begin(struct condition_writer *writer, const char *name)
{
	(void)pthread_mutex_lock(&writer->writing);
	(void)pthread_mutex_lock(&writer->lock);
	(void)snprintf(writer->name, sizeof(writer->name), "%s", name);
	(*slot_of(writer, name))++;
	(void)pthread_mutex_unlock(&writer->lock);
}

void condition_write_end(struct condition_writer *writer)
{
	(void)pthread_mutex_lock(&writer->lock);
	writer->name[0] = '\0';
	(void)pthread_cond_broadcast(&writer->ended);
	(void)pthread_mutex_unlock(&writer->lock);
	(void)pthread_mutex_unlock(&writer->writing);
}

uint64_t condition_write_wait(struct condition_writer *writer, const char *name,
			      int64_t until_ms)
{
	const struct timespec until = {.tv_sec = until_ms / 1000,
				       .tv_nsec = until_ms % 1000 * 1000000};
	uint64_t seen;

	(void)pthread_mutex_lock(&writer->lock);
	while (strcmp(writer->name, name) == 0 && clock_ms() < until_ms)
		(void)pthread_cond_timedwait(&writer->ended, &writer->lock,
					     &until);
	seen = *slot_of(writer, name);
	(void)pthread_mutex_unlock(&writer->lock);
	return seen;
}

bool condition_write_since(struct condition_writer *writer, const char *name,
			   uint64_t seen)
{
	bool since;

	(void)pthread_mutex_lock(&writer->lock);
	since = strcmp(writer->name, name) == 0 ||
		*slot_of(writer, name) != seen;
	(void)pthread_mutex_unlock(&writer->lock);
	return since;
}
