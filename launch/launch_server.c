/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_server.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
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
#include "base/file.h"
#include "base/kernel/oom.h"
#include "base/log.h"
#include "launch/launch_proto.h"
#include "launch/launch_socket.h"

#define FDS_MAX         2 /* a request has: its log, and one passed on */
#define ACCEPT_PAUSE_MS 100

struct peer {
	int fd; /* -1: this place is free */
	int64_t deadline_ms;
};

struct server {
	const struct launch_config *config;
	struct launch_socket socket;
	int signal_fd;
	bool paused; /* no descriptor was left for the next peer */
	struct log_limit refusals;
	struct peer peers[LAUNCH_PEERS];
	char request[LAUNCH_REQUEST_MAX];
};

/* ---- what may be started ---- */

static bool launch_program_known(const char *name)
{
	return strcmp(name, "trib-union") == 0 || strcmp(name, "trib-nbd") == 0;
}

static int start_program(struct server *s, const struct launch_request *request,
			 const int *fds, struct launch_reply *reply,
			 struct error *err)
{
	int log = request->flags & LAUNCH_HAS_LOG ? fds[0] : -1;
	int pass = request->flags & LAUNCH_HAS_PASS ? fds[log >= 0] : -1, r;
	char path[PATH_MAX];

	if (!launch_program_known(request->argv[0]))
		return error_set(err, EPERM,
				 "it starts trib-union and trib-nbd only");
	if (snprintf(path, sizeof(path), "%s/%s", s->config->bin_dir,
		     request->argv[0]) >= (int)sizeof(path))
		return error_set(err, ENAMETOOLONG, "its path is too long");
	request->argv[0] = path;
	r = oom_start(s->config->oom_score, request->argv, log, pass,
		      &reply->pid, err);
	if (r == 0)
		log_info("started %s: process %d, for process %d",
			 strrchr(path, '/') + 1, (int)reply->pid,
			 (int)request->pid);
	return r;
}

/* ---- who asks ---- */

static int check_peer(struct server *s, int fd, pid_t *ret_pid,
		      struct error *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return error_set(err, errno, "SO_PEERCRED: %s",
				 strerror(errno));
	if (peer.uid != s->config->uid)
		return error_set(err, EACCES, "user %u may not ask", peer.uid);
	*ret_pid = peer.pid;
	return 0;
}

/* The pid in our answer has to mean the same process to the peer. */
static int check_namespace(pid_t seen, pid_t said, struct error *err)
{
	if (seen == said)
		return 0;
	return error_set(
		err, EPERM,
		"process %d is in another PID namespace than the launcher "
		"and would not find the processes it starts",
		(int)said);
}

static int launch_handle(struct server *s, int fd, size_t length,
			 const int *fds, size_t n_fds,
			 struct launch_reply *reply, struct error *err)
{
	struct launch_request request;
	size_t wanted;
	pid_t pid = 0;
	int r = check_peer(s, fd, &pid, err);

	if (r == 0)
		r = launch_request_decode(s->request, length, &request, err);
	if (r < 0)
		return r;
	wanted = !!(request.flags & LAUNCH_HAS_LOG) +
		 !!(request.flags & LAUNCH_HAS_PASS);
	r = check_namespace(pid, request.pid, err);
	if (r == 0 && n_fds != wanted)
		r = error_set(err, EPROTO, "%zu descriptors came, not %zu",
			      n_fds, wanted);
	if (r == 0)
		r = start_program(s, &request, fds, reply, err);
	launch_request_done(&request);
	return r;
}

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
	/* The answer fits the buffer; a closed peer needs none. */
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
			r = launch_handle(s, peer->fd, (size_t)n, fds, n_fds,
					  &reply, &err);
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

static void launch_serve_client(struct server *s)
{
	struct pollfd fds[LAUNCH_PEERS + 2];

	for (;;) {
		int timeout_ms = drop_late(s), stop = 0;

		fds[0] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
		fds[1] = (struct pollfd){
			.fd = free_place(s) && !s->paused ? s->socket.fd : -1,
			.events = POLLIN};
		for (size_t i = 0; i < LAUNCH_PEERS; i++)
			fds[i + 2] = (struct pollfd){.fd = s->peers[i].fd,
						     .events = POLLIN};
		s->paused = false;
		if (poll(fds, array_size(fds), timeout_ms) <= 0)
			continue;
		if (fds[0].revents)
			stop = take_signals(s);
		if (stop) {
			log_info("%s: stopping; the started processes live on",
				 strsignal(stop));
			return;
		}
		for (size_t i = 0; i < LAUNCH_PEERS; i++) {
			if (fds[i + 2].revents)
				launch_receive(s, &s->peers[i]);
		}
		if (fds[1].revents)
			take_peer(s);
	}
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
	s->config = config;
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
	fd_close(s->signal_fd);
	free(s);
	return r;
}
