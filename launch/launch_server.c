/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "launch/launch_handle.h"
#include "launch/launch_proto.h"
#include "launch/launch_socket.h"

#define FDS_MAX         2 /* a request has: its log, and one passed on */
#define ACCEPT_PAUSE_MS 100

struct peer {
	int fd; /* -1: this place is free */
	int64_t deadline_ms;
};

struct server {
	struct launch_handler handler;
	struct launch_socket socket;
	int signal_fd;
	bool paused; /* no descriptor was left for the next peer */
	struct log_limit refusals;
	struct peer peers[LAUNCH_PEERS];
	char request[LAUNCH_REQUEST_MAX];
};

/* ---- requests ---- */

/* Returns how many. */
static size_t take_fds(struct msghdr *message, int *ret)
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
	     c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret, CMSG_DATA(c), n * sizeof(int));
	}
	return n;
}

static void launch_answer(struct server *s, int fd, struct launch_reply *reply,
			  int r, const struct error *err)
{
	char wire[LAUNCH_REPLY_MAX];
	unsigned suppressed;
	size_t length;

	if (r < 0) {
		reply->code = -r;
		(void)snprintf(reply->text, sizeof(reply->text), "%s",
			       error_text(err));
		if (log_limit_allow(&s->refusals, &suppressed))
			log_warning("refused a request: %s", reply->text);
	}
	length = launch_reply_encode(reply, wire);
	/* The answer fits the buffer; a closed peer needs none, nor one that
	 * has descriptors stored: its @fd is -1. */
	(void)send(fd, wire, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void launch_receive(struct server *s, struct peer *peer)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = {.iov_base = s->request,
			     .iov_len = sizeof(s->request)};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct launch_reply reply = {0};
	struct error err = {0};
	int fds[FDS_MAX], r;
	size_t n_fds;
	ssize_t n = recvmsg(peer->fd, &message,
			    MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		n_fds = take_fds(&message, fds);
		if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			r = error_set(&err, EMSGSIZE, "too large a request");
		else
			r = launch_handle(&s->handler, &peer->fd, s->request,
					  (size_t)n, fds, n_fds, &reply, &err);
		while (n_fds > 0)
			fd_close(fds[--n_fds]);
		launch_answer(s, peer->fd, &reply, r, &err);
	}
	fd_close(take_fd(&peer->fd));
}

/* ---- the loop ---- */

static struct peer *free_place(struct server *s)
{
	for (size_t i = 0; i < LAUNCH_PEERS; i++) {
		if (s->peers[i].fd < 0)
			return &s->peers[i];
	}
	return NULL;
}

static void take_peer(struct server *s)
{
	struct peer *peer = free_place(s);

	assert(peer); /* or we had not listened */
	/* cppcheck-suppress nullPointer; nobody asks for the address */
	peer->fd = accept4(s->socket.fd, NULL, NULL,
			   SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (peer->fd < 0)
		s->paused = errno == EMFILE || errno == ENFILE ||
			    errno == ENOMEM || errno == ENOBUFS;
	peer->deadline_ms = clock_ms() + LAUNCH_PEER_MS;
}

/* Until the next deadline; -1: there is none. */
static int drop_late(struct server *s)
{
	int64_t now = clock_ms(), next = INT64_MAX;

	for (size_t i = 0; i < LAUNCH_PEERS; i++) {
		struct peer *peer = &s->peers[i];

		if (peer->fd >= 0 && peer->deadline_ms <= now)
			fd_close(take_fd(&peer->fd));
		if (peer->fd >= 0 && peer->deadline_ms < next)
			next = peer->deadline_ms;
	}
	if (s->paused && next > now + ACCEPT_PAUSE_MS)
		next = now + ACCEPT_PAUSE_MS;
	return next == INT64_MAX ? -1 : (int)(next - now);
}

static void launch_reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (WIFEXITED(status))
			log_info("process %d ended with %d", (int)pid,
				 WEXITSTATUS(status));
		else
			log_warning("process %d was ended by signal %d",
				    (int)pid, WTERMSIG(status));
	}
}

/* Returns the signal that ends the server, or 0. */
static int take_signals(struct server *s)
{
	struct signalfd_siginfo info;
	int stop = 0;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			stop = (int)info.ssi_signo;
	}
	launch_reap();
	return stop;
}

/* The descriptors that the server waits for. */
struct waited {
	struct pollfd *fds; /* owned */
	size_t count;
};

#define WAITED_STORED (LAUNCH_PEERS + 2) /* the first that is stored */

/* False: for want of memory. */
static bool fill_waited(struct server *s, struct waited *w)
{
	size_t count = WAITED_STORED + s->handler.store.count;
	struct pollfd *fds = reallocarray(w->fds, count, sizeof(*fds));

	if (!fds)
		return false;
	w->fds = fds;
	w->count = count;
	fds[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
	fds[1] = (struct pollfd){
		.fd = free_place(s) && !s->paused ? s->socket.fd : -1,
		.events = POLLIN};
	for (size_t i = 0; i < LAUNCH_PEERS; i++)
		fds[i + 2] = (struct pollfd){.fd = s->peers[i].fd,
					     .events = POLLIN};
	launch_store_poll(&s->handler.store, fds + WAITED_STORED);
	return true;
}

/* Tell how long to wait at most; ms, -1: until something comes. */
static int wait_ms(struct server *s)
{
	int late = drop_late(s),
	    store = launch_store_wait_ms(&s->handler.store);

	return late < 0 || (store >= 0 && store < late) ? store : late;
}

static void launch_serve_client(struct server *s)
{
	struct waited w = {0};
	int timeout_ms, stop = 0;

	while (!stop) {
		timeout_ms = wait_ms(s);
		if (!fill_waited(s, &w)) {
			(void)poll(NULL, 0, ACCEPT_PAUSE_MS);
			continue;
		}
		s->paused = false;
		if (poll(w.fds, w.count, timeout_ms) < 0)
			continue;
		if (w.fds[0].revents)
			stop = take_signals(s);
		if (stop)
			break;
		/* Before peers: those may add to what is stored. */
		launch_store_look(&s->handler.store, w.fds + WAITED_STORED);
		for (size_t i = 0; i < LAUNCH_PEERS; i++) {
			if (w.fds[i + 2].revents)
				launch_receive(s, &s->peers[i]);
		}
		if (w.fds[1].revents)
			take_peer(s);
	}
	log_info("%s: stopping; the started processes live on",
		 strsignal(stop));
	free(w.fds);
}

static int signals_open(struct error *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	(void)signal(SIGHUP, SIG_IGN);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* the set is good */
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd
		       : error_set(err, errno, "signalfd: %s", strerror(errno));
}

int launch_serve(const struct launch_config *config, struct error *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	launch_handler_init(&s->handler, config);
	for (size_t i = 0; i < LAUNCH_PEERS; i++)
		s->peers[i].fd = -1;
	s->signal_fd = signals_open(err);
	r = s->signal_fd < 0
		    ? s->signal_fd
		    : launch_socket_open(config->socket, &s->socket, err);
	if (r == 0) {
		if (config->ready)
			config->ready();
		launch_serve_client(s);
		launch_socket_close(&s->socket);
	}
	for (size_t i = 0; i < LAUNCH_PEERS; i++)
		fd_close(s->peers[i].fd);
	launch_store_done(&s->handler.store);
	fd_close(s->signal_fd);
	free(s);
	return r;
}
