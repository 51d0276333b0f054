/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_lease_object.h"

#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/kube/api/kube_time.h"
#include "volume/store/lease_table.h"

#define ANNOTATION_DOING "union.io/doing"
#define SLACK_S          (HTTP_CLOCK_SLACK_MS / 1000 + 1) /* of the holder's clock */

static int64_t duration_of(struct json_object *object)
{
	struct json_object *spec = NULL, *found = NULL;
	int64_t seconds = 0;

	if (json_object_object_get_ex(object, "spec", &spec) &&
	    json_object_object_get_ex(spec, "leaseDurationSeconds", &found))
		seconds = json_object_get_int64(found);
	return seconds > 0 && seconds < 86400 ? seconds : LEASE_S;
}

static struct json_object *lease_member(struct json_object *in, const char *key)
{
	struct json_object *found = NULL;

	if (!json_object_object_get_ex(in, key, &found) ||
	    !json_object_is_type(found, json_type_object)) {
		found = json_object_new_object();
		json_add(in, key, found);
	}
	return found;
}

void lease_object_fill(struct json_object *object, const struct lease_who *who,
		       int64_t now, const char *doing)
{
	struct json_object *spec = lease_member(object, "spec");
	struct json_object *meta = lease_member(object, "metadata");

	json_add_text(spec, "holderIdentity", who->identity);
	json_add_number(spec, "leaseDurationSeconds", LEASE_S);
	json_add(spec, "acquireTime", kube_time_new(now));
	json_add(spec, "renewTime", kube_time_new(now));
	json_add_text(lease_member(meta, "annotations"), ANNOTATION_DOING,
		      doing);
}

void lease_object_renew(struct json_object *object, int64_t now)
{
	json_add(lease_member(object, "spec"), "renewTime", kube_time_new(now));
}

struct json_object *lease_object_new(const char *name)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "apiVersion", "coordination.k8s.io/v1");
	json_add_text(object, "kind", "Lease");
	json_add_text(lease_member(object, "metadata"), "name", name);
	return object;
}

/* 0 when @object may be taken over. */
int lease_object_free_check(struct json_object *object,
			    const struct lease_who *us, int64_t now,
			    const char *what, struct error *err)
{
	const char *holder = kube_text(object, "spec", "holderIdentity");
	struct json_object *meta = lease_member(object, "metadata");
	const char *doing = kube_text(lease_member(meta, "annotations"), NULL,
				      ANNOTATION_DOING);

	/* Ours: the answer to an earlier request did not reach us. */
	if (!holder[0] || strcmp(holder, us->identity) == 0 ||
	    now > kube_time_of(object, "spec", "renewTime") +
			    duration_of(object) + SLACK_S ||
	    lease_who_died(us, holder))
		return 0;
	return lease_who_busy(holder, doing, what,
			      now - kube_time_of(object, "spec", "acquireTime"),
			      err);
}
