/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/loop/iobuf_huge.h"
#include "base/loop/loop_internal.h"

static_assert((UINT32_C(1) << (IOBUF_SHIFT + IOBUF_CLASSES - 1)) == IOBUF_MAX,
	      "the largest class is the largest buffer");

static unsigned class_of(uint32_t size)
{
	unsigned class = 0;

	while ((UINT32_C(1) << (IOBUF_SHIFT + class)) < size)
		class ++;
	return class;
}

static bool is_huge(const struct iobuf_pool *pool, size_t size)
{
	return pool->huge && size >= IOBUF_HUGE;
}

static void *iobuf_memory_new(struct iobuf_pool *pool, unsigned class,
			      size_t size)
{
	void *data = iobuf_fixed_get(&pool->fixed, class);

	if (data)
		return data;
	if (is_huge(pool, size))
		return iobuf_huge_map(size);
	return aligned_alloc(UINT32_C(1) << IOBUF_SHIFT, size);
}

static void iobuf_memory_free(struct iobuf_pool *pool, void *data, size_t size)
{
	if (iobuf_fixed_put(&pool->fixed, data))
		return;
	if (is_huge(pool, size))
		iobuf_huge_unmap(data, size);
	else
		free(data);
}

static void buffer_free(struct iobuf_pool *pool, struct iobuf *buf)
{
	pool->allocated -= buf->size;
	iobuf_memory_free(pool, buf->data, buf->size);
	free(buf);
}

void iobuf_pool_trim(struct iobuf_pool *pool, size_t size, bool reserve)
{
	size_t limit = pool->limit + pool->reserved + (reserve ? size : 0);

	while (pool->allocated + size > limit && iobuf_thp_trim(pool))
		;
	for (int class = IOBUF_CLASSES - 1; class >= 0; class --) {
		while (pool->allocated + size > limit && pool->free[class]) {
			struct iobuf *buf = pool->free[class];

			pool->free[class] = buf->next;
			buffer_free(pool, buf);
		}
	}
}

static struct iobuf *buffer_new(struct iobuf_pool *pool, unsigned class,
				bool reserve)
{
	uint32_t size = UINT32_C(1) << (IOBUF_SHIFT + class);
	struct iobuf *buf;

	iobuf_pool_trim(pool, size, reserve);
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return NULL;
	buf->data = iobuf_memory_new(pool, class, size);
	if (!buf->data) {
		free(buf);
		return NULL;
	}
	buf->size = size;
	buf->class_ = class;
	pool->allocated += size;
	return buf;
}

size_t iobuf_counts(const struct iobuf_pool *pool, uint32_t size)
{
	unsigned class = class_of(size);

	return class == IOBUF_PAIR_CLASS && pool->huge
		       ? IOBUF_HUGE
		       : (size_t)1 << (IOBUF_SHIFT + class);
}

void iobuf_pool_init(struct iobuf_pool *pool, size_t limit)
{
	*pool = (struct iobuf_pool){
		.limit = limit,
		.reserve = limit / LOOP_IOBUF_RESERVE,
		.huge = iobuf_huge_offered(),
		.fixed.ring_fd = -1,
	};
}

void iobuf_pool_done(struct iobuf_pool *pool)
{
	assert(pool->in_use == 0 && pool->reserved == 0);
	pool->fixed.ring_fd = -1;
	while (iobuf_thp_trim(pool))
		;
	for (unsigned class = 0; class < IOBUF_CLASSES; class ++) {
		while (pool->free[class]) {
			struct iobuf *buf = pool->free[class];

			pool->free[class] = buf->next;
			buffer_free(pool, buf);
		}
	}
	iobuf_fixed_done(&pool->fixed);
}

static struct iobuf *iobuf_get(struct iobuf_pool *pool, uint32_t size,
			       bool reserve)
{
	size_t limit = reserve ? pool->reserve : pool->limit;
	size_t *in_use = reserve ? &pool->reserved : &pool->in_use;
	unsigned class = class_of(size);
	struct iobuf *buf;

	assert(size > 0 && size <= IOBUF_MAX);
	if (class == IOBUF_PAIR_CLASS && pool->huge && !reserve) {
		buf = iobuf_thp_get(pool);
		if (buf)
			return buf;
	}
	if (*in_use + (UINT32_C(1) << (IOBUF_SHIFT + class)) > limit)
		return NULL;
	buf = pool->free[class];
	if (buf)
		pool->free[class] = buf->next;
	else
		buf = buffer_new(pool, class, reserve);
	if (!buf)
		return NULL;
	buf->next = NULL;
	buf->reserve = reserve;
	*in_use += buf->size;
	return buf;
}

struct iobuf *loop_iobuf_get(struct loop *loop, uint32_t size)
{
	return iobuf_get(&loop->buffers, size, false);
}

struct iobuf *loop_iobuf_get_reserve(struct loop *loop, uint32_t size)
{
	return iobuf_get(&loop->buffers, size, true);
}

size_t loop_iobufs_in_use(const struct loop *loop)
{
	return loop->buffers.in_use;
}

void loop_iobuf_put(struct loop *loop, struct iobuf *buf)
{
	struct iobuf_pool *pool = &loop->buffers;

	if (buf->pair) {
		iobuf_thp_put(pool, buf);
		return;
	}
	*(buf->reserve ? &pool->reserved : &pool->in_use) -= buf->size;
	buf->next = pool->free[buf->class_];
	pool->free[buf->class_] = buf;
}
