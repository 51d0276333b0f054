/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/dir_attr_lock.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static struct dir_attr_lock *taken; /* by requests that are served: a few */

static struct dir_attr_lock **find_turn(uint64_t id)
{
	struct dir_attr_lock **at = &taken;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

void dir_attr_lock_take(struct dir_attr_lock *turn, uint64_t id)
{
	pthread_mutex_lock(&lock);
	while (*find_turn(id))
		pthread_cond_wait(&given, &lock);
	turn->id = id;
	turn->next = taken;
	taken = turn;
	pthread_mutex_unlock(&lock);
}

void dir_attr_lock_give(struct dir_attr_lock *turn)
{
	pthread_mutex_lock(&lock);
	*find_turn(turn->id) = turn->next;
	pthread_cond_broadcast(&given);
	pthread_mutex_unlock(&lock);
}
