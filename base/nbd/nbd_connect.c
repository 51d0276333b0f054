/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nbd/nbd_connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define KEEPALIVE_PROBES 3 /* within silence_ms */

/* The rest of one attempt. */
struct attempt {
	int fd;
	int cancel_fd;
	int64_t end_ms; /* CLOCK_MONOTONIC */
};

static int resolve_unix(const char *path, struct nbd_address *a,
			struct error *err)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->list[0].address;
	size_t length = strlen(path);

	if (!length || length >= sizeof(un->sun_path))
		return error_set(err, EINVAL,
				 "'unix:%s': a socket's path has 1 to %zu "
				 "bytes",
				 path, sizeof(un->sun_path) - 1);
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, length + 1);
	a->list[0].length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
					length + 1);
	a->count = 1;
	return 0;
}

static int resolve_tcp(char *host, const char *port, struct nbd_address *a,
		       struct error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	int r = getaddrinfo(host, port, &hints, &found);

	if (r)
		return error_set(err, EHOSTUNREACH, "'%s': %s", a->text,
				 gai_strerror(r));
	for (struct addrinfo *i = found; i && a->count < NBD_ADDRESSES_MAX;
	     i = i->ai_next) {
		memcpy(&a->list[a->count].address, i->ai_addr, i->ai_addrlen);
		a->list[a->count].length = i->ai_addrlen;
		a->count++;
	}
	freeaddrinfo(found);
	return 0;
}

int nbd_address_resolve(const char *text, struct nbd_address *ret,
			struct error *err)
{
	struct nbd_address a = {.count = 0};
	char host[NBD_ADDRESS_TEXT_MAX];
	char *name = host, *colon;
	int r;

	if (snprintf(a.text, sizeof(a.text), "%s", text) >= (int)sizeof(a.text))
		return error_set(err, EINVAL, "an NBD address is too long");
	if (!strncmp(text, "unix:", 5)) {
		r = resolve_unix(text + 5, &a, err);
	} else {
		memcpy(host, a.text, sizeof(host));
		colon = strrchr(host, ':');
		if (!colon || colon == host || !colon[1])
			return error_set(err, EINVAL,
					 "'%s' is not HOST:PORT or unix:PATH",
					 text);
		*colon = 0;
		if (host[0] == '[' && colon[-1] == ']') {
			colon[-1] = 0;
			name++;
		}
		r = resolve_tcp(name, colon + 1, &a, err);
	}
	if (r < 0)
		return r;
	*ret = a;
	return 0;
}

/* Wait for the socket: 0, -ETIMEDOUT or -ECANCELED. */
static int wait_for(const struct attempt *at, short events)
{
	struct pollfd fds[2] = {
		{.fd = at->fd, .events = events},
		{.fd = at->cancel_fd, .events = POLLIN},
	};

	for (;;) {
		int64_t left = at->end_ms - clock_ms();
		int n;

		if (left <= 0)
			return -ETIMEDOUT;
		n = poll(fds, 2, left > INT32_MAX ? INT32_MAX : (int)left);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[1].revents)
			return -ECANCELED;
		if (n > 0)
			return 0;
	}
}

