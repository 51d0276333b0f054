/* SPDX-License-Identifier: Apache-2.0 */
#include "union/dir_turn.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"

#define COUNTS 64 /* a node shares its own with few others */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static struct dir_turn *taken;  /* by requests that are served: a few */
static uint64_t counts[COUNTS]; /* of turns that were taken, by node id */

static struct dir_turn **find(uint64_t id)
{
	struct dir_turn **at = &taken;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

void dir_turn_take(struct dir_turn *turn, uint64_t id)
{
	pthread_mutex_lock(&lock);
	while (*find(id))
		pthread_cond_wait(&given, &lock);
	turn->id = id;
	turn->next = taken;
	taken = turn;
	counts[id % COUNTS]++;
	pthread_mutex_unlock(&lock);
}

void dir_turn_give(struct dir_turn *turn)
{
	pthread_mutex_lock(&lock);
	*find(turn->id) = turn->next;
	pthread_cond_broadcast(&given);
	pthread_mutex_unlock(&lock);
}

uint64_t dir_turn_wait(uint64_t id, int patience_ms)
{
	struct timespec end = {0};
	uint64_t count;
	int r = 0;

	pthread_mutex_lock(&lock);
	while (*find(id) && r == 0) {
		if (!end.tv_sec)
			end = clock_deadline(patience_ms);
		r = pthread_cond_clockwait(&given, &lock, CLOCK_MONOTONIC,
					   &end);
	}
	count = counts[id % COUNTS];
	pthread_mutex_unlock(&lock);
	return count;
}
