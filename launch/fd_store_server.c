/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/fd_store_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "launch/fd_store_message.h"

#define MARK_VALID    "v"
#define MARK_LEFT     "l"
#define FIRST_SIZE    64
#define MESSAGE_BYTES 2048        /* a queued message takes half of that */
#define ROOM_FREE     (64u << 10) /* bytes; for what comes meanwhile */
#define ROOM_MAX      (1u << 30)  /* bytes */

/* Send the mirror a message; end a mirror that does not take it. */
static void mirror_send(struct fd_store_server *held, enum fd_store_op op,
			uint64_t token, int fd)
{
	struct pollfd mirror = {.fd = held->mirror, .events = POLLOUT};
	int r;

	if (!held->mirrored)
		return;
	r = fd_store_send(held->mirror, op, token, NULL, fd);
	if (r == -EAGAIN && poll(&mirror, 1, MIRROR_WAIT_MS) > 0)
		r = fd_store_send(held->mirror, op, token, NULL, fd);
	if (r < 0)
		fd_store_server_unmirror(held);
}

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
	mirror_send(held, FD_STORE_ADD, token, fd);
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
	mirror_send(held, FD_STORE_DROP, token, -1);
	fd_close(held->items[i - 1].fd);
	held->items[i - 1] = held->items[--held->count];
}

/* Send those below @end. */
static int send_below(const struct fd_store_server *held, uint64_t end,
		      int socket)
{
	const struct fd_store_entry *item;
	size_t i;
	int r = 0;

	for (i = 0; i < held->count && r == 0; i++) {
		item = &held->items[i];
		if (item->token < end)
			r = fd_store_send(socket, FD_STORE_ADD, item->token,
					  NULL, item->fd);
	}
	return r == 0 ? fd_store_send(socket, FD_STORE_END, 0, NULL, -1) : r;
}

int fd_store_server_send(const struct fd_store_server *held, int socket)
{
	return send_below(held, FD_STORE_PRIVATE, socket);
}

int fd_store_server_send_all(const struct fd_store_server *held, int socket)
{
	return send_below(held, UINT64_MAX, socket);
}

void fd_store_server_make_room(const struct fd_store_server *held, int socket)
{
	size_t bytes = held->count < ROOM_MAX / MESSAGE_BYTES
			       ? held->count * MESSAGE_BYTES + ROOM_FREE
			       : ROOM_MAX;
	int room = (int)bytes;

	if (setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &room,
		       sizeof(room)) < 0)
		(void)setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room,
				 sizeof(room)); /* as far as it goes */
}

void fd_store_server_mirror(struct fd_store_server *held, int socket)
{
	size_t i;
	int mark = file_memfd("mark");

	fd_store_server_unmirror(held);
	if (mark < 0 || fd_write_all(mark, MARK_VALID, 1) < 0) {
		fd_close(mark);
		fd_close(socket);
		return;
	}
	fd_store_server_make_room(held, socket);
	(void)fcntl(socket, F_SETFL, O_NONBLOCK); /* a socket can */
	held->mirrored = true;
	held->mirror = socket;
	held->mark = mark;
	mirror_send(held, FD_STORE_ADD, FD_STORE_MARK, mark);
	for (i = 0; i < held->count && held->mirrored; i++)
		mirror_send(held, FD_STORE_ADD, held->items[i].token,
			    held->items[i].fd);
	fd_store_server_say_ready(held);
}

void fd_store_server_say_ready(struct fd_store_server *held)
{
	mirror_send(held, FD_STORE_READY, 0, -1);
}

/* Take the mark of the mirror that was received, and look at it. */
static int take_mark(struct fd_store_server *held)
{
	int fd = fd_store_server_fd(held, FD_STORE_MARK);
	char mark = 0;

	held->mark = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	fd_store_server_drop(held, FD_STORE_MARK);
	if (held->mark >= 0 && pread(held->mark, &mark, 1, 0) == 1 &&
	    mark == *MARK_VALID)
		return 0;
	fd_close(held->mark);
	return -ESTALE;
}

int fd_store_server_receive(struct fd_store_server *held, int socket)
{
	struct fd_store_message message;
	int fd, r;

	do {
		r = fd_store_receive(socket, &message, &fd);
		if (r == 1 && message.op == FD_STORE_ADD && fd >= 0)
			r = fd_store_server_add(held, message.token, fd) < 0
				    ? -ENOMEM
				    : 1;
		else
			fd_close(fd);
	} while (r == 1 && message.op != FD_STORE_END);
	r = r == 0 ? -EPIPE : r == 1 ? take_mark(held) : r;
	(void)fcntl(socket, F_SETFL, O_NONBLOCK); /* a socket can */
	(void)fcntl(socket, F_SETFD, FD_CLOEXEC); /* is a descriptor */
	held->mirrored = r == 0;
	held->mirror = socket;
	if (r == -ESTALE) /* or the launcher would start one after the other */
		(void)fd_store_send(socket, FD_STORE_END, 0, NULL, -1);
	if (r < 0) {
		fd_close(socket);
		fd_store_server_done(held);
	}
	return r;
}

void fd_store_server_unmirror(struct fd_store_server *held)
{
	if (held->mirrored) {
		(void)!pwrite(held->mark, MARK_LEFT, 1, 0); /* memory */
		fd_close(held->mark);
		fd_close(held->mirror);
	}
	held->mirrored = false;
}

/* Have the mirror forget all, and wait until it has. */
static void end_mirror(struct fd_store_server *held)
{
	struct pollfd mirror = {.fd = held->mirror, .events = POLLIN};

	mirror_send(held, FD_STORE_END, 0, -1);
	if (held->mirrored)
		(void)poll(&mirror, 1, MIRROR_END_MS); /* it hangs up */
	fd_store_server_unmirror(held);
}

void fd_store_server_done(struct fd_store_server *held)
{
	while (held->count)
		fd_close(held->items[--held->count].fd);
	free(held->items);
	end_mirror(held);
	*held = (struct fd_store_server){0};
}
