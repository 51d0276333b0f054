/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases that all processes of a cluster see: objects of
 * coordination.k8s.io/v1, named KIND-NAME in the records' namespace.
 *
 * A lease that was not renewed for LEASE_S is anybody's; time is the
 * API server's (kube_http_now()), so it does not matter how our clocks
 * differ. One of a process that died on this machine (same boot, same
 * process namespace) is anybody's at once.
 */
#ifndef VOLUME_KUBE_LEASE_H
#define VOLUME_KUBE_LEASE_H

#include "base/error.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/lease_table.h"

struct kube_leases;

/* @http: borrowed for its life. */
int kube_leases_new(struct kube_http *http, struct kube_leases **ret,
		    struct error *err);
/*
 * Free the table. Leases that are still held are no longer renewed, and are not
 * given back.
 */
void kube_leases_free(struct kube_leases *leases); /* NULL is fine */

/* As struct store_ops has them. */
int kube_lease_take(struct kube_leases *leases,
		    const struct kube_resource *resource, const char *name,
		    const char *doing, struct error *err);
int kube_lease_holds(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err);
void kube_lease_release(struct kube_leases *leases,
			const struct kube_resource *resource, const char *name);

/*
 * -ESTALE: we took the lease and then lost it, as it could not be renewed in
 * time or somebody removed it. The present holder may be at work.
 */
int kube_lease_check(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err);

#endif
