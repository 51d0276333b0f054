/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/fd_store_server.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "union/state/fd_store.h"

#define FIRST_SIZE 64

/*
 * Find @token: 1 + its place; 0: there is none. The last ones are asked for
 * most.
 */
static size_t find_token(const struct fd_store_server *held, uint64_t token)
{
	size_t i = held->count;

	while (i && held->items[i - 1].token != token)
		i--;
	return i;
}

int fd_store_server_add(struct fd_store_server *held, uint64_t token, int fd)
{
	size_t size = held->size ? held->size * 2 : FIRST_SIZE;
	struct fd_store_entry *bigger;

	if (held->count == held->size) {
		bigger = reallocarray(held->items, size, sizeof(*bigger));
		if (!bigger) {
			fd_close(fd);
			return -ENOMEM;
		}
		held->items = bigger;
		held->size = size;
	}
	held->items[held->count++] = (struct fd_store_entry){token, fd};
	return 0;
}

bool fd_store_server_has(const struct fd_store_server *held, uint64_t token)
{
	return find_token(held, token) > 0;
}

int fd_store_server_fd(const struct fd_store_server *held, uint64_t token)
{
	size_t i = find_token(held, token);

	return i ? held->items[i - 1].fd : -1;
}

void fd_store_server_drop(struct fd_store_server *held, uint64_t token)
{
	size_t i = find_token(held, token);

	if (!i)
		return;
	fd_close(held->items[i - 1].fd);
	held->items[i - 1] = held->items[--held->count];
}

int fd_store_server_send(const struct fd_store_server *held, int socket)
{
	size_t i;
	int r = 0;

	for (i = 0; i < held->count && r == 0; i++)
		r = fd_store_send(socket, FD_STORE_ADD, held->items[i].token,
				  NULL, held->items[i].fd);
	return r == 0 ? fd_store_send(socket, FD_STORE_END, 0, NULL, -1) : r;
}

void fd_store_server_done(struct fd_store_server *held)
{
	while (held->count)
		fd_close(held->items[--held->count].fd);
	free(held->items);
	*held = (struct fd_store_server){0};
}
