/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of CHAP (RFC 1994), as target and initiator read them from a
 * file. They never reach a log.
 */
#ifndef BASE_CHAP_SECRETS_H
#define BASE_CHAP_SECRETS_H

#include "base/error.h"

#define CHAP_NAME_MAX   255 /* bytes; ours */
#define CHAP_SECRET_MAX 255 /* bytes; ours */
#define CHAP_SECRET_MIN 12  /* bytes; RFC 7143 9.2.1: 96 bits */

/* Of one target. "" as user: no CHAP; as mutual_user: we prove nothing. */
struct chap_secrets {
	char user[CHAP_NAME_MAX + 1];
	char secret[CHAP_SECRET_MAX + 1];
	char mutual_user[CHAP_NAME_MAX + 1];
	char mutual_secret[CHAP_SECRET_MAX + 1];
};

/*
 * Read secrets from a file: "user", "secret", "mutual-user" and
 * "mutual-secret", each on a line of its own. After the word comes a space or
 * tab, then the value as it is to the end of the line. Empty lines and those
 * that begin with '#' count for nothing.
 *
 * -EINVAL names the line; -EPERM: others than its owner may read the file.
 * No error says a secret.
 */
int chap_secrets_load(const char *path, struct chap_secrets *ret,
		      struct error *err);

/*
 * -EINVAL: a user without a secret, a secret that is too short, or the same
 * both ways (RFC 7143 9.2.1).
 */
int chap_secrets_check(const struct chap_secrets *secrets, struct error *err);

#endif
