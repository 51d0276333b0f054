/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of a node's blockd, read into plain structs. An answer that does not
 * fit is -EPROTO: it is not ours to use.
 */
#ifndef VOLUME_NODE_ANSWER_H
#define VOLUME_NODE_ANSWER_H

#include "volume/node/node_client_internal.h"

/* -EPROTO, with the node and what of its answer is bad. */
int node_answer_bad(const struct node_client *client, const char *what,
		    struct error *err);

/* Copy a text that has to fit into @size bytes with NUL; false: it does not. */
bool node_answer_take(char *ret, size_t size, const char *text);
/* Copy a text for people: cut when it is too long. */
void node_answer_take_some(char *ret, size_t size, const char *text);

int node_answer_pool(const struct node_client *client,
		     const Tributary__V1__Pool *m, struct node_pool *ret,
		     struct error *err);
/* Returned owned. */
int node_answer_pools(const struct node_client *client, size_t n,
		      Tributary__V1__Pool **m, struct node_pool **ret,
		      size_t *ret_count, struct error *err);

/* node_extent_done() frees its members. */
int node_answer_extent(const struct node_client *client,
		       const Tributary__V1__Extent *m, struct node_extent *ret,
		       struct error *err);
/* node_extents_free(). */
int node_answer_extents(const struct node_client *client, size_t n,
			Tributary__V1__Extent **m, struct node_extent **ret,
			struct error *err);

#endif
