/* SPDX-License-Identifier: Apache-2.0 */
#include "target/net/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/unix_served.h"

#define BACKLOG  512 /* connections the kernel may hold for us */
#define PAUSE_MS 100 /* before accepting again after an error */

/* ---- addresses ---- */

/* getaddrinfo() takes 99999 and cuts it. */
static bool port_ok(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits >= 1 && digits <= 5 && text[digits] == '\0' &&
	       strtoul(text, NULL, 10) <= UINT16_MAX;
}

/* "HOST:PORT" or "[HOST]:PORT" into two strings, in @host. */
static int host_split(const char *address, char *host, size_t size,
		      const char **ret_port, struct error *err)
{
	const char *colon = strrchr(address, ':');
	size_t length = colon ? (size_t)(colon - address) : 0;

	if (!colon || length >= size || !port_ok(colon + 1))
		return error_set(err, EINVAL, "'tcp:%s' is not tcp:HOST:PORT",
				 address);
	if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
		address++;
		length -= 2;
	}
	memcpy(host, address, length);
	host[length] = '\0';
	*ret_port = colon + 1;
	return 0;
}

static int port_of(int fd, int *ret_port)
{
	struct sockaddr_storage bound = {0};
	socklen_t length = sizeof(bound);
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (getsockname(fd, (struct sockaddr *)&bound, &length) < 0)
		return -errno;
	if (bound.ss_family == AF_INET6) {
		memcpy(&in6, &bound, sizeof(in6));
		*ret_port = ntohs(in6.sin6_port);
	} else {
		memcpy(&in, &bound, sizeof(in));
		*ret_port = ntohs(in.sin_port);
	}
	return 0;
}

static int tcp_bind(const struct addrinfo *info, int *ret_fd)
{
	auto_close int fd = socket(info->ai_family,
				   info->ai_socktype | SOCK_CLOEXEC,
				   info->ai_protocol);
	int one = 1, off = 0;

	if (fd < 0)
		return -errno;
	/* Best effort: a restart need not wait for old connections. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (info->ai_family == AF_INET6) /* best effort: IPv4 as well */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off,
				 sizeof(off));
	if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int tcp_open(const char *address, int *ret_fd, int *ret_port,
		    struct error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *info = NULL;
	auto_close int fd = -1;
	const char *port = NULL;
	char host[256];
	int bound = 0, r = host_split(address, host, sizeof(host), &port, err);

	if (r < 0)
		return r;
	r = getaddrinfo(host[0] ? host : NULL, port, &hints, &info);
	if (r != 0)
		return error_set(err, EINVAL, "listen at 'tcp:%s': %s", address,
				 gai_strerror(r));
	r = tcp_bind(info, &fd);
	freeaddrinfo(info);
	if (r == 0)
		r = port_of(fd, &bound);
	if (r < 0)
		return error_set(err, -r, "listen at 'tcp:%s': %s", address,
				 strerror(-r));
	if (ret_port)
		*ret_port = bound;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* A socket nobody listens on any more goes; anything else stays. */
static int stale_remove(const char *path, const struct sockaddr_un *address,
			struct error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0; /* bind() says what is wrong, if anything is */
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, EADDRINUSE,
				 "listen at 'unix:%s': it is there and no "
				 "socket",
				 path);
	if (unix_served(address, SOCK_STREAM) != 0)
		return error_set(err, EADDRINUSE,
				 "listen at 'unix:%s': another server listens "
				 "there",
				 path);
	if (unlink(path) < 0)
		return error_set(err, errno, "remove '%s': %s", path,
				 strerror(errno));
	return 0;
}

static int unix_open(const char *path, int *ret_fd, char **ret_path,
		     struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int fd = -1;
	int r;

	if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
		return error_set(err, EINVAL,
				 "'unix:%s': the path must be absolute and "
				 "shorter than %zu bytes",
				 path, sizeof(address.sun_path));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	r = stale_remove(path, &address, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The mode before bind() is the name's: no moment of it is open. */
	if (fd < 0 || fchmod(fd, 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return error_set(err, errno, "listen at 'unix:%s': %s", path,
				 strerror(errno));
	*ret_path = strdup(path);
	if (!*ret_path)
		return error_set(err, ENOMEM, "no memory for a listener");
	*ret_fd = take_fd(&fd);
	return 0;
}

int listener_open(const char *address, int *ret_fd, int *ret_port,
		  char **ret_path, struct error *err)
{
	if (strncmp(address, "tcp:", 4) == 0) {
		*ret_path = NULL;
		return tcp_open(address + 4, ret_fd, ret_port, err);
	}
	if (strncmp(address, "unix:", 5) == 0) {
		if (ret_port)
			*ret_port = 0;
		return unix_open(address + 5, ret_fd, ret_path, err);
	}
	return error_set(err, EINVAL,
			 "'%s' is neither tcp:HOST:PORT nor unix:PATH",
			 address);
}

/* ---- accepting ---- */

static void closed_check(struct listener *l)
{
	if (!l->closing) {
		loop_accept(l->loop, &l->accept_op, l->fd);
		return;
	}
	fd_close(l->fd);
	l->fd = -1;
	l->closed(l);
}

static void pause_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);

	(void)res; /* over, or stopped */
	closed_check(container_of(timer, struct listener, pause));
}

static void peer_of(int fd, struct peer_address *ret)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);

	*ret = (struct peer_address){.family = AF_UNSPEC};
	/* A peer that is gone already has no address: it is admitted nowhere.
	 */
	if (getpeername(fd, (struct sockaddr *)&address, &length) == 0)
		(void)peer_address_from((struct sockaddr *)&address, ret);
}

static void accept_done(struct op *op, int res)
{
	struct listener *l = container_of(op, struct listener, accept_op);
	struct peer_address peer;

	if (res >= 0) {
		peer_of(res, &peer);
		l->accepted(l, res, &peer);
	} else if (!l->closing && res != -EINTR && res != -ECONNABORTED &&
		   res != -EAGAIN) {
		log_warning("nbd: accept: %s; trying again in %d ms",
			    strerror(-res), PAUSE_MS);
		loop_timer_start(l->loop, &l->pause, PAUSE_MS);
		return;
	}
	closed_check(l);
}

void listener_start(struct listener *l)
{
	l->accept_op.done = accept_done;
	l->pause.op.done = pause_done;
	loop_accept(l->loop, &l->accept_op, l->fd);
}

void listener_close(struct listener *l)
{
	if (l->closing)
		return;
	l->closing = true;
	if (l->unix_path)
		(void)unlink(l->unix_path); /* gone already is fine */
	/* Either the accept or the pause is in flight; the other is not found.
	 */
	loop_cancel(l->loop, &l->accept_op);
	loop_cancel(l->loop, &l->pause.op);
}
