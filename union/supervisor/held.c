/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/held.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "union/state/keep.h"

#define FIRST_SIZE 64

/* 1 + its place, 0: there is none. The last ones are asked for most. */
static size_t find(const struct held *held, uint64_t token)
{
	size_t i = held->count;

	while (i && held->items[i - 1].token != token)
		i--;
	return i;
}

int held_add(struct held *held, uint64_t token, int fd)
{
	size_t size = held->size ? held->size * 2 : FIRST_SIZE;
	struct held_one *bigger;

	if (held->count == held->size) {
		bigger = reallocarray(held->items, size, sizeof(*bigger));
		if (!bigger) {
			fd_close(fd);
			return -ENOMEM;
		}
		held->items = bigger;
		held->size = size;
	}
	held->items[held->count++] = (struct held_one){token, fd};
	return 0;
}

bool held_has(const struct held *held, uint64_t token)
{
	return find(held, token) > 0;
}

int held_fd(const struct held *held, uint64_t token)
{
	size_t i = find(held, token);

	return i ? held->items[i - 1].fd : -1;
}

void held_drop(struct held *held, uint64_t token)
{
	size_t i = find(held, token);

	if (!i)
		return;
	fd_close(held->items[i - 1].fd);
	held->items[i - 1] = held->items[--held->count];
}

int held_send(const struct held *held, int socket)
{
	size_t i;
	int r = 0;

	for (i = 0; i < held->count && r == 0; i++)
		r = keep_send(socket, KEEP_ADD, held->items[i].token, NULL,
			      held->items[i].fd);
	return r == 0 ? keep_send(socket, KEEP_END, 0, NULL, -1) : r;
}

void held_done(struct held *held)
{
	while (held->count)
		fd_close(held->items[--held->count].fd);
	free(held->items);
	*held = (struct held){0};
}
