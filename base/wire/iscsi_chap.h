/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secrets of CHAP (RFC 1994), as target and initiator read them from a
 * file. They never reach a log.
 */
#ifndef BASE_ISCSI_CHAP_H
#define BASE_ISCSI_CHAP_H

#include "base/error.h"

#define ISCSI_CHAP_NAME_MAX   255 /* bytes; ours */
#define ISCSI_CHAP_SECRET_MAX 255 /* bytes; ours */
#define ISCSI_CHAP_SECRET_MIN 12  /* bytes; RFC 7143 9.2.1: 96 bits */

/* Of one target. "" as user: no CHAP; as mutual_user: we prove nothing. */
struct iscsi_chap_secrets {
	char user[ISCSI_CHAP_NAME_MAX + 1];
	char secret[ISCSI_CHAP_SECRET_MAX + 1];
	char mutual_user[ISCSI_CHAP_NAME_MAX + 1];
	char mutual_secret[ISCSI_CHAP_SECRET_MAX + 1];
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
int iscsi_chap_load(const char *path, struct iscsi_chap_secrets *ret,
		    struct error *err);

/*
 * -EINVAL: a user without a secret, a secret that is too short, or the same
 * both ways (RFC 7143 9.2.1).
 */
int iscsi_chap_check(const struct iscsi_chap_secrets *secrets,
		     struct error *err);

#endif
