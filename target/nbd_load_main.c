/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd-load: reads or writes at random offsets of an NBD export, keeping a
 * number of requests in flight, with as few system calls as a client can
 * manage: what is free is asked for in one send, what has come is taken in
 * one receive. So the server is what is measured. One line of JSON.
 *
 *	nbd-load HOST:PORT|PATH EXPORT read|write BLOCK DEPTH SECONDS [RANGE]
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/nbd_wire.h"
#include "base/size.h"

#include <arpa/inet.h>

#define DEPTH_MAX    128
#define RECEIVE_SIZE (UINT32_C(4) << 20) /* bytes */

struct load {
	int fd;
	bool writes;
	uint32_t block;
	unsigned depth, in_flight;
	uint64_t range; /* bytes of the export in use */
	uint64_t done, seed;
	char *data;              /* a block to write */
	uint8_t *in;             /* received, not yet looked at */
	size_t start, end, skip; /* skip: bytes of read data still to come */
	struct nbd_wire_request requests[DEPTH_MAX];
	struct iovec iov[2 * DEPTH_MAX];
};

static void die(const char *what)
{
	fprintf(stderr, "nbd-load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int dial(const char *address)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	const char *colon = strrchr(address, ':');
	char host[INET_ADDRSTRLEN] = "";
	int one = 1, fd;

	if (address[0] == '/') {
		(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", address);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&un, sizeof(un)))
			die(address);
		return fd;
	}
	if (!colon || (size_t)(colon - address) >= sizeof(host)) {
		errno = EINVAL;
		die(address);
	}
	memcpy(host, address, (size_t)(colon - address));
	in.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
	if (inet_pton(AF_INET, host, &in.sin_addr) != 1) {
		errno = EINVAL;
		die(address);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die(address);
	return fd;
}

static void get(int fd, void *to, size_t length)
{
	if (recv(fd, to, length, MSG_WAITALL) != (ssize_t)length)
		die("receive");
}

/* NBD_OPT_EXPORT_NAME: the shortest handshake there is. */
static void handshake(struct load *load, const char *export)
{
	struct nbd_wire_greeting greeting;
	be32 flags = be32_make(NBD_FLAG_C_FIXED_NEWSTYLE |
			       NBD_FLAG_C_NO_ZEROES);
	struct nbd_wire_option option = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(NBD_OPT_EXPORT_NAME),
		.length = be32_make((uint32_t)strlen(export)),
	};
	struct iovec iov[] = {
		{&flags, sizeof(flags)},
		{&option, sizeof(option)},
		{(void *)export, strlen(export)},
	};
	struct {
		be64 size;
		be16 flags;
	} reply;

	get(load->fd, &greeting, sizeof(greeting));
	if (writev(load->fd, iov, 3) < 0)
		die("send");
	get(load->fd, &reply, sizeof(reply));
	if (load->range == 0 || load->range > be64_get(reply.size))
		load->range = be64_get(reply.size);
}

static uint64_t next_random(struct load *load) /* splitmix64 */
{
	uint64_t z = load->seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Ask for as much as is free, in one send. */
static void fill(struct load *load)
{
	struct msghdr message = {.msg_iov = load->iov};
	unsigned n = load->depth - load->in_flight;

	for (unsigned i = 0; i < n; i++) {
		uint64_t block = next_random(load) %
				 (load->range / load->block);

		load->requests[i] = (struct nbd_wire_request){
			.magic = be32_make(NBD_REQUEST_MAGIC),
			.type = be16_make(load->writes ? NBD_CMD_WRITE
						       : NBD_CMD_READ),
			.cookie = be64_make(block),
			.offset = be64_make(block * load->block),
			.length = be32_make(load->block),
		};
		load->iov[message.msg_iovlen++] = (struct iovec){
			&load->requests[i], sizeof(load->requests[i])};
		if (load->writes)
			load->iov[message.msg_iovlen++] = (struct iovec){
				load->data, load->block};
	}
	while (message.msg_iovlen > 0) {
		ssize_t sent = sendmsg(load->fd, &message, MSG_NOSIGNAL);

		if (sent < 0)
			die("send");
		while (message.msg_iovlen > 0 &&
		       (size_t)sent >= message.msg_iov->iov_len) {
			sent -= (ssize_t)message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (sent > 0) {
			message.msg_iov->iov_base =
				(char *)message.msg_iov->iov_base + sent;
			message.msg_iov->iov_len -= (size_t)sent;
		}
	}
	load->in_flight += n;
}

/* Count the replies that are there; false: part of one is missing. */
static bool reply_take(struct load *load)
{
	size_t there = load->end - load->start;
	struct nbd_wire_simple_reply reply;

	if (load->skip > 0) {
		size_t n = load->skip < there ? load->skip : there;

		load->skip -= n;
		load->start += n;
		if (load->skip > 0)
			return false;
		load->in_flight--;
		load->done++;
		return true;
	}
	if (there < sizeof(reply))
		return false;
	memcpy(&reply, load->in + load->start, sizeof(reply));
	if (be32_get(reply.magic) != NBD_SIMPLE_REPLY_MAGIC ||
	    be32_get(reply.error) != NBD_SUCCESS) {
		errno = EIO;
		die("a reply");
	}
	load->start += sizeof(reply);
	if (!load->writes) {
		load->skip = load->block;
		return true;
	}
	load->in_flight--;
	load->done++;
	return true;
}

static void take(struct load *load)
{
	ssize_t n;

	memmove(load->in, load->in + load->start, load->end - load->start);
	load->end -= load->start;
	load->start = 0;
	n = recv(load->fd, load->in + load->end, RECEIVE_SIZE - load->end, 0);
	if (n <= 0)
		die("receive");
	load->end += (size_t)n;
	while (reply_take(load))
		;
}

/* Take what is still to come, and say goodbye. */
static void disconnect(struct load *load)
{
	struct nbd_wire_request request = {
		.magic = be32_make(NBD_REQUEST_MAGIC),
		.type = be16_make(NBD_CMD_DISC),
	};

	while (load->in_flight > 0)
		take(load);
	if (send(load->fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		die("send");
	fd_close(load->fd);
}

int main(int argc, char **argv)
{
	struct load load = {.seed = (uint64_t)getpid()};
	uint64_t block = 0;
	int64_t start, end;

	if (argc < 7 || argc > 8 || size_parse(argv[4], &block, NULL) < 0 ||
	    (argc == 8 && size_parse(argv[7], &load.range, NULL) < 0)) {
		fprintf(stderr, "usage: nbd-load HOST:PORT|PATH EXPORT "
				"read|write BLOCK DEPTH SECONDS [RANGE]\n");
		return 2;
	}
	load.writes = strcmp(argv[3], "write") == 0;
	load.block = (uint32_t)block;
	load.depth = (unsigned)strtoul(argv[5], NULL, 10);
	load.in = malloc(RECEIVE_SIZE);
	load.data = calloc(1, block);
	if (load.depth < 1 || load.depth > DEPTH_MAX || !load.in ||
	    !load.data || block < 1 || block > (UINT64_C(32) << 20)) {
		errno = EINVAL;
		die("arguments");
	}
	load.fd = dial(argv[1]);
	handshake(&load, argv[2]);
	if (load.range < block) {
		errno = EINVAL;
		die("the export is smaller than a block");
	}
	start = clock_ns();
	end = start + (int64_t)strtoul(argv[6], NULL, 10) * 1000000000;
	while (clock_ns() < end) {
		fill(&load);
		take(&load);
	}
	end = clock_ns();
	disconnect(&load);
	printf("{\"ios\": %llu, \"iops\": %.0f}\n",
	       (unsigned long long)load.done,
	       (double)load.done * 1e9 / (double)(end - start));
	free(load.in);
	free(load.data);
	return 0;
}
