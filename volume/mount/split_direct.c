/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/split_direct.h"

#include <errno.h>
#include <string.h>

static int pause_of(struct node_client *client,
		    const struct volume_record *record,
		    const struct node_extent *extent, struct split_direct *ret,
		    struct error *err)
{
	if (!extent->direct.device[0])
		return 0;
	ret->client = client;
	ret->epoch = extent->epoch;
	memcpy(ret->device, extent->direct.device, sizeof(ret->device));
	return node_client_detach_direct(client, extent->name, extent->epoch,
					 volume_record_grant(record), NULL,
					 err);
}

int split_direct_pause(struct volume_context *ctx,
		       const struct volume_record *record,
		       const struct volume_split *split,
		       struct split_direct *ret, struct error *err)
{
	struct node_record node = {0};
	struct node_extent extent = {0};
	struct node_client *client;
	int r;

	*ret = (struct split_direct){.client = NULL};
	if (strcmp(split->node, ctx->node) != 0)
		return 0;
	r = context_node_load(ctx, split->node, &node, err);
	if (r == 0)
		r = context_client_of(ctx, &node, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0)
		r = pause_of(client, record, &extent, ret, err);
	node_extent_done(&extent);
	node_record_done(&node);
	return r;
}

int split_direct_go_on(const struct split_direct *direct,
		       const struct volume_record *record,
		       const struct volume_split *split, int r,
		       struct error *err)
{
	struct error why = {0};
	int again = direct->client ? node_client_attach_direct(
					     direct->client, split->extent,
					     direct->epoch,
					     volume_record_grant(record),
					     direct->device, NULL, &why)
				   : 0;

	if (r < 0 || again == 0 || again == -EOPNOTSUPP)
		return r;
	return error_set(err, -again, "%s", error_text(&why));
}
