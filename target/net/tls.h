/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for the connections of a target, without sockets. The bytes that the peer
 * sent are put in, those to be sent are taken out. On the other side are plain
 * bytes. The only user of GnuTLS.
 *
 * Peers prove their names by a certificate that the CA has signed, or by a
 * key of the PSK file (RFC 4279, RFC 8446 4.2.11). Either gives names, which
 * "tls:NAME" in a list of initiators stands for (initiators.h).
 */
#ifndef TARGET_TLS_H
#define TARGET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/net/peer.h"

/* Bytes of a peer taken in before they are deciphered, at most. */
#define TLS_INPUT_SIZE (UINT32_C(128) << 10)

/* Bytes to send that collect before more are enciphered, about. */
#define TLS_OUTPUT_SIZE (UINT32_C(256) << 10)

struct tls_files {
	const char *cert; /* PEM, the chain; NULL: no certificates */
	const char *key;  /* PEM, its key; goes with @cert */
	/* PEM; NULL: clients are not asked for certificates. */
	const char *ca;
	/*
	 * Lines "NAME:KEY IN HEX" (psktool makes them); NULL: none. Looked
	 * up at each handshake, so names may come and go.
	 */
	const char *psk;
};

/* Credentials; shared by all threads, nothing in it changes. */
struct tls_server;

/*
 * Make a server side of TLS. -EINVAL: neither a certificate nor a PSK file, or
 * a malformed file. -EPERM: a secret that others can read.
 */
int tls_server_new(const struct tls_files *files, struct tls_server **ret,
		   struct error *err);
void tls_server_free(struct tls_server *server); /* NULL is fine */

/* The TLS of one connection; on its loop. */
struct tls_session;

/* @server: borrowed. -ENOMEM. */
int tls_session_new(const struct tls_server *server, struct tls_session **ret);
void tls_session_free(struct tls_session *session); /* NULL is fine */

/* Return the place for bytes from the socket; @ret_length: bytes of room. */
void *tls_session_room(struct tls_session *session, uint32_t *ret_length);
void tls_session_put(struct tls_session *session, uint32_t length);

/* The bytes to send; and note that @length of them were sent. */
const void *tls_session_output(struct tls_session *session, size_t *ret_length);
void tls_session_sent(struct tls_session *session, size_t length);

/*
 * Go on with the handshake. 0: it is done; -EAGAIN: send the output, put more
 * in; -EPROTO: it failed, @err says why (the alert is in the output).
 */
int tls_session_handshake(struct tls_session *session, struct error *err);
bool tls_session_open(const struct tls_session *session);

/* Of the peer, once it is open; borrowed until the session is freed. */
const struct peer_names *tls_session_names(const struct tls_session *session);

/* "TLS1.3 AES-256-GCM"; borrowed from @buf. */
const char *tls_session_describe(const struct tls_session *session, char *buf,
				 size_t size);

/*
 * Decipher up to @length bytes. Returns how many, -EAGAIN: put more in, 0: the
 * peer has ended it, or -EPROTO.
 */
ssize_t tls_session_read(struct tls_session *session, void *data,
			 size_t length);

/*
 * Encipher some of @data; returns how much, 0: send the output first, or
 * -EPROTO. Whole records (16 KiB) cost least.
 */
ssize_t tls_session_write(struct tls_session *session, const void *data,
			  size_t length);

/* Say goodbye: adds to the output. */
void tls_session_end(struct tls_session *session);

#endif
