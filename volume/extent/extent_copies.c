/* SPDX-License-Identifier: Apache-2.0 */
/* extents.h: clones, revert, limits; volume.h: looking after pools. */
#include <errno.h>

#include "base/size.h"
#include "volume/extent/extent_internal.h"

int volume_extent_clone(struct volume_context *ctx,
			const struct extent_clone_request *request,
			struct node_extent *ret, struct error *err)
{
	struct node_extent_request wanted = {
		.name = request->name,
		.source = request->source,
		.labels = request->labels,
		.thick = request->thick,
		.limits = request->limits,
	};
	struct node_client *client = NULL;
	struct node_extent source = {0};
	int r = name_check("extent", request->name, err);

	if (r == 0)
		r = extent_client(ctx, request->node, request->source, &client,
				  err);
	if (r == 0 && size_round_up(request->size, 4096, &wanted.size) < 0)
		r = error_set(err, ERANGE, "the size is too large");
	if (r == 0)
		r = node_client_get_extent(client, request->source, &source,
					   err);
	if (r < 0)
		return r;
	if (!wanted.size)
		wanted.size = source.size;
	wanted.source_id = source.id;
	r = node_client_create_extent(client, &wanted, ret, err);
	node_extent_done(&source);
	return r;
}

int volume_extent_revert(struct volume_context *ctx, const char *node,
			 const char *name, const char *snapshot, bool force,
			 struct node_extent *ret, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = name_check("snapshot", snapshot, err);

	if (r == 0)
		r = extent_get_free(ctx, node, name, force, &client, &extent,
				    err);
	if (r < 0)
		return r;
	r = node_client_revert_extent(client, name, extent.id, snapshot, ret,
				      err);
	node_extent_done(&extent);
	return r;
}

int volume_extent_limit(struct volume_context *ctx, const char *node,
			const char *name, const struct node_limits *limits,
			struct node_extent *ret, struct error *err)
{
	struct node_client *client = NULL;
	int r = extent_client(ctx, node, name, &client, err);

	return r < 0 ? r
		     : node_client_set_limits(client, name, limits, ret, err);
}

int volume_extent_ranges(struct volume_context *ctx, const char *node,
			 const struct node_ranges_request *request,
			 node_range each, void *context, uint64_t *ret_size,
			 struct error *err)
{
	struct node_client *client = NULL;
	int r = extent_client(ctx, node, request->name, &client, err);

	if (r == 0 && request->older)
		r = name_check("snapshot", request->older, err);
	return r < 0 ? r
		     : node_client_list_ranges(client, request, each, context,
					       ret_size, err);
}

/* ---- pools ---- */

static int pool_client(struct volume_context *ctx, const char *node,
		       const char *name, struct node_client **ret,
		       struct error *err)
{
	int r = name_check("node", node, err);

	if (r == 0)
		r = name_check("pool", name, err);
	return r < 0 ? r : context_client(ctx, node, ret, err);
}

int volume_pool_check(struct volume_context *ctx, const char *node,
		      const char *name, bool repair, struct node_check *ret,
		      struct error *err)
{
	struct node_client *client = NULL;
	int r = pool_client(ctx, node, name, &client, err);

	return r < 0 ? r
		     : node_client_check_pool(client, name, repair, ret, err);
}

int volume_pool_grow(struct volume_context *ctx, const char *node,
		     const char *name, struct node_pool *ret, struct error *err)
{
	struct node_client *client = NULL;
	int r = pool_client(ctx, node, name, &client, err);

	return r < 0 ? r : node_client_grow_pool(client, name, ret, err);
}
