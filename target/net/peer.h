/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of a connection: its address, and the names that it has proved
 * by TLS or given as an iSCSI initiator.
 */
#ifndef TARGET_PEER_H
#define TARGET_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PEER_NAME_MAX  128 /* bytes with the NUL; ours */
#define PEER_NAMES_MAX 16  /* of one peer; ours */

/* Names that a peer has proved, by a certificate or a key. */
struct peer_names {
	unsigned count;
	char items[PEER_NAMES_MAX][PEER_NAME_MAX];
};

/* Leave out a name that is too long, has a NUL or unprintable bytes, or is one
 * too many. */
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

#endif
