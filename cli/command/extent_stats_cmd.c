/* SPDX-License-Identifier: Apache-2.0 */
/* trib extent stats: what is done through an export, and by whom. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/extent_cmd.h"
#include "cli/text/json.h"
#include "volume/extent/export_stats.h"

static struct json_object *json_operation(const struct operation_stats *o)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "operation", o->operation);
	json_put_number(object, "count", o->count);
	json_put_number(object, "errors", o->errors);
	json_put_number(object, "bytes", o->bytes);
	json_put_number(object, "totalMicroseconds", o->total_us);
	json_put_number(object, "p50Microseconds", o->p50_us);
	json_put_number(object, "p99Microseconds", o->p99_us);
	return object;
}

static struct json_object *json_connection(const struct connection_stats *c)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "peer", c->peer);
	json_put_text(object, "features", c->features);
	json_put_number(object, "ageMilliseconds", c->age_ms);
	json_put_number(object, "count", c->count);
	json_put_number(object, "errors", c->errors);
	json_put_number(object, "bytes", c->bytes);
	return object;
}

static struct json_object *json_use(const struct export_use *use)
{
	struct json_object *object = json_object_new_object();
	struct json_object *operations = json_object_new_array();
	struct json_object *connections = json_object_new_array();

	for (size_t i = 0; i < use->n_operations; i++)
		json_object_array_add(operations,
				      json_operation(&use->operations[i]));
	for (size_t i = 0; i < use->n_connections; i++)
		json_object_array_add(connections,
				      json_connection(&use->connections[i]));
	json_object_object_add(object, "operations", operations);
	json_object_object_add(object, "connections", connections);
	return object;
}

static void use_print(const struct export_use *use)
{
	char text[SIZE_TEXT_MAX];

	if (use->n_operations > 0)
		(void)printf("%-13s %12s %8s %10s %12s %12s\n", "OPERATION",
			     "COUNT", "ERRORS", "BYTES", "HALF WITHIN",
			     "99% WITHIN");
	else
		(void)puts("nothing was done yet");
	for (size_t i = 0; i < use->n_operations; i++) {
		const struct operation_stats *o = &use->operations[i];

		(void)printf("%-13s %12llu %8llu %10s %9llu us %9llu us\n",
			     o->operation, (unsigned long long)o->count,
			     (unsigned long long)o->errors,
			     size_format(text, o->bytes),
			     (unsigned long long)o->p50_us,
			     (unsigned long long)o->p99_us);
	}
	for (size_t i = 0; i < use->n_connections; i++) {
		const struct connection_stats *c = &use->connections[i];

		(void)printf("connection from %s: %s; %llu s, %llu operations, "
			     "%llu errors, %s\n",
			     c->peer, c->features,
			     (unsigned long long)c->age_ms / 1000,
			     (unsigned long long)c->count,
			     (unsigned long long)c->errors,
			     size_format(text, c->bytes));
	}
}

int extent_stats_run(struct cli *cli, struct error *err)
{
	struct export_use use = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_stats(cli->volumes, at.node, at.name, &use,
					err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_use(&use)))
		use_print(&use);
	free(use.connections);
	return 0;
}
