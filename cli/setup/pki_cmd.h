/* SPDX-License-Identifier: Apache-2.0 */
/* What commands with certificates share. */
#ifndef CLI_PKI_CMD_H
#define CLI_PKI_CMD_H

#include "cli/text/cli.h"

#define PKI_AUTHORITY_DIR "/etc/tributary/ca"  /* unless --ca says another */
#define PKI_OWN_DIR       "/etc/tributary/tls" /* of a host's certificate */

/* The directory of the authority; borrowed. */
const char *pki_authority_dir(const struct cli *cli);

/* --days, or @otherwise. */
unsigned pki_days(const struct cli *cli, unsigned otherwise);

#endif
