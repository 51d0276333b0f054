/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_lease.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/store/kube/kube_lease_object.h"
#include "volume/store/kube/kube_object.h"

struct kube_leases {
	struct kube_http *http;
	struct lease_who us;
	struct lease_table *table;
};

static int lease_name(const struct kube_resource *resource, const char *name,
		      char *ret, struct error *err)
{
	int r = kube_name_check(resource->kind, name, err);

	if (r == 0)
		(void)snprintf(ret, LEASE_NAME_SIZE, "%s-%s",
			       resource->singular, name);
	return r;
}

/* @name NULL: of all. It always fits. */
static void lease_path(struct kube_leases *leases, const char *name, char *ret)
{
	(void)snprintf(ret, KUBE_PATH_SIZE,
		       "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s",
		       kube_http_namespace(leases->http), name ? "/" : "",
		       name ? name : "");
}

/*
 * The lease that is there already, if its holder is no more. -ESTALE, -ENOENT:
 * somebody was faster, look again.
 */
static int take_over(struct kube_leases *leases, const char *name,
		     const char *what, const char *doing,
		     struct json_object **ret, struct error *err)
{
	struct json_object *object = NULL;
	char path[KUBE_PATH_SIZE];
	int r;

	lease_path(leases, name, path);
	r = kube_call(leases->http, "GET", path, NULL, true, &object, err);
	if (r == 0)
		r = lease_object_free_check(object, &leases->us,
					    kube_http_now(leases->http), what,
					    err);
	if (r == 0) {
		lease_object_fill(object, &leases->us,
				  kube_http_now(leases->http), doing);
		r = kube_call(leases->http, "PUT", path, object, false, ret,
			      err);
	}
	json_object_put(object);
	return r;
}

static int kube_lease_take_once(void *leases_, const char *name,
				const char *what, const char *doing,
				struct json_object **ret, struct error *err)
{
	struct kube_leases *leases = leases_;
	struct json_object *object = lease_object_new(name);
	char path[KUBE_PATH_SIZE];
	int r;

	lease_object_fill(object, &leases->us, kube_http_now(leases->http),
			  doing);
	lease_path(leases, NULL, path);
	r = kube_call(leases->http, "POST", path, object, false, ret, err);
	json_object_put(object);
	return r == -EEXIST ? take_over(leases, name, what, doing, ret, err)
			    : r;
}

/* @object: the lease as last seen. */
static int kube_lease_renew(void *leases_, const char *name,
			    struct json_object *object,
			    struct json_object **ret)
{
	struct kube_leases *leases = leases_;
	char path[KUBE_PATH_SIZE];
	int r;

	lease_path(leases, name, path);
	lease_object_renew(object, kube_http_now(leases->http));
	r = kube_call_within(leases->http, "PUT", path, object, true,
			     LEASE_RENEW_MS, ret, NULL);
	json_object_put(object);
	if (r != -ESTALE)
		return r;
	/*
	 * Written by another, or by us and the answer was lost; or removed:
	 * a Lease is made by a PUT too, but not one of this uid.
	 */
	object = NULL;
	r = kube_call_within(leases->http, "GET", path, NULL, true,
			     LEASE_RENEW_MS, &object, NULL);
	if (r < 0)
		return r == -ENOENT ? r : -EHOSTUNREACH;
	r = -ESTALE;
	if (strcmp(kube_text(object, "spec", "holderIdentity"),
		   leases->us.identity) == 0) {
		lease_object_renew(object, kube_http_now(leases->http));
		r = kube_call_within(leases->http, "PUT", path, object, true,
				     LEASE_RENEW_MS, ret, NULL);
	}
	json_object_put(object);
	return r;
}

/*
 * Delete the lease as we wrote it last, so never one that another took
 * meanwhile.
 */
static void kube_lease_give(void *leases_, const char *name,
			    struct json_object *object)
{
	struct kube_leases *leases = leases_;
	struct json_object *options = kube_object_deletion(object);
	char path[KUBE_PATH_SIZE];

	lease_path(leases, name, path);
	/* A lease that cannot be given back expires. */
	(void)kube_call_within(leases->http, "DELETE", path, options, true,
			       LEASE_RENEW_MS, NULL, NULL);
	json_object_put(options);
}

static const struct lease_ops kube_lease_ops = {
	.take = kube_lease_take_once,
	.renew = kube_lease_renew,
	.give = kube_lease_give,
};

int kube_lease_take(struct kube_leases *leases,
		    const struct kube_resource *resource, const char *name,
		    const char *doing, struct error *err)
{
	char full[LEASE_NAME_SIZE];
	int r = lease_name(resource, name, full, err);

	return r < 0 ? r
		     : lease_table_take(leases->table, full, name, doing, err);
}

int kube_lease_holds(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err)
{
	char full[LEASE_NAME_SIZE];
	int r = lease_name(resource, name, full, err);

	return r < 0 ? r : lease_table_holds(leases->table, full, name, err);
}

void kube_lease_release(struct kube_leases *leases,
			const struct kube_resource *resource, const char *name)
{
	char full[LEASE_NAME_SIZE];

	if (lease_name(resource, name, full, NULL) == 0)
		lease_table_release(leases->table, full);
}

int kube_lease_check(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err)
{
	char full[LEASE_NAME_SIZE];
	int r = lease_name(resource, name, full, err);

	return r < 0 ? r : lease_table_check(leases->table, full, name, err);
}

int kube_leases_new(struct kube_http *http, struct kube_leases **ret,
		    struct error *err)
{
	struct kube_leases *leases = calloc(1, sizeof(*leases));
	int r;

	if (!leases)
		return error_set(err, ENOMEM, "out of memory");
	leases->http = http;
	r = lease_who_make(&leases->us, err);
	if (r == 0)
		r = lease_table_new(&kube_lease_ops, leases, &leases->table,
				    err);
	if (r < 0) {
		kube_leases_free(leases);
		return r;
	}
	*ret = leases;
	return 0;
}

void kube_leases_free(struct kube_leases *leases)
{
	if (!leases)
		return;
	lease_table_free(leases->table);
	free(leases);
}
