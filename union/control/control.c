/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control/control.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/control/control_command.h"
#include "union/state/stuck_server.h"

#define BACKLOG         64
#define ACCEPT_PAUSE_MS 100
#define ENDING_LOOK_US  10000

struct peer {
	int fd;              /* -1: this place is free */
	int64_t deadline_ms; /* CLOCK_MONOTONIC */
	size_t received;
	char *reply; /* owned; NULL: the request is not whole yet */
	size_t reply_length, sent;
	char request[CONTROL_REQUEST_MAX];
};

struct control {
	struct control_target target;
	char *path;
	dev_t device; /* of the socket file */
	ino_t inode;
	int listen_fd, stop_fd;
	bool started;
	pthread_t thread;
	struct peer peers[CONTROL_PEERS];
};

static void drop_peer(struct peer *peer)
{
	fd_close(take_fd(&peer->fd));
	free(peer->reply);
	peer->reply = NULL;
	peer->received = peer->reply_length = peer->sent = 0;
}

/* Make the reply to all that the peer has sent; NULL: ENOMEM. */
static char *answer_command(struct control *control, const char *data,
			    size_t length)
{
	struct control_request request;
	struct error err = {0};
	char *reply;

	if (control_request_decode(data, length, &request, &err) < 0)
		return control_reply_error(error_text(&err));
	reply = control_command_do(&control->target, &request);
	control_request_done(&request);
	return reply;
}

/* Send the next piece of the reply; the peer goes with the last. */
static void send_reply(struct peer *peer)
{
	ssize_t n = send(peer->fd, peer->reply + peer->sent,
			 peer->reply_length - peer->sent, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n >= 0)
		peer->sent += (size_t)n;
	if (n < 0 || peer->sent == peer->reply_length)
		drop_peer(peer);
}

/*
 * Give the other peers more time, as they waited for a request that took its
 * time.
 */
static void give_time(struct control *control, int64_t since_ms)
{
	int64_t took = clock_ms() - since_ms;
	size_t i;

	for (i = 0; i < CONTROL_PEERS; i++)
		control->peers[i].deadline_ms += took;
}

static void receive(struct control *control, struct peer *peer)
{
	int64_t start = clock_ms();
	ssize_t n = recv(peer->fd, peer->request + peer->received,
			 sizeof(peer->request) - peer->received, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 || (!n && !peer->received)) {
		drop_peer(peer);
		return;
	}
	peer->received += (size_t)n;
	if (n && !control_request_is_whole(peer->request, peer->received))
		return;
	peer->reply = answer_command(control, peer->request, peer->received);
	give_time(control, start);
	if (!peer->reply) {
		drop_peer(peer);
		return;
	}
	peer->reply_length = strlen(peer->reply);
	peer->deadline_ms = clock_ms() + CONTROL_PEER_MS;
	send_reply(peer);
}

static struct peer *free_peer(struct control *control)
{
	size_t i;

	for (i = 0; i < CONTROL_PEERS; i++)
		if (control->peers[i].fd < 0)
			return &control->peers[i];
	return NULL;
}

