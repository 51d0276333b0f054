/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect: the address of a peer, the names it has proved by TLS or
 * given as an iSCSI initiator, and the list they are looked up in. The syntax
 * is that of proto/blockd.proto, SetExportRequest.
 */
#ifndef TARGET_INITIATORS_H
#define TARGET_INITIATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "target/target.h"

#define PEER_NAME_MAX  128 /* bytes with the NUL; ours */
#define PEER_NAMES_MAX 16  /* of one peer; ours */

/* What a peer has proved to be called, by a certificate or a key. */
struct peer_names {
	unsigned count;
	char items[PEER_NAMES_MAX][PEER_NAME_MAX];
};

/* One too long, with a NUL or unprintable, or one too many is left out. */
void peer_names_add(struct peer_names *names, const char *name, size_t length);

/* An IPv4 address inside IPv6 (RFC 4291 2.5.5.2) is kept as IPv4. */
struct peer_address {
	sa_family_t family; /* AF_INET, AF_INET6, AF_UNIX */
	uint8_t bytes[16];  /* 4 of them for AF_INET, none for AF_UNIX */
	const struct peer_names *names; /* borrowed; NULL: none, without TLS */
	const char *initiator; /* iSCSI name; borrowed; NULL: not by iSCSI */
};

/* Bytes of an iSCSI name; RFC 7143 4.2.7.1 */
#define INITIATOR_NAME_MAX 223

/* bytes with the NUL */
#define PEER_ADDRESS_TEXT_MAX (64 + INITIATOR_NAME_MAX + 1)

/* -EAFNOSUPPORT for any other family. */
int peer_address_from(const struct sockaddr *address, struct peer_address *ret);

/*
 * "10.0.0.7", "fd00::1 (node-1)", "10.0.0.7 (iqn.1993-08.org.debian:01:ab)",
 * "the unix socket"; returns @buf.
 */
const char *peer_address_format(const struct peer_address *peer, char *buf,
				size_t size);

enum initiator_proof {
	INITIATOR_ADDRESS, /* where it comes from is enough */
	INITIATOR_TLS,     /* it has proved @name; "*": any */
	INITIATOR_ISCSI,   /* it logs in as @name */
};

/* One row of a list. */
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
 * "10.0.0.7", "10.0.0.0/8", "fd00::/64", "unix", "any"; "tls:NAME" for one
 * that has proved to be called that, "tls:*" for one that has proved any name,
 * "tls:NAME@ADDRESS" for both; "iscsi:NAME" and "iscsi:NAME@ADDRESS" for an
 * iSCSI initiator of that name. Rows that are only of addresses count for both
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

/* It does not admit @peer as it came, but may with a name proved by TLS. */
bool initiators_want_tls(const struct initiators *list,
			 const struct peer_address *peer);

#endif
