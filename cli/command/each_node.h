/* SPDX-License-Identifier: Apache-2.0 */
/* A command about every node. */
#ifndef CLI_EACH_NODE_H
#define CLI_EACH_NODE_H

#include "cli/text/cli.h"
#include "volume/volume.h"

typedef int (*cli_node_fn)(struct cli *cli, const struct node_state *node,
			   void *context, struct error *err);

/*
 * Call @each for every node that answers. One that does not, or of which
 * @each fails, is told of on standard error and left out.
 */
int cli_each_node(struct cli *cli, cli_node_fn each, void *context,
		  struct error *err);

#endif