static void accept_peer(struct control *control)
{
	struct peer *peer = free_peer(control);

	if (!peer)
		return;
	/* cppcheck-suppress nullPointer; nobody asks for the address */
	peer->fd = accept4(control->listen_fd, NULL, NULL,
			   SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (peer->fd < 0 && errno != EAGAIN && errno != ECONNABORTED)
		(void)poll(NULL, 0, ACCEPT_PAUSE_MS); /* no memory and such */
	peer->deadline_ms = clock_ms() + CONTROL_PEER_MS;
}

/*
 * Set what poll() waits for: fds[0] the end, fds[1] new peers, then the peers
 * in their places. Returns for how long, -1 for ever.
 */
static int prepare_poll(struct control *control, struct pollfd *fds)
{
	int64_t left, wait = -1, now = clock_ms();
	struct peer *peer;
	size_t i;

	fds[0] = (struct pollfd){.fd = control->stop_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
	for (i = 0; i < CONTROL_PEERS; i++) {
		peer = &control->peers[i];
		if (peer->fd >= 0 && now >= peer->deadline_ms)
			drop_peer(peer);
		fds[2 + i] = (struct pollfd){
			.fd = peer->fd,
			.events = peer->reply ? POLLOUT : POLLIN,
		};
		if (peer->fd < 0) {
			fds[1].fd = control->listen_fd;
			continue;
		}
		left = peer->deadline_ms - now;
		if (wait < 0 || left < wait)
			wait = left;
	}
	return (int)wait;
}

static void *control_main(void *context)
{
	struct control *control = context;
	struct pollfd fds[2 + CONTROL_PEERS];
	size_t i;

	for (;;) {
		/* poll() fails by a signal or for want of memory only. */
		if (poll(fds, 2 + CONTROL_PEERS, prepare_poll(control, fds)) <
		    0)
			continue;
		if (fds[0].revents)
			return NULL;
		for (i = 0; i < CONTROL_PEERS; i++) {
			if (!fds[2 + i].revents)
				continue;
			if (control->peers[i].reply)
				send_reply(&control->peers[i]);
			else
				receive(control, &control->peers[i]);
		}
		if (fds[1].revents)
			accept_peer(control);
	}
}

/*
 * Tell what keeps bind() from @address. -ECONNREFUSED: a socket that nobody
 * listens on, or whose server was killed and will not listen any more. 0: a
 * socket that is served. Else an error.
 */
static int ask_listener(const struct sockaddr_un *address)
{
	auto_close int fd = socket(
		AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
	    connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		return errno == EAGAIN ? 0 : -errno; /* the queue of the socket
						      * is full */
	return stuck_server_is_peer(fd) ? -ECONNREFUSED : 0;
}

/* Free @address: 0; -EADDRINUSE: that is not ours to do. */
static int make_room_for_socket(const struct sockaddr_un *address)
{
	struct stat st;

	if (lstat(address->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	switch (ask_listener(address)) {
	case 0:
		(void)usleep(ENDING_LOOK_US); /* else bind() is tried sooner */
		return 0;
	case -ENOENT: /* the socket went just now */ return 0;
	case -ECONNREFUSED:
		return unlink(address->sun_path) < 0 && errno != ENOENT ? -errno
									: 0;
	default: return -EADDRINUSE;
	}
}

static int bind_to(int fd, const struct sockaddr_un *address)
{
	return bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0
		       ? -errno
		       : 0;
}

static int bind_path(int fd, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	int64_t until = clock_ms() + CONTROL_ENDING_MS;
	int r;

	if (!length || length >= sizeof(address.sun_path))
		return length ? -ENAMETOOLONG : -EINVAL;
	memcpy(address.sun_path, path, length);
	/* The mode that the socket file gets, from its first moment on. */
	if (fchmod(fd, 0600) < 0)
		return -errno;
	while ((r = bind_to(fd, &address)) == -EADDRINUSE &&
	       clock_ms() < until) {
		r = make_room_for_socket(&address);
		if (r < 0)
			return r;
	}
	return r;
}

static int open_socket(struct control *control)
{
	struct stat st;
	int r;

	control->listen_fd = socket(
		AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	control->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (control->listen_fd < 0 || control->stop_fd < 0)
		return -errno;
	r = bind_path(control->listen_fd, control->path);
	if (r < 0)
		return r;
	if (listen(control->listen_fd, BACKLOG) < 0 ||
	    lstat(control->path, &st) < 0)
		return -errno;
	control->device = st.st_dev;
	control->inode = st.st_ino;
	return 0;
}

int control_open(const char *path, struct control **ret, struct error *err)
{
	struct control *control = calloc(1, sizeof(*control));
	size_t i;
	int r;

	if (!control)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	control->listen_fd = control->stop_fd = -1;
	for (i = 0; i < CONTROL_PEERS; i++)
		control->peers[i].fd = -1;
	control->path = strdup(path);
	r = control->path ? open_socket(control) : -errno;
	if (r < 0) {
		control_close(control);
		return error_set(err, -r, "control socket '%s': %s%s", path,
				 strerror(-r),
				 r == -EADDRINUSE
					 ? "; another union is served there, "
					   "or it is no socket"
					 : "");
	}
	*ret = control;
	return 0;
}

int control_start(struct control *control, struct unionfs *fs,
		  struct drains *drains, const char *mountpoint)
{
	int r;

	control->target = (struct control_target){fs, drains, mountpoint};
	r = pthread_create(&control->thread, NULL, control_main, control);
	control->started = r == 0;
	return -r;
}

static void remove_socket(const struct control *control)
{
	struct stat st;

	if (control->inode && lstat(control->path, &st) == 0 &&
	    st.st_dev == control->device && st.st_ino == control->inode)
		(void)unlink(control->path); /* then it is left over */
}

void control_close(struct control *control)
{
	size_t i;

	if (!control)
		return;
	remove_socket(control);
	if (control->started) {
		(void)eventfd_write(control->stop_fd, 1);  /* cannot be full */
		(void)pthread_join(control->thread, NULL); /* is ours */
	}
	for (i = 0; i < CONTROL_PEERS; i++)
		drop_peer(&control->peers[i]);
	fd_close(control->listen_fd);
	fd_close(control->stop_fd);
	free(control->path);
	free(control);
}
