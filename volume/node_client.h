/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to one node's blockd (proto/blockd.proto), in plain structs. What a
 * node answers is checked for size before it is copied: -EPROTO.
 *
 * Every error's text starts with the node's name. -EHOSTUNREACH and
 * -ETIMEDOUT: whether it was carried out is unknown; repeat.
 */
#ifndef VOLUME_NODE_CLIENT_H
#define VOLUME_NODE_CLIENT_H

#include "volume/node.h"

struct node_client; /* any thread */

/* Does not connect yet. */
int node_client_new(const struct node_record *node, int timeout_ms,
		    struct node_client **ret, struct error *err);
void node_client_free(struct node_client *client); /* NULL is fine */

/* Fills everything but record, reachable and problem; pools are owned. */
int node_client_get(struct node_client *client, struct node_state *ret,
		    struct error *err);

int node_client_create_pool(struct node_client *client, const char *name,
			    const char *path, uint64_t capacity,
			    unsigned overcommit_percent, bool force,
			    struct node_pool *ret, struct error *err);
int node_client_list_pools(struct node_client *client, struct node_pool **ret,
			   size_t *ret_count, struct error *err);
int node_client_delete_pool(struct node_client *client, const char *name,
			    struct error *err);

/*
 * Those that return an extent: @ret NULL when it does not matter, else
 * node_extent_done() frees its members.
 */
int node_client_create_extent(struct node_client *client, const char *pool,
			      const char *name, uint64_t size,
			      const struct labels *labels,
			      struct node_extent *ret, struct error *err);
int node_client_get_extent(struct node_client *client, const char *name,
			   struct node_extent *ret, struct error *err);
/* @pool "": of all. */
int node_client_list_extents(struct node_client *client, const char *pool,
			     struct node_extent **ret, size_t *ret_count,
			     struct error *err);
int node_client_resize_extent(struct node_client *client, const char *name,
			      uint64_t size, struct node_extent *ret,
			      struct error *err);
/* @id "": whichever has the name. */
int node_client_delete_extent(struct node_client *client, const char *name,
			      const char *id, struct error *err);
int node_client_set_export(struct node_client *client, const char *name,
			   uint64_t epoch, const char *const *initiators,
			   size_t n_initiators, bool read_only,
			   struct node_extent *ret, struct error *err);
int node_client_remove_export(struct node_client *client, const char *name,
			      uint64_t epoch, struct node_extent *ret,
			      struct error *err);

#endif
