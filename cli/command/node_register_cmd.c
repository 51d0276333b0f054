/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/notify.h"
#include "cli/command/command.h"
#include "cli/command/node_cmd.h"
#include "volume/cluster/node_agent.h"

static void node_register_told(void *name, bool problem, const char *text)
{
	if (problem)
		log_warning("%s", text);
	else
		log_info("node %s: %s", (const char *)name, text);
	if (!problem)
		(void)notify_send("READY=1"); /* nobody to tell it to */
}

static int register_once(struct cli *cli,
			 const struct node_agent_request *request,
			 struct error *err)
{
	int r = volume_node_register(cli->volumes, request, err);

	if (r == 0)
		cli_say(cli, "node %s registered", request->node->name);
	return r;
}

static int node_keep_known(struct cli *cli,
			   const struct node_agent_request *request,
			   struct error *err)
{
	int r;

	log_setup("trib",
		  cli->options.quiet ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO);
	r = volume_node_agent_run(cli->volumes, request, err);
	(void)notify_send("STOPPING=1"); /* nobody to tell it to */
	return r;
}

int node_register_run(struct cli *cli, struct error *err)
{
	const struct cli_options *o = &cli->options;
	const char *own = volume_context_node(cli->volumes);
	struct node_record node = {0};
	struct node_agent_request request = {
		.node = &node,
		.local_control = o->control,
		.stop_fd = cli->stop_fd,
		.told = node_register_told,
	};
	int r;

	if (!o->control != !o->data)
		return cli_usage(cli, err,
				 "say where the node is, --control ADDRESS "
				 "--data ADDRESS, or neither, when it only "
				 "uses volumes");
	r = node_fill(cli, o->name ?: own, o->advertise_control ?: o->control,
		      &o->label, &node, err);
	request.context = node.name;
	if (r == 0)
		r = o->keep ? node_keep_known(cli, &request, err)
			    : register_once(cli, &request, err);
	node_record_done(&node);
	return r;
}
