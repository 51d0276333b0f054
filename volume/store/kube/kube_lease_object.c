/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_lease_object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_http.h"
#include "volume/store/kube/api/kube_time.h"
#include "volume/store/kube/kube_lease.h"

#define ANNOTATION_DOING "union.io/doing"
#define HOST_SIZE        65 /* bytes with NUL; HOST_NAME_MAX */
#define SLACK_S          (KUBE_CLOCK_SLACK_MS / 1000 + 1) /* of the holder's clock */

/* "HOST/PID/START/NAMESPACE/BOOT/RANDOM" */
struct identity {
	char host[HOST_SIZE];
	pid_t pid;
	unsigned long long start_ticks, pid_space;
	char boot_id[UUID_TEXT_SIZE];
};

int lease_who_make(struct lease_who *who, struct error *err)
{
	char host[HOST_SIZE] = "", random[UUID_TEXT_SIZE];
	unsigned long long start_ticks = 0;
	struct stat st = {0};
	int r = process_start_time(getpid(), &start_ticks);

	if (r == 0)
		r = boot_id_read(who->boot_id);
	if (r == 0 && stat("/proc/self/ns/pid", &st) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, -r, "reading /proc: %s", strerror(-r));
	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		(void)strcpy(host, "unknown");
	host[strcspn(host, "/ ")] = '\0';
	who->pid_space = st.st_ino;
	(void)snprintf(who->identity, sizeof(who->identity),
		       "%s/%d/%llu/%llu/%s/%.8s", host, getpid(), start_ticks,
		       who->pid_space, who->boot_id, uuid_make(random));
	return 0;
}

static bool identity_parse(const char *text, struct identity *ret)
{
	return sscanf(text, "%64[^/]/%d/%llu/%llu/%36[^/]/", ret->host,
		      &ret->pid, &ret->start_ticks, &ret->pid_space,
		      ret->boot_id) == 5 &&
	       ret->pid > 0;
}

/* Tell whether the holder was on this machine, and its process is no more. */
static bool holder_died(const struct lease_who *who,
			const struct identity *holder)
{
	return strcmp(holder->boot_id, who->boot_id) == 0 &&
	       holder->pid_space == who->pid_space &&
	       !process_alive(holder->pid, holder->start_ticks);
}

/* ---- the object ---- */

static int64_t duration_of(struct json_object *object)
{
	struct json_object *spec = NULL, *found = NULL;
	int64_t seconds = 0;

	if (json_object_object_get_ex(object, "spec", &spec) &&
	    json_object_object_get_ex(spec, "leaseDurationSeconds", &found))
		seconds = json_object_get_int64(found);
	return seconds > 0 && seconds < 86400 ? seconds : KUBE_LEASE_S;
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
	json_add_number(spec, "leaseDurationSeconds", KUBE_LEASE_S);
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
	struct identity who = {0};
	const char *doing = kube_text(lease_member(meta, "annotations"), NULL,
				      ANNOTATION_DOING);
	bool known = identity_parse(holder, &who);

	/* Ours: the answer to an earlier request did not reach us. */
	if (!holder[0] || strcmp(holder, us->identity) == 0 ||
	    now > kube_time_of(object, "spec", "renewTime") +
			    duration_of(object) + SLACK_S ||
	    (known && holder_died(us, &who)))
		return 0;
	if (!known)
		return error_set(err, EAGAIN,
				 "busy: '%.100s' is at work on '%s'; try again "
				 "later",
				 holder, what);
	return error_set(err, EAGAIN,
			 "busy: process %d on %s has been %.60s '%s' for "
			 "%" PRId64 " s; try again later",
			 who.pid, who.host, doing[0] ? doing : "busy with",
			 what,
			 now - kube_time_of(object, "spec", "acquireTime"));
}
