/* SPDX-License-Identifier: Apache-2.0 */
#include "target/initiators.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

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
	if (peer->family == AF_UNIX ||
	    !inet_ntop(peer->family, peer->bytes, buf, (socklen_t)size))
		(void)snprintf(buf, size, "the unix socket");
	return buf;
}

/* "24" into @ret, 0 to @max. */
static bool prefix_parse(const char *text, unsigned max, uint8_t *ret)
{
	char *end;
	unsigned long value;

	if (text[0] < '0' || text[0] > '9')
		return false;
	value = strtoul(text, &end, 10);
	if (*end || value > max)
		return false;
	*ret = (uint8_t)value;
	return true;
}

static bool address_parse(const char *text, struct initiator_rule *ret)
{
	const char *slash = strchr(text, '/');
	size_t length = slash ? (size_t)(slash - text) : strlen(text);
	struct peer_address peer;
	struct in6_addr in6;
	char address[INET6_ADDRSTRLEN];
	unsigned max;

	if (length >= sizeof(address))
		return false;
	memcpy(address, text, length);
	address[length] = '\0';
	if (inet_pton(AF_INET, address, ret->bytes) == 1) {
		ret->family = AF_INET;
		max = 32;
	} else if (inet_pton(AF_INET6, address, &in6) == 1) {
		ret->family = AF_INET6;
		memcpy(ret->bytes, in6.s6_addr, 16);
		max = 128;
	} else {
		return false;
	}
	ret->prefix = (uint8_t)max;
	if (slash && !prefix_parse(slash + 1, max, &ret->prefix))
		return false;
	if (ret->family == AF_INET6 && ret->prefix >= 96) {
		/* Peers in this range are kept as IPv4; so is the rule. */
		from_ipv6(&in6, &peer);
		if (peer.family == AF_INET) {
			ret->family = AF_INET;
			ret->prefix -= 96;
			memcpy(ret->bytes, peer.bytes, 4);
		}
	}
	return true;
}

static int rule_parse(const char *text, struct initiator_rule *ret,
		      struct error *err)
{
	char quoted[96];

	*ret = (struct initiator_rule){0};
	if (strcmp(text, "any") == 0) {
		ret->family = AF_UNSPEC;
		return 0;
	}
	if (strcmp(text, "unix") == 0) {
		ret->family = AF_UNIX;
		return 0;
	}
	if (address_parse(text, ret))
		return 0;
	return error_set(err, EINVAL,
			 "initiator %s is not an address (10.0.0.7, fd00::1), "
			 "a prefix (10.0.0.0/8), \"unix\" or \"any\"",
			 log_quote(quoted, sizeof(quoted), text,
				   (unsigned)strlen(text)));
}

int initiators_parse(const char *const *list, size_t n, struct initiators *ret,
		     struct error *err)
{
	struct initiators parsed = {.count = n};

	if (n > TARGET_INITIATORS_MAX)
		return error_set(err, EINVAL,
				 "%zu initiators; at most %d can be named, a "
				 "prefix (10.0.0.0/8) stands for many",
				 n, TARGET_INITIATORS_MAX);
	for (size_t i = 0; i < n; i++) {
		int r = rule_parse(list[i], &parsed.rules[i], err);

		if (r < 0)
			return r;
	}
	*ret = parsed;
	return 0;
}

static bool bits_same(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

bool initiators_admit(const struct initiators *list,
		      const struct peer_address *peer)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct initiator_rule *rule = &list->rules[i];

		if (rule->family == AF_UNSPEC)
			return true;
		if (rule->family != peer->family)
			continue;
		if (bits_same(rule->bytes, peer->bytes, rule->prefix))
			return true;
	}
	return false;
}
