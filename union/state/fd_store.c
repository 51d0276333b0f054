/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

struct kept {
	uint64_t token;
	int fd; /* -1: taken */
};

static struct {
	int socket;
	struct kept *items;
	size_t count, size;
} keep = {.socket = -1};

static int add_stored(uint64_t token, int fd)
{
	size_t size = keep.size ? keep.size * 2 : 16;
	struct kept *bigger;

	if (keep.count == keep.size) {
		bigger = reallocarray(keep.items, size, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		keep.items = bigger;
		keep.size = size;
	}
	keep.items[keep.count++] = (struct kept){token, fd};
	return 0;
}

int fd_store_start(int socket)
{
	struct fd_store_message message;
	int fd, r;

	keep.socket = socket;
	if (socket < 0)
		return 0;
	(void)fcntl(socket, F_SETFD, FD_CLOEXEC); /* is a descriptor */
	do {
		r = fd_store_receive(socket, &message, &fd);
		if (r == 1 && message.op == FD_STORE_ADD && fd >= 0)
			r = add_stored(message.token, fd) < 0 ? -ENOMEM : 1;
		else
			fd_close(fd);
	} while (r == 1 && message.op != FD_STORE_END);
	return r == 0 ? -EPIPE : r < 0 ? r : 0;
}

bool fd_store_is_on(void)
{
	return keep.socket >= 0;
}

static int by_token(const void *a, const void *b)
{
	uint64_t one = ((const struct kept *)a)->token;
	uint64_t two = ((const struct kept *)b)->token;

	return one < two ? -1 : one > two;
}

int fd_store_take(uint64_t token)
{
	const struct kept key = {.token = token};
	static size_t sorted; /* only the main thread takes */
	struct kept *found;

	if (sorted != keep.count && keep.count) {
		qsort(keep.items, keep.count, sizeof(key), by_token);
		sorted = keep.count;
	}
	found = keep.count ? bsearch(&key, keep.items, keep.count, sizeof(key),
				     by_token)
			   : NULL;
	return found ? take_fd(&found->fd) : -1;
}

int fd_store_take_any(uint64_t *ret_token)
{
	while (keep.count && keep.items[keep.count - 1].fd < 0)
		keep.count--;
	if (!keep.count) {
		free(take_ptr(keep.items));
		keep.size = 0;
		return -1;
	}
	*ret_token = keep.items[keep.count - 1].token;
	return take_fd(&keep.items[keep.count - 1].fd);
}

/* Send a message; without a supervisor the union goes on, as others do. */
static void send_it(enum fd_store_op op, uint64_t token, const char *text,
		    int fd)
{
	static atomic_bool said;

	if (keep.socket >= 0 &&
	    fd_store_send(keep.socket, op, token, text, fd) < 0 &&
	    !atomic_exchange(&said, true))
		log_warning(
			"the supervisor is gone: the union ends with this server");
}

void fd_store_fd(uint64_t token, int fd)
{
	send_it(FD_STORE_ADD, token, NULL, fd);
}

void fd_store_drop(uint64_t token)
{
	send_it(FD_STORE_DROP, token, NULL, -1);
}

void fd_store_death_pipe(int fd)
{
	send_it(FD_STORE_DEATH_PIPE, 0, NULL, fd);
}

void fd_store_say_mounts(void)
{
	send_it(FD_STORE_MOUNTS, 0, NULL, -1);
}

void fd_store_say_ready(void)
{
	send_it(FD_STORE_READY, 0, NULL, -1);
}

void fd_store_say_failed(const struct error *err)
{
	send_it(FD_STORE_FAILED, (uint64_t)err->code, error_text(err), -1);
}

/* Wait for a refusal. 1: it came; 0: the other side is gone; or -errno. */
static int wait_refusal(uint64_t token, int timeout_ms,
			struct fd_store_message *ret)
{
	struct pollfd socket = {.fd = keep.socket, .events = POLLIN};
	int64_t end = clock_ms() + timeout_ms, left;
	int fd, r = 1;

	do {
		left = end - clock_ms();
		if (poll(&socket, 1, left > 0 ? (int)left : 0) <= 0) {
			if (left <= 0)
				return -ETIMEDOUT;
			continue;
		}
		r = fd_store_receive(keep.socket, ret, &fd);
		fd_close(fd);
		/*
		 * A refusal with another token is for a call that waits no
		 * more.
		 */
	} while (r == 1 &&
		 (ret->op != FD_STORE_REFUSED || ret->token != token));
	return r;
}

int fd_store_ask_replace(int timeout_ms, struct error *err)
{
	static uint64_t token;
	struct fd_store_message message = {0};
	int r;

	if (!fd_store_is_on())
		return error_set(err, EOPNOTSUPP,
				 "this union ends with its server, so no other "
				 "can take over (survive=no)");
	r = fd_store_send(keep.socket, FD_STORE_REPLACE, ++token, NULL, -1);
	if (r == 0)
		r = wait_refusal(token, timeout_ms, &message);
	if (r == 1)
		return error_set(err, EREMOTEIO, "%s", message.text);
	if (r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "the process that would start another server "
				 "does not answer");
	return error_set(err, ENOTCONN, "the supervisor is gone");
}
