/* SPDX-License-Identifier: Apache-2.0 */
#include "target/net/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0,    0,
					  0, 0, 0, 0, 0xff, 0xff};

static void from_ipv6(const struct in6_addr *address, struct peer_address *ret)
{
	if (memcmp(address->s6_addr, mapped_prefix, sizeof(mapped_prefix)) ==
	    0) {
		ret->family = AF_INET;
		memcpy(ret->bytes, address->s6_addr + sizeof(mapped_prefix), 4);
		return;
	}
	ret->family = AF_INET6;
	memcpy(ret->bytes, address->s6_addr, 16);
}

int peer_address_from(const struct sockaddr *address, struct peer_address *ret)
{
	struct peer_address peer = {.family = address->sa_family};
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	switch (address->sa_family) {
	case AF_UNIX: break;
	case AF_INET:
		memcpy(&in, address, sizeof(in));
		memcpy(peer.bytes, &in.sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(&in6, address, sizeof(in6));
		from_ipv6(&in6.sin6_addr, &peer);
		break;
	default: return -EAFNOSUPPORT;
	}
	*ret = peer;
	return 0;
}

const char *peer_address_format(const struct peer_address *peer, char *buf,
				size_t size)
{
	size_t length;

	if (peer->family == AF_UNIX ||
	    !inet_ntop(peer->family, peer->bytes, buf, (socklen_t)size))
		(void)snprintf(buf, size, "the unix socket");
	length = strlen(buf);
	if (peer->initiator)
		(void)snprintf(buf + length, size - length, " (%s)",
			       peer->initiator);
	else if (peer->names && peer->names->count > 0)
		(void)snprintf(buf + length, size - length, " (%s)",
			       peer->names->items[0]);
	return buf;
}

void peer_names_add(struct peer_names *names, const char *name, size_t length)
{
	if (names->count == PEER_NAMES_MAX || length == 0 ||
	    length >= PEER_NAME_MAX)
		return;
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return;
	memcpy(names->items[names->count], name, length);
	names->items[names->count++][length] = '\0';
}
