/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node record of open-iscsi: the file in which iscsiadm keeps how to log in
 * to one target at one portal. It has "key = value" lines between "# BEGIN
 * RECORD" and "# END RECORD". iscsiadm makes and removes the file. Our settings
 * in it are written here, because secrets must not be arguments of a program.
 */
#ifndef INITIATOR_ISCSI_RECORD_H
#define INITIATOR_ISCSI_RECORD_H

#include <stddef.h>

#include "base/error.h"
#include "base/wire/chap_secrets.h"

#define ISCSI_RECORD_SIZE_MAX 65536 /* bytes of the file */
#define ISCSI_RECORD_END      "# END RECORD"

struct iscsi_setting {
	const char *key;
	const char *value; /* "": remove the line */
};

/*
 * Edit @text: put these settings in place of those it has. Settings that it
 * lacks are added before its end.
 *
 * Returns 0, -EINVAL or -ENOMEM. -EINVAL: no record, or a value that open-iscsi
 * would not read back as it is. The text of the error says which key, never the
 * value.
 *
 * @ret  owned; wipe it before it is freed when a setting is a secret
 */
int iscsi_record_edit(const char *text, const struct iscsi_setting *settings,
		      size_t n, char **ret, struct error *err);

/* The options of a login. */
struct iscsi_record_options {
	unsigned dead_timeout_s;            /* then I/O fails */
	const struct chap_secrets *secrets; /* NULL: no CHAP */
};

/*
 * Write the options, and our other settings of a session, into the record that
 * iscsiadm made for @target at @portal ("HOST:PORT") and the interface @iface.
 * Mode 0600. -ENOENT: there is none where open-iscsi is known to keep them.
 */
int iscsi_record_write(const char *portal, const char *target,
		       const char *iface,
		       const struct iscsi_record_options *options,
		       struct error *err);

/*
 * Does open-iscsi know the interface @iface? Then something of ours may be
 * left.
 */
int iscsi_record_has_iface(const char *iface);

#endif
