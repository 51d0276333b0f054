/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/extent/extents.h"

int attach_run(struct cli *cli, struct error *err)
{
	struct initiator_device device = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_attach(
			cli->volumes,
			&(struct extent_attach_request){
				.node = at.node,
				.name = at.name,
				.transport = cli->options.transport,
				.read_only = cli->options.read_only,
				.force = cli->options.force,
			},
			&device, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_device(&device))) {
		(void)puts(device.device);
		if (!cli->options.quiet && device.why[0])
			(void)fprintf(stderr, "%s: %s\n", device.transport,
				      device.why);
	}
	return 0;
}

int detach_run(struct cli *cli, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_detach(cli->volumes, at.node, at.name, err);
	if (r == 0)
		cli_say(cli, "extent %s/%s is not attached here any more",
			at.node, at.name);
	return r;
}

static void device_row(struct table *table,
		       const struct initiator_device *device)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s", device->device[0] ? device->device : "-");
	table_cell(table, "%s", device->id);
	table_cell(table, "%s", device->transport);
	table_cell(table, "%s", size_format(text, device->size));
	table_cell(table, "%s", device->read_only ? "ro" : "rw");
	table_cell(table, "%s", device->healthy ? "ok" : device->problem);
	table_cell(table, "%s", device->source);
}

int devices_run(struct cli *cli, struct error *err)
{
	auto_free struct initiator_device *devices = NULL;
	struct cli_list list = {json_object_new_array(),
				table_new("DEVICE", "EXTENT", "BY", "SIZE>",
					  "MODE", "STATE", "SOURCE", NULL)};
	size_t n = 0;
	int r = volume_device_list(cli->volumes, &devices, &n, err);

	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list.all, json_device(&devices[i]));
		device_row(list.table, &devices[i]);
	}
	return cli_list_end(cli, &list, r);
}
