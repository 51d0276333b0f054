/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Lease of coordination.k8s.io/v1 as an object: who holds it, since when,
 * and whether another may have it. No server is asked. All times are seconds
 * since 1970 of the API server's clock.
 */
#ifndef VOLUME_KUBE_LEASE_OBJECT_H
#define VOLUME_KUBE_LEASE_OBJECT_H

#include <json-c/json.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/store/lease_who.h"

/* Returned owned. */
struct json_object *lease_object_new(const char *name);
/* Fill in a lease that is taken @now by @who, for @doing something. */
void lease_object_fill(struct json_object *object, const struct lease_who *who,
		       int64_t now, const char *doing);
/* Still held @now. */
void lease_object_renew(struct json_object *object, int64_t now);
/*
 * Check that a lease is free: ours, nobody's, or its holder's time is over.
 * -EAGAIN: the text says which process is at work on @what.
 */
int lease_object_free_check(struct json_object *object,
			    const struct lease_who *us, int64_t now,
			    const char *what, struct error *err);

#endif
