/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect: the address of a peer, and the list it is looked up in.
 * The syntax is that of proto/blockd.proto, SetExportRequest.
 */
#ifndef TARGET_INITIATORS_H
#define TARGET_INITIATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "target/target.h"

/* An IPv4 address inside IPv6 (RFC 4291 2.5.5.2) is kept as IPv4. */
struct peer_address {
	sa_family_t family; /* AF_INET, AF_INET6, AF_UNIX */
	uint8_t bytes[16];  /* 4 of them for AF_INET, none for AF_UNIX */
};

#define PEER_ADDRESS_TEXT_MAX 64 /* bytes with the NUL */

/* -EAFNOSUPPORT for any other family. */
int peer_address_from(const struct sockaddr *address, struct peer_address *ret);

/* "10.0.0.7", "fd00::1", "the unix socket"; returns @buf. */
const char *peer_address_format(const struct peer_address *peer, char *buf,
				size_t size);

/* One row of a list. */
struct initiator_rule {
	sa_family_t family; /* AF_UNSPEC: any */
	uint8_t prefix;     /* bits that must be the same */
	uint8_t bytes[16];
};

struct initiators {
	size_t count;
	struct initiator_rule rules[TARGET_INITIATORS_MAX];
};

/*
 * "10.0.0.7", "10.0.0.0/8", "fd00::/64", "unix", "any".
 *
 * @ret  set only on success; nothing to free
 *
 * -EINVAL: a row that is none of these, named in @err, or too many of them.
 */
int initiators_parse(const char *const *list, size_t n, struct initiators *ret,
		     struct error *err);

/* An empty list admits nobody. */
bool initiators_admit(const struct initiators *list,
		      const struct peer_address *peer);

#endif
