/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/target_test_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "target/nbd/nbd_proto.h"

static int dial_tcp(const char *port)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

int client_dial(const char *address)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd;

	if (strncmp(address, "tcp:", 4) == 0)
		return dial_tcp(strrchr(address, ':') + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s",
		       address + strlen("unix:"));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

void client_put(int fd, const void *data, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = send(fd, (const char *)data + at, length - at,
				 MSG_NOSIGNAL);

		assert_true(n > 0);
		at += (size_t)n;
	}
}

/* MSG_WAITALL may be given less, too: seen with unix sockets. */
void client_get(int fd, void *data, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t n = recv(fd, (char *)data + at, length - at, 0);

		assert_true(n > 0);
		at += (size_t)n;
	}
}

bool client_closed(int fd)
{
	char c;

	return recv(fd, &c, 1, 0) <= 0;
}

static void greet(int fd)
{
	struct nbd_wire_greeting greeting;
	be32 flags = be32_make(NBD_FLAG_C_FIXED_NEWSTYLE |
			       NBD_FLAG_C_NO_ZEROES);

	client_get(fd, &greeting, sizeof(greeting));
	client_put(fd, &flags, sizeof(flags));
}

static void put_option(int fd, uint32_t type, const void *data, size_t length)
{
	struct nbd_wire_option option = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(type),
		.length = be32_make((uint32_t)length),
	};

	client_put(fd, &option, sizeof(option));
	client_put(fd, data, length);
}

static bool ask_export(int fd, const char *name, struct client_export *ret)
{
	struct nbd_wire_export_name reply;
	size_t length = offsetof(struct nbd_wire_export_name, zeroes);

	put_option(fd, NBD_OPT_EXPORT_NAME, name, strlen(name));
	if (recv(fd, &reply, length, MSG_WAITALL) != (ssize_t)length)
		return false;
	if (ret) {
		ret->size = be64_get(reply.size);
		ret->flags = be16_get(reply.flags);
	}
	return true;
}

bool client_begin(int fd, const char *name, struct client_export *ret)
{
	greet(fd);
	return ask_export(fd, name, ret);
}

bool client_begin_structured(int fd, const char *name)
{
	struct nbd_wire_option_reply reply;

	greet(fd);
	put_option(fd, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	client_get(fd, &reply, sizeof(reply));
	assert_int_equal(be32_get(reply.type), NBD_REP_ACK);
	return ask_export(fd, name, NULL);
}

void client_ask(int fd, uint16_t type, uint64_t cookie, uint64_t offset,
		uint32_t length)
{
	struct nbd_wire_request wire = {
		.magic = be32_make(NBD_REQUEST_MAGIC),
		.type = be16_make(type),
		.cookie = be64_make(cookie),
		.offset = be64_make(offset),
		.length = be32_make(length),
	};

	client_put(fd, &wire, sizeof(wire));
}

uint32_t client_answer(int fd, uint64_t cookie)
{
	struct nbd_wire_simple_reply reply;

	client_get(fd, &reply, sizeof(reply));
	assert_int_equal(be32_get(reply.magic), NBD_SIMPLE_REPLY_MAGIC);
	assert_true(be64_get(reply.cookie) == cookie);
	return be32_get(reply.error);
}
