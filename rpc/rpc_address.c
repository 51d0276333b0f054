/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"

#define UNIX_PREFIX "unix:"
#define TCP_PREFIX  "tcp:"
#define LETTERS     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static int bad(const char *text, const char *why, struct error *err)
{
	return error_set(err, EINVAL,
			 "address '%.200s': %s; write unix:/PATH or "
			 "tcp:HOST:PORT (IPv6 in brackets)",
			 text, why);
}

static int parse_unix(const char *text, const char *path, struct rpc_address *a,
		      struct error *err)
{
	size_t length = strlen(path);

	if (path[0] != '/')
		return bad(text, "the path does not start with '/'", err);
	if (path[length - 1] == '/')
		return bad(text, "the path ends in '/'", err);
	if (length > RPC_PATH_MAX)
		return error_set(err, ENAMETOOLONG,
				 "address '%.200s': the path has %zu bytes, a "
				 "socket's may have %d; choose a shorter one",
				 text, length, RPC_PATH_MAX);
	a->is_unix = true;
	memcpy(a->path, path, length + 1);
	return 0;
}

/* Digits only: no sign, no space. */
static int parse_port(const char *text, uint16_t *ret)
{
	unsigned value = 0;
	size_t n = strspn(text, "0123456789");

	if (n < 1 || n > 5 || text[n])
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		value = value * 10 + (unsigned)(text[i] - '0');
	if (value > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)value;
	return 0;
}

static int parse_host(const char *host, size_t length, bool bracketed,
		      struct rpc_address *a)
{
	struct in6_addr ip;

	if (length < 1 || length > RPC_HOST_MAX)
		return -EINVAL;
	memcpy(a->host, host, length);
	a->host[length] = '\0';
	/* In brackets too: a person who fills in an address need not know its
	 * kind. */
	if (inet_pton(AF_INET, a->host, &ip) == 1) {
		a->kind = RPC_HOST_IPV4;
		return 0;
	}
	if (bracketed) {
		a->kind = RPC_HOST_IPV6;
		return inet_pton(AF_INET6, a->host, &ip) == 1 ? 0 : -EINVAL;
	}
	if (a->host[strspn(a->host, LETTERS ".-_")])
		return -EINVAL;
	return 0;
}

static int parse_tcp(const char *text, const char *rest, struct rpc_address *a,
		     struct error *err)
{
	bool bracketed = rest[0] == '[';
	const char *host = rest + bracketed;
	const char *end = bracketed ? strchr(host, ']') : strchr(host, ':');

	if (!end || (bracketed && end[1] != ':'))
		return bad(text, "no port", err);
	if (parse_host(host, (size_t)(end - host), bracketed, a) < 0)
		return bad(text, "no such host can be", err);
	if (parse_port(end + 1 + bracketed, &a->port) < 0)
		return bad(text, "the port is not a number from 0 to 65535",
			   err);
	return 0;
}

int rpc_address_parse(const char *text, struct rpc_address *ret,
		      struct error *err)
{
	struct rpc_address a = {0};
	int r;

	if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
		r = parse_unix(text, text + strlen(UNIX_PREFIX), &a, err);
	else if (strncmp(text, TCP_PREFIX, strlen(TCP_PREFIX)) == 0)
		r = parse_tcp(text, text + strlen(TCP_PREFIX), &a, err);
	else
		r = bad(text, "neither unix nor tcp", err);
	if (r < 0)
		return r;
	*ret = a;
	return 0;
}

static const char *host_port(char *buf, const char *prefix,
			     const struct rpc_address *a)
{
	bool ipv6 = a->kind == RPC_HOST_IPV6;

	(void)snprintf(buf, RPC_TARGET_MAX, "%s%s%s%s:%u", prefix,
		       ipv6 ? "[" : "", a->host, ipv6 ? "]" : "", a->port);
	return buf;
}

const char *rpc_address_format(char *buf, const struct rpc_address *a)
{
	if (!a->is_unix)
		return host_port(buf, TCP_PREFIX, a);
	(void)snprintf(buf, RPC_TARGET_MAX, UNIX_PREFIX "%s", a->path);
	return buf;
}

/* A listening address is taken as it stands ... */
const char *rpc_address_listen(char *buf, const struct rpc_address *a)
{
	return a->is_unix ? rpc_address_format(buf, a) : host_port(buf, "", a);
}

/* ... and a target is a URI (RFC 3986 2.1). */
const char *rpc_address_target(char *buf, const struct rpc_address *a)
{
	static const char *const schemes[] = {
		[RPC_HOST_NAME] = "dns:///",
		[RPC_HOST_IPV4] = "ipv4:",
		[RPC_HOST_IPV6] = "ipv6:",
	};
	size_t n = strlen(UNIX_PREFIX);

	if (!a->is_unix)
		return host_port(buf, schemes[a->kind], a);
	memcpy(buf, UNIX_PREFIX, n);
	for (const char *p = a->path; *p; p++) {
		if (strchr(LETTERS "/-._~", *p))
			buf[n++] = *p;
		else
			n += (size_t)snprintf(buf + n, RPC_TARGET_MAX - n,
					      "%%%02X", (unsigned char)*p);
	}
	buf[n] = '\0';
	return buf;
}

static int probe_bind(int family, const struct sockaddr *to, socklen_t length)
{
	auto_close int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	/* As the library does, so that TIME_WAIT is no obstacle. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, to, length) < 0 || listen(fd, 1) < 0)
		return -errno;
	return 0;
}

static int probe_unix(const struct rpc_address *a)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int r;

	memcpy(un.sun_path, a->path, sizeof(un.sun_path));
	r = probe_bind(AF_UNIX, (const struct sockaddr *)&un, sizeof(un));
	if (r == 0)
		(void)unlink(a->path); /* ours, made a moment ago */
	return r;
}

int rpc_address_probe(const struct rpc_address *a)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found;
	char port[8];
	int r = 0;

	if (a->is_unix)
		return probe_unix(a);
	(void)snprintf(port, sizeof(port), "%u", a->port);
	if (getaddrinfo(a->host, port, &hints, &found) != 0)
		return -EADDRNOTAVAIL;
	for (const struct addrinfo *i = found; i && r == 0; i = i->ai_next)
		r = probe_bind(i->ai_family, i->ai_addr, i->ai_addrlen);
	freeaddrinfo(found);
	return r;
}