static int answer_receive(const struct attempt *at, uint8_t *data,
			  size_t length)
{
	while (length) {
		ssize_t n = recv(at->fd, data, length, MSG_DONTWAIT);

		if (!n)
			return -ECONNRESET;
		if (n > 0) {
			data += n;
			length -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		int r = wait_for(at, POLLIN);
		if (r < 0)
			return r;
	}
	return 0;
}

static int transmit(const struct attempt *at, const uint8_t *data,
		    size_t length)
{
	while (length) {
		ssize_t n = send(at->fd, data, length,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0) {
			data += n;
			length -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		int r = wait_for(at, POLLOUT);
		if (r < 0)
			return r;
	}
	return 0;
}

static void set_option(int fd, int level, int name, int value)
{
	/* Only tuning: a kernel that lacks one still works. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void tune_tcp(int fd, unsigned silence_ms)
{
	int step = (int)(silence_ms / 1000 / (KEEPALIVE_PROBES + 1));

	if (step < 1)
		step = 1;
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, step);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, step);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms);
}

/* Connect to one address. 0 or a negative errno of the network. */
static int connect_one(struct attempt *at, const struct sockaddr *address,
		       socklen_t length, unsigned silence_ms)
{
	int error = 0;
	socklen_t size = sizeof(error);
	int r;

	at->fd = socket(address->sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (at->fd < 0)
		return -errno;
	if (address->sa_family != AF_UNIX)
		tune_tcp(at->fd, silence_ms);
	if (!connect(at->fd, address, length))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	r = wait_for(at, POLLOUT);
	if (r < 0)
		return r;
	if (getsockopt(at->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		return -errno;
	return -error;
}

static int connect_any(struct attempt *at, const struct nbd_address *address,
		       unsigned silence_ms)
{
	int r = -EHOSTUNREACH;

	for (unsigned i = 0; i < address->count; i++) {
		r = connect_one(
			at, (const struct sockaddr *)&address->list[i].address,
			address->list[i].length, silence_ms);
		if (!r || r == -ECANCELED || r == -ETIMEDOUT)
			return r;
		fd_close(take_fd(&at->fd));
	}
	return r;
}

/* Say goodbye with NBD_OPT_ABORT: the last rule of INFO. */
static void connect_say_goodbye(const struct attempt *at)
{
	struct nbd_wire_option option = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(NBD_OPT_ABORT),
		.length = be32_make(0),
	};

	/* A courtesy: the server also takes a closed connection. */
	(void)transmit(at, (const uint8_t *)&option, sizeof(option));
}

static int shake_hands(struct attempt *at, struct nbd_handshake *h,
		       int *ret_network, struct error *err)
{
	int r = 0;

	while (!r) {
		*ret_network = answer_receive(at, h->in, h->want);
		if (*ret_network < 0)
			return *ret_network;
		r = nbd_handshake_step(h, err);
		if (r < 0)
			return r;
		*ret_network = transmit(at, h->out, h->out_length);
		if (*ret_network < 0)
			return *ret_network;
	}
	return 0;
}

static int network_error(const struct nbd_address *address, const char *what,
			 int r, struct error *err)
{
	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "NBD server %s: given up",
				 address->text);
	return error_set(err, EHOSTUNREACH, "NBD server %s: %s: %s",
			 address->text, what,
			 r == -ETIMEDOUT    ? "no answer in time"
			 : r == -ECONNRESET ? "it closed the connection"
					    : strerror(-r));
}

int nbd_connect(const struct nbd_address *address, const char *export_name,
		const struct nbd_connect_options *options, int *ret_fd,
		struct nbd_export *ret, struct error *err)
{
	auto_free struct nbd_handshake *h = malloc(sizeof(*h));
	auto_close int fd = -1;
	struct attempt at = {
		.fd = -1,
		.cancel_fd = options->cancel_fd,
		.end_ms = clock_ms() + options->timeout_ms,
	};
	int network = 0, r;

	if (!h)
		return error_set(err, ENOMEM, "no memory for a handshake");
	r = nbd_handshake_start(h, export_name,
				ret_fd ? NBD_HANDSHAKE_GO : NBD_HANDSHAKE_INFO,
				err);
	if (r < 0)
		return r;
	r = connect_any(&at, address, options->silence_ms);
	fd = at.fd;
	if (r < 0)
		return network_error(address, "connect", r, err);
	r = shake_hands(&at, h, &network, err);
	if (network < 0)
		return network_error(address, "handshake", network, err);
	if (r < 0)
		return error_prefix(err, r, "NBD server %s, export '%s': ",
				    address->text, export_name);
	*ret = h->export;
	if (!ret_fd) {
		connect_say_goodbye(&at);
		return 0;
	}
	if (fcntl(fd, F_SETFL, 0) < 0)
		return error_set(err, errno, "NBD socket: %s", strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

/* A unix socket has nothing to drop; closing is all it needs. */
static void set_drop(int fd, bool drop)
{
	const struct linger how = {.l_onoff = drop, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof(how));
}

int nbd_socket_adopt(int fd)
{
	set_drop(fd, true);
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

void nbd_socket_close(int fd)
{
	set_drop(fd, false);
	fd_close(fd);
}

void nbd_socket_reset(int fd)
{
	if (fd < 0)
		return;
	set_drop(fd, true);
	fd_close(fd);
}
