/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that certificates are valid, and the reason why no connection by TLS
 * comes about.
 */
#ifndef RPC_CERT_H
#define RPC_CERT_H

#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "rpc/rpc_address.h"

#define RPC_CERT_SOON_S (30 * 86400) /* a warning comes so long before */

struct rpc_cert {
	const char *file;      /* borrowed */
	int64_t from_s, end_s; /* valid in between; seconds of the epoch */
};

/* The rule for several certificates in one file. */
enum rpc_cert_kind {
	RPC_CERT_CHAIN, /* all of them are needed */
	RPC_CERT_CA,    /* any of them will do */
};

/* Read when @file, PEM, is valid. Negative errno: it cannot be read so. */
int rpc_cert_read(const char *file, enum rpc_cert_kind kind,
		  struct rpc_cert *ret, struct error *err);

/*
 * Warn that "certificate 'F' expired on ..." or that it will within
 * RPC_CERT_SOON_S. @ret_text: ERROR_TEXT_MAX bytes. false: there is nothing to
 * say.
 */
bool rpc_cert_warns(const struct rpc_cert *cert, int64_t now_s, char *ret_text);

/*
 * Warn likewise of both files of @tls (NULL, or a file that is NULL or "":
 * nothing).
 */
bool rpc_cert_warns_of(const struct rpc_tls *tls, int64_t now_s,
		       char *ret_text);

/*
 * Connect to a server and find out why that cannot be: whose certificate is
 * not accepted and why, or that no TLS is spoken. Takes some seconds at most.
 * @ret_text: ERROR_TEXT_MAX bytes. false: nothing is known.
 */
bool rpc_cert_why_not(const struct rpc_address *address,
		      const struct rpc_tls *tls, char *ret_text);

#endif
