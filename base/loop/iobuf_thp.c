/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/loop/iobuf_huge.h"
#include "base/loop/loop_internal.h"

static_assert((UINT32_C(2) << (IOBUF_SHIFT + IOBUF_PAIR_CLASS)) == IOBUF_HUGE,
	      "two are one huge page");

/* Two buffers of one huge page. In a list of the pool, but when both are used.
 */
struct iobuf_thp {
	struct iobuf bufs[2];
	unsigned used; /* bits */
	struct iobuf_thp *next, **at;
};

static void thp_list_add(struct iobuf_thp **list, struct iobuf_thp *pair)
{
	pair->next = *list;
	pair->at = list;
	if (pair->next)
		pair->next->at = &pair->next;
	*list = pair;
}

static void list_remove(struct iobuf_thp *pair)
{
	*pair->at = pair->next;
	if (pair->next)
		pair->next->at = pair->at;
}

/* What the ring may not lock is as good for the disk. */
static void *thp_memory_new(struct iobuf_pool *pool)
{
	void *data = iobuf_fixed_get_pair(&pool->fixed);

	return data ? data : iobuf_huge_map(IOBUF_HUGE);
}

static void thp_memory_free(struct iobuf_pool *pool, void *data)
{
	if (!iobuf_fixed_put_pair(&pool->fixed, data))
		iobuf_huge_unmap(data, IOBUF_HUGE);
}

static void buffers_init(struct iobuf_thp *pair, char *data)
{
	for (int i = 0; i < 2; i++)
		pair->bufs[i] = (struct iobuf){
			.data = data + i * IOBUF_HUGE / 2,
			.size = IOBUF_HUGE / 2,
			.class_ = IOBUF_PAIR_CLASS,
			.pair = pair,
		};
}

/* Make a pair, both halves free, in the list of kept pairs. */
static struct iobuf_thp *pair_new(struct iobuf_pool *pool)
{
	struct iobuf_thp *pair;
	void *data;

	iobuf_pool_trim(pool, IOBUF_HUGE, false);
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	data = thp_memory_new(pool);
	if (!data) {
		free(pair);
		return NULL;
	}
	buffers_init(pair, data);
	pool->allocated += IOBUF_HUGE;
	thp_list_add(&pool->kept, pair);
	return pair;
}

/* One whose page is in use already, if there is any: it costs nothing. */
static struct iobuf_thp *pair_find(struct iobuf_pool *pool)
{
	if (pool->half)
		return pool->half;
	if (pool->in_use + IOBUF_HUGE > pool->limit)
		return NULL;
	return pool->kept ? pool->kept : pair_new(pool);
}

struct iobuf *iobuf_thp_get(struct iobuf_pool *pool)
{
	struct iobuf_thp *pair = pair_find(pool);
	unsigned i;

	if (!pair)
		return NULL;
	list_remove(pair);
	i = pair->used & 1;
	if (pair->used == 0) {
		pool->in_use += IOBUF_HUGE;
		thp_list_add(&pool->half, pair);
	}
	pair->used |= 1u << i;
	return &pair->bufs[i];
}

void iobuf_thp_put(struct iobuf_pool *pool, struct iobuf *buf)
{
	struct iobuf_thp *pair = buf->pair;

	if (pair->used != 3)
		list_remove(pair);
	pair->used &= ~(1u << (buf - pair->bufs));
	if (pair->used == 0)
		pool->in_use -= IOBUF_HUGE;
	thp_list_add(pair->used ? &pool->half : &pool->kept, pair);
}

bool iobuf_thp_trim(struct iobuf_pool *pool)
{
	struct iobuf_thp *pair = pool->kept;

	if (!pair)
		return false;
	list_remove(pair);
	thp_memory_free(pool, pair->bufs[0].data);
	pool->allocated -= IOBUF_HUGE;
	free(pair);
	return true;
}
