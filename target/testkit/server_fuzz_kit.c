/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/server_fuzz_kit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

#define END_MS 20000 /* of silence: the server has forgotten us */

static char dir[72]; /* in TMPDIR: what ends it may not let it clean up */
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct sockaddr_in port = {.sin_family = AF_INET};

void fuzz_put(struct fuzz_bytes *to, const void *data, size_t length)
{
	assert(length <= sizeof(to->data) - to->length);
	if (length)
		memcpy(to->data + to->length, data, length);
	to->length += length;
}

void fuzz_put_number(struct fuzz_bytes *to, uint64_t value, unsigned bytes)
{
	while (bytes-- > 0) {
		uint8_t byte = (uint8_t)(value >> 8 * bytes);

		fuzz_put(to, &byte, 1);
	}
}

/* ---- the server ---- */

static void clean_up(void)
{
	char path[sizeof(dir) + 16];

	(void)unlink(address.sun_path);
	(void)snprintf(path, sizeof(path), "%s/psk", dir);
	(void)unlink(path); /* there may be none */
	(void)rmdir(dir);
}

static void psk_write(const char *path, const char *text)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
}

struct target *fuzz_server(const char *psk,
			   int (*listen)(struct target *target,
					 const char *address, int *ret_port,
					 struct error *err))
{
	char psk_path[sizeof(dir) + 16], at[sizeof(dir) + 16];
	struct target_options options = {.loops = 1};
	struct target *target = NULL;
	struct error err = {0};
	int number = 0;
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(dir, sizeof(dir), "%.50s/server_fuzz.XXXXXX",
		       tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		abort();
	/* Each complaint is a peer's; the budget of the log is not at stake. */
	log_setup("fuzz", LOG_LEVEL_ERROR);
	(void)snprintf(psk_path, sizeof(psk_path), "%s/psk", dir);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket",
		       dir);
	(void)snprintf(at, sizeof(at), "unix:%s", address.sun_path);
	(void)atexit(clean_up);
	if (psk) {
		psk_write(psk_path, psk);
		options.tls.psk = psk_path;
	}
	if (target_new(&options, &target, &err) < 0 ||
	    listen(target, at, NULL, &err) < 0 ||
	    listen(target, "tcp:127.0.0.1:0", &number, &err) < 0) {
		(void)fprintf(stderr, "no server: %s\n", error_text(&err));
		abort();
	}
	port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	port.sin_port = htons((uint16_t)number);
	return target;
}

int fuzz_open(void *context, struct loop *loop, bool read_only,
	      struct blockdev **ret, struct error *err)
{
	(void)context;
	(void)read_only;
	return blockdev_ram_open(loop, FUZZ_DEVICE_SIZE, ret, err);
}

/* ---- the peer ---- */

struct peer {
	int fd;
	const struct fuzz_bytes *first;
	const uint8_t *data;
	size_t length, said, piece;
	struct fuzz_bytes *heard;
	size_t n_heard;
	bool silent; /* it has said all */
};

static int dial_tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&port, sizeof(port)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		abort();
	return fd;
}

static int dial_unix(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		abort();
	return fd;
}

static int dial(bool tcp)
{
	int fd = tcp ? dial_tcp() : dial_unix();

	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		abort();
	return fd;
}

/* The next piece; the server may have hung up by then. */
static void say(struct peer *peer)
{
	const struct fuzz_bytes *first = peer->first;
	bool begins = peer->said < first->length;
	const uint8_t *from = begins ? first->data + peer->said
				     : peer->data +
					       (peer->said - first->length);
	size_t left = (begins ? 0 : peer->length) + first->length - peer->said;
	ssize_t n;

	if (!begins && left > peer->piece)
		left = peer->piece;
	n = left ? send(peer->fd, from, left, MSG_NOSIGNAL) : 0;
	if (n > 0)
		peer->said += (size_t)n;
	if ((n < 0 && errno != EAGAIN) ||
	    peer->said == first->length + peer->length) {
		if (!peer->heard)
			(void)shutdown(peer->fd, SHUT_WR);
		peer->silent = true;
	}
}

/* False: the server has hung up. */
static bool hear(struct peer *peer)
{
	uint8_t buffer[65536];
	ssize_t n = recv(peer->fd, buffer, sizeof(buffer), 0);
	size_t room;

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	peer->n_heard += (size_t)n;
	if (!peer->heard)
		return true;
	room = sizeof(peer->heard->data) - peer->heard->length;
	fuzz_put(peer->heard, buffer, (size_t)n < room ? (size_t)n : room);
	return true;
}

size_t fuzz_exchange(bool tcp, const struct fuzz_bytes *first,
		     const uint8_t *data, size_t length, size_t piece,
		     struct fuzz_bytes *ret)
{
	struct peer peer = {.fd = dial(tcp),
			    .first = first,
			    .data = data,
			    .length = length,
			    .piece = piece ?: 1,
			    .heard = ret};
	bool goes_on = true;

	while (goes_on) {
		struct pollfd poll_fd = {
			.fd = peer.fd,
			.events = (short)(POLLIN | (peer.silent ? 0 : POLLOUT)),
		};

		if (poll(&poll_fd, 1, END_MS) == 0)
			abort(); /* the server does not end it */
		if (poll_fd.revents & (POLLIN | POLLHUP | POLLERR))
			goes_on = hear(&peer);
		if (poll_fd.revents & POLLOUT && !peer.silent)
			say(&peer);
	}
	(void)close(peer.fd);
	return peer.n_heard;
}
