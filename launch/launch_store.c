/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "launch/fd_store_message.h"
#include "launch/fd_store_server.h"

#define FIRST_SIZE   16
#define MESSAGES_MAX 256 /* at once, of one process */

struct launch_stored {
	void *request; /* owned; @length bytes, launch_request_encode() */
	size_t length;
	struct fd_store_server held;
	int log;    /* owned */
	int socket; /* owned; -1: it has closed it */
	int pidfd;  /* owned; -1: it has ended */
	pid_t pid;
	bool complete; /* all was sent; before that nobody can go on */
	bool ready;    /* the process said so */
	bool over;     /* to be forgotten */
	unsigned tries;
	int64_t started_ms;
	int64_t next_ms; /* 0: none; when the next one is to be started */
};

static void stored_free(struct launch_stored *item)
{
	if (!item)
		return;
	fd_store_server_done(&item->held);
	fd_close(item->log);
	fd_close(item->socket); /* last: now all is closed, for who waits */
	fd_close(item->pidfd);
	free(item->request);
	free(item);
}

static int make_room(struct launch_store *store)
{
	size_t size = store->size ? store->size * 2 : FIRST_SIZE;
	struct launch_stored **bigger;

	if (store->count < store->size)
		return 0;
	bigger = reallocarray(store->items, size,
			      sizeof(struct launch_stored *));
	if (!bigger)
		return -ENOMEM;
	store->items = bigger;
	store->size = size;
	return 0;
}

/* Forget what the same process had stored before. */
static void forget_earlier(struct launch_store *store, pid_t pid)
{
	size_t i;

	for (i = 0; i < store->count; i++)
		if (store->items[i]->pid == pid && store->items[i]->pidfd >= 0)
			store->items[i]->over = true;
}

int launch_store_add(struct launch_store *store,
		     const struct launch_request *request, pid_t pid,
		     int log_fd, int socket, struct error *err)
{
	struct launch_stored *item = calloc(1, sizeof(*item));
	int r;

	if (!item || make_room(store) < 0) {
		fd_close(log_fd);
		fd_close(socket);
		free(item);
		return error_set(err, ENOMEM, "out of memory");
	}
	item->log = log_fd;
	item->socket = socket;
	item->pid = pid;
	item->started_ms = clock_ms();
	item->pidfd = pidfd_open(pid, 0); /* it may have ended */
	r = launch_request_encode(request, &item->request, &item->length, err);
	if (r < 0) {
		stored_free(item);
		return r;
	}
	forget_earlier(store, pid);
	store->items[store->count++] = item;
	return 0;
}

/* ---- messages ---- */

static void take_message(struct launch_stored *item,
			 const struct fd_store_message *message, int fd)
{
	switch (message->op) {
	case FD_STORE_ADD:
		if (fd >= 0 && fd_store_server_add(&item->held, message->token,
						   take_fd(&fd)) == 0)
			return;
		log_warning("process %d: a descriptor could not be stored; its "
			    "file is lost if the process is killed",
			    (int)item->pid);
		break;
	case FD_STORE_DROP:
		fd_store_server_drop(&item->held, message->token);
		break;
	case FD_STORE_READY: item->complete = item->ready = true; break;
	case FD_STORE_END: item->over = true; break;
	default: break;
	}
	fd_close(fd);
}

/* Read the messages that are there. */
static void read_messages(struct launch_stored *item)
{
	struct pollfd socket = {.fd = item->socket, .events = POLLIN};
	struct fd_store_message message;
	int i, fd, r = 1;

	for (i = 0; i < MESSAGES_MAX && r == 1 && !item->over &&
		    poll(&socket, 1, 0) > 0;
	     i++) {
		r = fd_store_receive(item->socket, &message, &fd);
		if (r == 1)
			take_message(item, &message, fd);
		else
			fd_close(fd);
	}
	if (r != 1)
		fd_close(take_fd(&item->socket));
}

/* ---- the next process ---- */

