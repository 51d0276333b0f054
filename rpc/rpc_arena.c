/* SPDX-License-Identifier: Apache-2.0 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_internal.h"

#define CHUNK_FIRST 4096  /* bytes: most calls need no more */
#define CHUNK_NEXT  65536 /* bytes */

struct rpc_arena_chunk {
	SLIST_ENTRY(rpc_arena_chunk) next;
	alignas(max_align_t) char data[];
};

static size_t round_up(size_t size)
{
	return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static bool grow(struct rpc_arena *a, size_t size, bool strict)
{
	size_t bytes = a->used ? CHUNK_NEXT : CHUNK_FIRST;
	struct rpc_arena_chunk *chunk;

	if (size > bytes - sizeof(*chunk))
		bytes = size + sizeof(*chunk);
	if (bytes > a->max || a->used > a->max - bytes) {
		a->over = true;
		if (strict)
			return false;
	}
	chunk = gpr_malloc(bytes);
	a->used += bytes;
	SLIST_INSERT_HEAD(&a->chunks, chunk, next);
	a->at = chunk->data;
	a->end = (char *)chunk + bytes;
	return true;
}

static void *take(struct rpc_arena *a, size_t size, bool strict)
{
	char *p;

	/* Half the address space: no sum below can wrap. */
	if (size > PTRDIFF_MAX / 2) {
		a->over = true;
		return NULL;
	}
	size = round_up(size ? size : 1);
	if ((!a->at || size > (size_t)(a->end - a->at)) &&
	    !grow(a, size, strict))
		return NULL;
	p = a->at;
	a->at += size;
	return p;
}

static void *allocator_alloc(void *data, size_t size)
{
	return take(data, size, true);
}

static void allocator_free(void *data, void *pointer)
{
	(void)data; /* rpc_arena_done() frees all at once */
	(void)pointer;
}

void rpc_arena_init(struct rpc_arena *a, size_t max)
{
	*a = (struct rpc_arena){
		.allocator = {allocator_alloc, allocator_free, a},
		.max = max,
	};
}

void *rpc_arena_alloc(struct rpc_arena *a, size_t size)
{
	void *p = take(a, size, false);

	if (!p) /* nobody has half the address space */
		abort();
	return memset(p, 0, size);
}

void rpc_arena_done(struct rpc_arena *a)
{
	struct rpc_arena_chunk *chunk;

	while ((chunk = SLIST_FIRST(&a->chunks))) {
		SLIST_REMOVE_HEAD(&a->chunks, next);
		gpr_free(chunk);
	}
}
