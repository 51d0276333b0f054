/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small certificate authority, for control between the hosts of a cluster: a
 * directory with its key and certificate, and what it signs. Keys are of the
 * curve P-256 (RFC 5480), certificates of version 3 (RFC 5280).
 */
#ifndef CLI_PKI_H
#define CLI_PKI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PKI_AUTHORITY_DAYS 3650
#define PKI_DAYS           90 /* of a certificate, unless asked otherwise */
#define PKI_DAYS_MAX       36500
#define PKI_HOSTS_MAX      16
#define PKI_NAME_SIZE      65 /* bytes with NUL; ub-common-name, RFC 5280 A.1 */
#define PKI_HOST_SIZE      256 /* bytes with NUL */

/* The files of a directory. */
#define PKI_AUTHORITY_CERT "ca.crt" /* also beside each certificate */
#define PKI_AUTHORITY_KEY  "ca.key"
#define PKI_CERT           "tls.crt"
#define PKI_KEY            "tls.key"

/* What a certificate says. */
struct pki_cert {
	char name[PKI_NAME_SIZE];                 /* common name */
	char hosts[PKI_HOSTS_MAX][PKI_HOST_SIZE]; /* DNS names and addresses */
	size_t n_hosts;
	bool authority, server, client;
	int64_t from_s, end_s; /* valid in between; seconds of the epoch */
};

/* PEM texts; pki_files_done() by the caller. */
struct pki_files {
	char *authority, *cert, *key; /* owned */
};
void pki_files_done(struct pki_files *files);

/*
 * Make an authority in @dir, which is made with mode 0700 if missing. One that
 * is there stays as it is: *@ret_made is false then. -EEXIST: only one of its
 * two files is there.
 */
int pki_authority_make(const char *dir, const char *name, unsigned days,
		       bool *ret_made, struct error *err);

/*
 * Sign a new key as @wanted says (name, hosts, server, client), for @days. It
 * ends with the authority at the latest. -ENOENT: @dir has no authority.
 * -EINVAL: a name or host that no certificate can have; an authority that
 * has expired.
 */
int pki_issue(const char *dir, const struct pki_cert *wanted, unsigned days,
	      struct pki_files *ret, struct error *err);

/*
 * Write @files to @dir, made with mode 0700 if missing. Each file is replaced
 * at once, but not the three together: a reader in between finds a key that
 * does not fit, and reads again.
 */
int pki_files_write(const char *dir, const struct pki_files *files,
		    struct error *err);

/* Read the first certificate of @file, PEM. -EINVAL: it has none. */
int pki_cert_read(const char *file, struct pki_cert *ret, struct error *err);

/* How long it was made for; at least 1. */
unsigned pki_cert_days(const struct pki_cert *cert);

/* Is less than a third of its time left? Then it is to be renewed. */
bool pki_cert_is_due(const struct pki_cert *cert, int64_t now_s);

#endif