/* Begin a row of tries again, if this process has lived. Give up, or wait. */
static void plan_next(struct launch_stored *item)
{
	int64_t now = clock_ms();

	if (item->ready)
		item->tries = 0;
	if (item->tries == LAUNCH_STORED_TRIES) {
		log_error(0,
			  "process %d has ended, as those before it: "
			  "nobody goes on with what it had stored",
			  (int)item->pid);
		item->over = true;
		return;
	}
	item->next_ms = now;
	if (!item->ready)
		item->next_ms += LAUNCH_STORED_PAUSE_MS << item->tries++;
	else if (now - item->started_ms < LAUNCH_STORED_LIVED_MS)
		item->next_ms += LAUNCH_STORED_PAUSE_MS;
	item->ready = false;
}

/* Give the next process what is stored. 0 or -errno. */
static int give_all(struct launch_stored *item, int socket, struct error *err)
{
	int r;

	fd_store_server_make_room(&item->held, socket);
	/* No process may hold up all others. */
	if (fcntl(socket, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, errno, "fcntl: %s", strerror(errno));
	r = fd_store_server_send_all(&item->held, socket);
	return r < 0 ? error_set(err, -r, "give it what is stored: %s",
				 strerror(-r))
		     : 0;
}

static int start_next(struct launch_store *store, struct launch_stored *item,
		      struct error *err)
{
	auto_close int ours = -1, its = -1;
	struct launch_request request;
	int pair[2], r;
	pid_t pid = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "socketpair: %s", strerror(errno));
	ours = pair[0];
	its = pair[1];
	r = give_all(item, ours, err);
	if (r == 0)
		r = launch_request_decode(item->request, item->length, &request,
					  err);
	if (r < 0)
		return r;
	r = store->start(store->context, &request, item->log, its, &pid, err);
	launch_request_done(&request);
	if (r < 0)
		return r;
	log_warning("process %d was killed: process %d goes on for it",
		    (int)item->pid, (int)pid);
	item->pid = pid;
	item->pidfd = pidfd_open(pid, 0); /* a child, not reaped so far */
	item->socket = take_fd(&ours);
	item->started_ms = clock_ms();
	return 0;
}

static void try_next(struct launch_store *store, struct launch_stored *item)
{
	struct error err = {0};

	item->next_ms = 0;
	item->started_ms = clock_ms();
	if (start_next(store, item, &err) == 0)
		return;
	log_warning("go on for process %d: %s", (int)item->pid,
		    error_text(&err));
	plan_next(item);
}

/* ---- looking ---- */

void launch_store_poll(const struct launch_store *store, struct pollfd *ret)
{
	const struct launch_stored *item;
	size_t i;

	for (i = 0; i < store->count; i++) {
		item = store->items[i];
		ret[i] = (struct pollfd){.fd = item->socket >= 0 ? item->socket
								 : item->pidfd,
					 .events = POLLIN};
	}
}

int launch_store_wait_ms(const struct launch_store *store)
{
	int64_t now = clock_ms(), first = INT64_MAX;
	size_t i;

	for (i = 0; i < store->count; i++)
		if (store->items[i]->next_ms &&
		    store->items[i]->next_ms < first)
			first = store->items[i]->next_ms;
	return first == INT64_MAX ? -1 : first > now ? (int)(first - now) : 0;
}

static void look(struct launch_store *store, struct launch_stored *item,
		 bool has_come)
{
	if (has_come && item->socket >= 0)
		read_messages(item);
	else if (has_come)
		fd_close(take_fd(&item->pidfd));
	if (item->socket < 0 && !item->complete)
		item->over = true; /* nobody can go on with a part */
	else if (item->socket < 0 && item->pidfd < 0 && !item->next_ms)
		plan_next(item);
	if (!item->over && item->next_ms && item->next_ms <= clock_ms())
		try_next(store, item);
}

void launch_store_look(struct launch_store *store, const struct pollfd *fds)
{
	size_t i, kept = 0, count = store->count;

	for (i = 0; i < count; i++)
		if (!store->items[i]->over)
			look(store, store->items[i], fds[i].revents);
	for (i = 0; i < count; i++) {
		if (store->items[i]->over)
			stored_free(store->items[i]);
		else
			store->items[kept++] = store->items[i];
	}
	store->count = kept;
}

void launch_store_done(struct launch_store *store)
{
	while (store->count)
		stored_free(store->items[--store->count]);
	free(store->items);
	store->items = NULL;
	store->size = 0;
}
