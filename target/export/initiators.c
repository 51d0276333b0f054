/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/initiators.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/export/iscsi_name.h"

static_assert(INITIATOR_NAME_MAX == ISCSI_NAME_MAX, "one limit");

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
	struct sockaddr_in6 in = {.sin6_family = AF_INET6};
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
		in.sin6_addr = in6;
		(void)peer_address_from((struct sockaddr *)&in, &peer);
		if (peer.family == AF_INET) {
			ret->family = AF_INET;
			ret->prefix -= 96;
			memcpy(ret->bytes, peer.bytes, 4);
		}
	}
	return true;
}

static bool where_parse(const char *text, struct initiator_rule *ret)
{
	if (strcmp(text, "any") == 0)
		ret->family = AF_UNSPEC;
	else if (strcmp(text, "unix") == 0)
		ret->family = AF_UNIX;
	else
		return address_parse(text, ret);
	return true;
}

/* NAME or NAME@ADDRESS; @max: bytes of the name */
static bool name_parse(const char *text, size_t max, struct initiator_rule *ret)
{
	const char *at = strrchr(text, '@');
	size_t length = at ? (size_t)(at - text) : strlen(text);

	if (length == 0 || length > max)
		return false;
	memcpy(ret->name, text, length);
	ret->name[length] = '\0';
	return where_parse(at ? at + 1 : "any", ret);
}

static bool row_parse(const char *text, struct initiator_rule *ret)
{
	if (strncmp(text, "tls:", 4) == 0) {
		ret->proof = INITIATOR_TLS;
		return name_parse(text + 4, PEER_NAME_MAX - 1, ret);
	}
	if (strncmp(text, "iscsi:", 6) == 0) {
		ret->proof = INITIATOR_ISCSI;
		return name_parse(text + 6, INITIATOR_NAME_MAX, ret) &&
		       iscsi_name_ok(ret->name);
	}
	return where_parse(text, ret);
}

static int rule_parse(const char *text, struct initiator_rule *ret,
		      struct error *err)
{
	char quoted[96];

	*ret = (struct initiator_rule){0};
	if (row_parse(text, ret))
		return 0;
	return error_set(err, EINVAL,
			 "initiator %s is not an address (10.0.0.7, fd00::1), "
			 "a prefix (10.0.0.0/8), \"unix\", \"any\", "
			 "\"tls:NAME\" or \"iscsi:NAME\"",
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

static bool where_same(const struct initiator_rule *rule,
		       const struct peer_address *peer)
{
	if (rule->family == AF_UNSPEC)
		return true;
	return rule->family == peer->family &&
	       bits_same(rule->bytes, peer->bytes, rule->prefix);
}

static bool proved(const char *name, const struct peer_names *names)
{
	if (!names)
		return false;
	if (strcmp(name, "*") == 0)
		return names->count > 0;
	for (unsigned i = 0; i < names->count; i++)
		if (strcmp(name, names->items[i]) == 0)
			return true;
	return false;
}

static bool name_same(const struct initiator_rule *rule,
		      const struct peer_address *peer)
{
	switch (rule->proof) {
	case INITIATOR_ADDRESS: return true;
	case INITIATOR_TLS: return proved(rule->name, peer->names);
	case INITIATOR_ISCSI:
		return peer->initiator &&
		       strcasecmp(rule->name, peer->initiator) == 0;
	}
	return false;
}

bool initiators_admit(const struct initiators *list,
		      const struct peer_address *peer)
{
	for (size_t i = 0; i < list->count; i++)
		if (where_same(&list->rules[i], peer) &&
		    name_same(&list->rules[i], peer))
			return true;
	return false;
}

bool initiators_want_tls(const struct initiators *list,
			 const struct peer_address *peer)
{
	if (peer->names || peer->initiator || initiators_admit(list, peer))
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (list->rules[i].proof == INITIATOR_TLS &&
		    where_same(&list->rules[i], peer))
			return true;
	return false;
}
