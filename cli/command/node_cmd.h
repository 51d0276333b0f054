/* SPDX-License-Identifier: Apache-2.0 */
/* What `trib node add` and `trib node register` share. */
#ifndef CLI_NODE_CMD_H
#define CLI_NODE_CMD_H

#include "cli/text/cli.h"

/*
 * A record of the options both have: --data, --allow, --tls-*.
 *
 * @control  NULL: none
 * @ret      zeroed; node_record_done() by the caller, also on failure
 */
int node_fill(const struct cli *cli, const char *name, const char *control,
	      const struct option_list *labels, struct node_record *ret,
	      struct error *err);

#endif
