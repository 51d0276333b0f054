/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/loop_internal.h"

#define SMALLEST_SHIFT 12 /* 4 KiB: one page, the alignment of O_DIRECT */

static_assert((UINT32_C(1) << (SMALLEST_SHIFT + IOBUF_CLASSES - 1)) ==
		      IOBUF_MAX,
	      "the largest class is the largest buffer");

static unsigned class_of(uint32_t size)
{
	unsigned class = 0;

	while ((UINT32_C(1) << (SMALLEST_SHIFT + class)) < size)
		class ++;
	return class;
}

static void buffer_free(struct iobuf_pool *pool, struct iobuf *buf)
{
	pool->allocated -= buf->size;
	free(buf->data);
	free(buf);
}

/* Give back kept buffers of other sizes until @size more bytes fit. */
static void pool_trim(struct iobuf_pool *pool, size_t size)
{
	for (int class = IOBUF_CLASSES - 1; class >= 0; class --) {
		while (pool->allocated + size > pool->limit &&
		       pool->free[class]) {
			struct iobuf *buf = pool->free[class];

			pool->free[class] = buf->next;
			buffer_free(pool, buf);
		}
	}
}

static struct iobuf *buffer_new(struct iobuf_pool *pool, unsigned class)
{
	uint32_t size = UINT32_C(1) << (SMALLEST_SHIFT + class);
	struct iobuf *buf;

	pool_trim(pool, size);
	if (pool->allocated + size > pool->limit)
		return NULL;
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return NULL;
	if (posix_memalign(&buf->data, UINT32_C(1) << SMALLEST_SHIFT, size)) {
		free(buf);
		return NULL;
	}
	buf->size = size;
	buf->class_ = class;
	pool->allocated += size;
	return buf;
}

void iobuf_pool_init(struct iobuf_pool *pool, size_t limit)
{
	*pool = (struct iobuf_pool){.limit = limit};
}

void iobuf_pool_done(struct iobuf_pool *pool)
{
	assert(pool->in_use == 0);
	for (unsigned class = 0; class < IOBUF_CLASSES; class ++) {
		while (pool->free[class]) {
			struct iobuf *buf = pool->free[class];

			pool->free[class] = buf->next;
			buffer_free(pool, buf);
		}
	}
}

struct iobuf *iobuf_get(struct iobuf_pool *pool, uint32_t size)
{
	unsigned class = class_of(size);
	struct iobuf *buf;

	assert(size > 0 && size <= IOBUF_MAX);
	buf = pool->free[class];
	if (buf)
		pool->free[class] = buf->next;
	else
		buf = buffer_new(pool, class);
	if (!buf)
		return NULL;
	buf->next = NULL;
	pool->in_use += buf->size;
	return buf;
}

void iobuf_put(struct iobuf_pool *pool, struct iobuf *buf)
{
	pool->in_use -= buf->size;
	buf->next = pool->free[buf->class_];
	pool->free[buf->class_] = buf;
}
