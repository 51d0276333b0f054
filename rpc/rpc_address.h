/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server is: "unix:/path/to.sock", "tcp:HOST:PORT", "tcp:[IPv6]:PORT".
 */
#ifndef RPC_ADDRESS_H
#define RPC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define RPC_PATH_MAX 107 /* bytes; sockaddr_un(7) less the NUL */
#define RPC_HOST_MAX 253 /* bytes; RFC 1035 2.3.4 */
/* Enough for a path of which each byte is escaped. */
#define RPC_TARGET_MAX 384

enum rpc_host_kind { RPC_HOST_NAME, RPC_HOST_IPV4, RPC_HOST_IPV6 };

struct rpc_address {
	bool is_unix;
	char path[RPC_PATH_MAX + 1]; /* unix; absolute */
	char host[RPC_HOST_MAX + 1]; /* tcp; without brackets */
	enum rpc_host_kind kind;
	uint16_t port; /* 0: any, for a server */
};

/*
 * Parse an address. -EINVAL, or -ENAMETOOLONG for a path; the text says what is
 * allowed.
 */
int rpc_address_parse(const char *text, struct rpc_address *ret,
		      struct error *err);

/* Format the address as it was written; returns @buf (RPC_TARGET_MAX bytes). */
const char *rpc_address_format(char *buf, const struct rpc_address *address);

/*
 * Format the address for gRPC to listen on, and to connect to; return @buf
 * likewise.
 */
const char *rpc_address_listen(char *buf, const struct rpc_address *address);
const char *rpc_address_target(char *buf, const struct rpc_address *address);

/*
 * Find out why the address can't be bound: a negative errno from trying, or 0
 * when it now can. A socket file that is there is not touched.
 */
int rpc_address_probe(const struct rpc_address *address);

#endif
