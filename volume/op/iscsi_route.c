/* SPDX-License-Identifier: Apache-2.0 */
/* The way to an extent by iSCSI, from its node's answer. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "volume/op/context.h"

/* The length of HOST in "HOST:PORT", brackets and all. */
static size_t host_length(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon ? (size_t)(colon - address) : strlen(address);
}

static bool same_host(const char *a, const char *b)
{
	size_t length = host_length(a);

	return length == host_length(b) && strncmp(a, b, length) == 0;
}

static bool is_wildcard(const char *portal)
{
	static const char *const all[] = {"0.0.0.0:", "[::]:", "*:"};

	for (size_t i = 0; i < array_size(all); i++)
		if (strncmp(portal, all[i], strlen(all[i])) == 0)
			return true;
	return false;
}

/*
 * The host that NBD is reached at is the one known to be right from here; a
 * portal that is open to all addresses is there, too.
 */
static void choose_portal(const struct node_extent *extent, const char *data,
			  char *ret)
{
	const bool tcp = strncmp(data, "unix:", 5) != 0;
	const char *any = NULL;

	for (size_t i = 0; i < extent->n_iscsi_portals; i++) {
		const char *portal = extent->iscsi_portals[i];

		if (is_wildcard(portal)) {
			if (!tcp)
				continue;
			(void)snprintf(ret, NODE_ADDRESS_SIZE, "%.*s%s",
				       (int)host_length(data), data,
				       portal + host_length(portal));
			return;
		}
		if (tcp && same_host(portal, data)) {
			(void)snprintf(ret, NODE_ADDRESS_SIZE, "%s", portal);
			return;
		}
		any = any ? any : portal;
	}
	(void)snprintf(ret, NODE_ADDRESS_SIZE, "%s", any ? any : "");
}

static bool secrets_try(const struct volume_context *ctx, const char *name,
			char *ret)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", ctx->iscsi_secrets, name);

	return n < PATH_MAX && access(ret, F_OK) == 0;
}

void context_iscsi_route(const struct volume_context *ctx,
			 const struct node_extent *extent,
			 const char *data_address, struct iscsi_route *ret)
{
	choose_portal(extent, data_address, ret->portal);
	if (!extent->iscsi_name[0])
		ret->portal[0] = '\0';
	if (!ctx->iscsi_secrets[0] ||
	    (!secrets_try(ctx, extent->name, ret->chap_file) &&
	     !secrets_try(ctx, "default", ret->chap_file)))
		ret->chap_file[0] = '\0';
}

void iscsi_route_fill(const struct iscsi_route *route,
		      const struct node_extent *extent,
		      struct initiator_request *request)
{
	if (!route->portal[0])
		return;
	request->iscsi_portal = route->portal;
	request->iscsi_target = extent->iscsi_name;
	request->identity = extent->id;
	if (route->chap_file[0])
		request->chap_file = route->chap_file;
}
