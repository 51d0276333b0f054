/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of peers that may connect, in which a peer is looked up. The syntax
 * is that of proto/blockd.proto, SetExportRequest.
 */
#ifndef TARGET_INITIATORS_H
#define TARGET_INITIATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/net/peer.h"
#include "target/target.h"

enum initiator_proof {
	INITIATOR_ADDRESS, /* where it comes from is enough */
	INITIATOR_TLS,     /* it has proved @name; "*": any */
	INITIATOR_ISCSI,   /* it logs in as @name */
};

/* A row of a list of initiators. */
struct initiator_rule {
	enum initiator_proof proof;
	sa_family_t family; /* AF_UNSPEC: any */
	uint8_t prefix;     /* bits that must be the same */
	uint8_t bytes[16];
	char name[INITIATOR_NAME_MAX + 1]; /* "": none */
};

struct initiators {
	size_t count;
	struct initiator_rule rules[TARGET_INITIATORS_MAX];
};

/*
 * Parse rows like "10.0.0.7", "10.0.0.0/8", "fd00::/64", "unix" and "any". The
 * row "tls:NAME" is for a peer that has proved to be called that, "tls:*" for a
 * peer that has proved any name. The row "tls:NAME@ADDRESS" asks for a name and
 * an address. The rows "iscsi:NAME" and "iscsi:NAME@ADDRESS" are for an iSCSI
 * initiator of that name. Rows that are only of addresses count for both
 * protocols, the others for one.
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

/* The list does not admit @peer now, but may with a name proved by TLS. */
bool initiators_want_tls(const struct initiators *list,
			 const struct peer_address *peer);

#endif
