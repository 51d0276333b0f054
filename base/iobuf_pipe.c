/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that are pipes. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop_internal.h"

#define PAGE (UINT32_C(1) << IOBUF_SHIFT)

static int ends_open(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	if (fcntl(ends[1], F_SETPIPE_SZ, (int)LOOP_PIPE_MAX) >=
	    (int)LOOP_PIPE_MAX)
		return 0;
	fd_close(ends[0]);
	fd_close(ends[1]);
	return -EPERM;
}

static struct iobuf *pipe_new(struct iobuf_pool *pool)
{
	struct iobuf *buf;
	int ends[2];

	if (pool->pipes_made == IOBUF_PIPES || ends_open(ends) < 0)
		return NULL;
	buf = calloc(1, sizeof(*buf));
	if (!buf) {
		fd_close(ends[0]);
		fd_close(ends[1]);
		return NULL;
	}
	buf->pipe_out = ends[0];
	buf->pipe_in = ends[1];
	pool->pipes_made++;
	return buf;
}

static void pipe_free(struct iobuf_pool *pool, struct iobuf *buf)
{
	fd_close(buf->pipe_in);
	fd_close(buf->pipe_out);
	free(buf);
	pool->pipes_made--;
}

bool iobuf_pipe_init(struct iobuf_pool *pool)
{
	pool->pipes = pipe_new(pool);
	return pool->pipes;
}

void iobuf_pipe_done(struct iobuf_pool *pool)
{
	while (pool->pipes) {
		struct iobuf *buf = pool->pipes;

		pool->pipes = buf->next;
		pipe_free(pool, buf);
	}
	assert(pool->pipes_made == 0);
}

struct iobuf *iobuf_pipe_get(struct iobuf_pool *pool, uint32_t size)
{
	struct iobuf *buf;

	assert(size > 0 && size <= LOOP_PIPE_MAX);
	size = (size + PAGE - 1) / PAGE * PAGE;
	if (pool->in_use + size > pool->limit)
		return NULL;
	buf = pool->pipes;
	if (buf)
		pool->pipes = buf->next;
	else
		buf = pipe_new(pool);
	if (!buf)
		return NULL;
	iobuf_pool_trim(pool, size, false);
	buf->size = size;
	buf->next = NULL;
	pool->allocated += size;
	pool->in_use += size;
	return buf;
}

/* What a peer did not take is not for the next. */
void iobuf_pipe_put(struct iobuf_pool *pool, struct iobuf *buf)
{
	pool->allocated -= buf->size;
	pool->in_use -= buf->size;
	if (buf->piped > 0) {
		pipe_free(pool, buf);
		return;
	}
	buf->next = pool->pipes;
	pool->pipes = buf;
}

bool loop_pipe_holds(uint64_t offset, uint64_t length)
{
	return length <= LOOP_PIPE_MAX &&
	       offset % (unsigned)getpagesize() + length <= LOOP_PIPE_MAX;
}
