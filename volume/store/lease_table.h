/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases that this process holds in a store behind a network. While there are
 * some, a thread renews them. Each store says how a lease is taken. Only stores
 * use this header.
 */
#ifndef VOLUME_LEASE_TABLE_H
#define VOLUME_LEASE_TABLE_H

#include <json-c/json.h>

#include "base/error.h"

#define LEASE_S       15 /* seconds; as Kubernetes' own controllers */
#define LEASE_RENEW_S 5
#define LEASE_RENEW_MS \
	4000 /* for one request of a renewal; two fit in the rest */
#define LEASE_NAME_SIZE 160 /* bytes with NUL, "storagenode-NAME" */
#define LEASES_MAX      256 /* held at once by one process */

struct lease_table;

/* Calls come from any thread, but one at a time for one lease. */
struct lease_ops {
	/*
	 * Take the lease @name; nobody else takes it within LEASE_S of the
	 * call. @what: its object, for messages. @ret: what the others need,
	 * returned owned. -EAGAIN: as the lease of struct store_ops. -ESTALE,
	 * -ENOENT: somebody was faster, call again.
	 */
	int (*take)(void *context, const char *name, const char *what,
		    const char *doing, struct json_object **ret,
		    struct error *err);
	/*
	 * Renew it for LEASE_S from the call on. Takes @token; @ret is the
	 * next. -ESTALE, -ENOENT: it is lost.
	 */
	int (*renew)(void *context, const char *name, struct json_object *token,
		     struct json_object **ret);
	/* Give it back, but never one that another took meanwhile. */
	void (*give)(void *context, const char *name,
		     struct json_object *token);
};

/* @context: borrowed for its life. */
int lease_table_new(const struct lease_ops *ops, void *context,
		    struct lease_table **ret, struct error *err);
/*
 * Free the table. Leases that are still held are no longer renewed, and are not
 * given back.
 */
void lease_table_free(struct lease_table *leases); /* NULL is fine */

/* As struct store_ops has them. @what: the object, for messages. */
int lease_table_take(struct lease_table *leases, const char *name,
		     const char *what, const char *doing, struct error *err);
int lease_table_holds(struct lease_table *leases, const char *name,
		      const char *what, struct error *err);
void lease_table_release(struct lease_table *leases, const char *name);

/*
 * -ESTALE: we took the lease and then lost it, as it could not be renewed in
 * time or somebody removed it. The present holder may be at work.
 */
int lease_table_check(struct lease_table *leases, const char *name,
		      const char *what, struct error *err);
/* The token of a lease that is held, returned owned; NULL: it is not. */
struct json_object *lease_table_token(struct lease_table *leases,
				      const char *name);

#endif
