/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/node_health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/pool_try.h"

#define AGAIN_MIN_MS 1000
#define AGAIN_MAX_MS 60000
#define FRESH_MS     1000 /* who asks gets what was found so long ago */
#define END_MS       3000 /* for a try to end when all does */

/* ---- state ---- */

static void set_state(struct node_pool *pool, enum node_pool_state state,
		      const char *why)
{
	const enum node_pool_state before = pool->state;
	struct node_health *h = &pool->health;
	const int64_t now_ms = clock_ms();

	pthread_mutex_lock(&pool->node->space);
	pthread_mutex_lock(&pool->node->tables);
	pool->state = state;
	(void)snprintf(pool->message, sizeof(pool->message), "%s", why);
	pthread_mutex_unlock(&pool->node->tables);
	pthread_mutex_unlock(&pool->node->space);
	if (state == before)
		return;
	if (state == NODE_POOL_ONLINE)
		log_info("pool %s at %s: well again, after %" PRId64 " s",
			 pool->known.name, pool->known.path,
			 (now_ms - h->since_ms) / 1000);
	else
		log_write(LOG_LEVEL_ERROR,
			  "pool %s at %s: %s: %s; nothing new is placed there",
			  pool->known.name, pool->known.path,
			  node_pool_state_name(pool->state), why);
	if (before == NODE_POOL_ONLINE)
		h->since_ms = now_ms;
}

static enum node_health_found pool_take_found(struct node_pool *pool, int r,
					      struct error *err)
{
	switch (r) {
	case 0: set_state(pool, NODE_POOL_ONLINE, ""); break;
	case 1: return NODE_HEALTH_ANEW;
	case -ENODEV: return NODE_HEALTH_GONE;
	case -EROFS:
		set_state(pool, NODE_POOL_READ_ONLY, error_text(err));
		break;
	default: set_state(pool, NODE_POOL_FAILING, error_text(err));
	}
	return NODE_HEALTH_AS_IT_WAS;
}

/* ---- tries ---- */

static void ended(void *pool_)
{
	const struct node_pool *pool = pool_;

	node_watch_wake(pool->node);
}

/*
 * Tell whether the pool is well, or was just opened, and no operation on it
 * failed since.
 */
static bool is_well(const struct node_pool *pool)
{
	return node_pool_online(pool) && !atomic_load(&pool->health.suspect);
}

/*
 * Set the time of the next try: later for each try that follows soon on
 * another.
 */
static void put_off(struct node_health *h, int64_t now_ms)
{
	if (h->delay_ms == 0 || now_ms > h->again_ms + AGAIN_MAX_MS)
		h->delay_ms = AGAIN_MIN_MS;
	h->again_ms = now_ms + h->delay_ms;
	h->delay_ms *= 2;
	if (h->delay_ms > AGAIN_MAX_MS)
		h->delay_ms = AGAIN_MAX_MS;
}

bool node_health_due(struct node_pool *pool, int64_t now_ms)
{
	struct node_health *h = &pool->health;

	if (now_ms < h->again_ms)
		return false;
	put_off(h, now_ms);
	return true;
}

static bool is_stale(const struct node_pool *pool, int64_t now_ms)
{
	return now_ms - pool->health.tried_ms >= FRESH_MS;
}

void node_health_begin(struct node_pool *pool, int64_t now_ms, bool asked)
{
	struct node_health *h = &pool->health;

	if (h->trial)
		return;
	if (!(asked && is_stale(pool, now_ms)) &&
	    (is_well(pool) || !node_health_due(pool, now_ms)))
		return;
	atomic_store(&h->suspect, false);
	h->begun_ms = now_ms;
	if (pool_try_begin(pool->pool, ended, pool, &h->trial) < 0)
		atomic_store(&h->suspect, true); /* another time */
}

static void look_hung(struct node_pool *pool)
{
	const int64_t for_ms = clock_ms() - pool->health.begun_ms;

	if (for_ms >= NODE_HEALTH_ANSWER_MS)
		atomic_store(&pool->health.silent, true);
	if (for_ms >= NODE_HEALTH_HANG_MS)
		set_state(
			pool, NODE_POOL_FAILING,
			"it does not answer: a write to see whether it can be "
			"written has not ended");
}

enum node_health_found node_health_look(struct node_pool *pool, int wait_ms,
					struct error *err)
{
	struct node_health *h = &pool->health;
	struct error why = {0};
	int r;

	if (!h->trial)
		return NODE_HEALTH_AS_IT_WAS;
	if (!pool_try_wait(h->trial, wait_ms)) {
		look_hung(pool);
		return NODE_HEALTH_AS_IT_WAS;
	}
	r = pool_try_end(h->trial, &why);
	h->trial = NULL;
	h->tried_ms = clock_ms();
	atomic_store(&h->silent, false);
	*err = why;
	return pool_take_found(pool, r, &why);
}

int64_t node_health_next_ms(const struct node_pool *pool)
{
	const struct node_health *h = &pool->health;

	if (h->trial)
		return pool->state == NODE_POOL_FAILING
			       ? INT64_MAX
			       : h->begun_ms + NODE_HEALTH_HANG_MS;
	return is_well(pool) ? INT64_MAX : h->again_ms;
}

bool node_health_end(struct node_pool *pool)
{
	struct node_health *h = &pool->health;

	if (!h->trial)
		return true;
	if (!pool_try_wait(h->trial, END_MS))
		return false;
	(void)pool_try_end(h->trial, NULL);
	h->trial = NULL;
	return true;
}
