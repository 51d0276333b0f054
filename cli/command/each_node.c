/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/each_node.h"

#include <errno.h>
#include <stdio.h>

int cli_each_node(struct cli *cli, cli_node_fn each, void *context,
		  struct error *err)
{
	struct node_state *nodes = NULL;
	size_t n = 0;
	int r = volume_node_list(cli->volumes, &nodes, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		struct error problem = {0};

		if (nodes[i].reachable)
			r = each(cli, &nodes[i], context, &problem);
		else
			r = error_set(&problem, EHOSTUNREACH, "%s",
				      nodes[i].problem);
		if (r < 0)
			(void)fprintf(stderr, "trib: node %s: %s\n",
				      nodes[i].record.name,
				      error_text(&problem));
	}
	node_states_free(nodes, n);
	return 0;
}
