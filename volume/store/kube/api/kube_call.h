/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the Kubernetes API: paths and JSON in, objects and our errors
 * out.
 */
#ifndef VOLUME_KUBE_CALL_H
#define VOLUME_KUBE_CALL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "volume/store/kube/api/kube_http.h"

#define KUBE_PATH_SIZE 1024 /* bytes with NUL; without a continue token */
#define KUBE_TEXT_SIZE 400  /* bytes with NUL: a server's text, quoted */

/* A kind of object, as it stands in paths. */
struct kube_resource {
	const char *kind;      /* "VolumeSplit" */
	const char *group;     /* "union.io"; "": Kubernetes' oldest */
	const char *version;   /* "v1alpha1" */
	const char *plural;    /* "volumesplits" */
	const char *singular;  /* "volumesplit": in our leases' names */
	const char *finalizer; /* NULL: none of ours */
};

/*
 * "/apis/GROUP/VERSION/namespaces/NS/PLURAL[/NAME[/SUB]]". @name and @sub
 * may be NULL. -EINVAL: @name can be none of an object there.
 */
int kube_path(struct kube_http *http, const struct kube_resource *resource,
	      const char *name, const char *sub, char *ret, struct error *err);

/* name_check() and RFC 1123 subdomain, as Kubernetes wants it. -EINVAL. */
int kube_name_check(const char *kind, const char *name, struct error *err);

/*
 * @body  borrowed; NULL: none
 * @ret   the answer's object, returned owned; may be NULL
 *
 * -ENOENT: no such object. -ENXIO: no such resource or namespace, the text says
 * what to install. -EEXIST. -ESTALE: changed since, or (410) a list's continue
 * token is too old. -EACCES: the text says what to grant. -EINVAL: refused by
 * the schema. -E2BIG. -EHOSTUNREACH: down, overloaded or failing. -EPROTO: no
 * API server. Further the errors of http_client_call().
 */
int kube_call(struct kube_http *http, const char *method, const char *path,
	      struct json_object *body, bool repeatable,
	      struct json_object **ret, struct error *err);

/*
 * kube_call() that ends after about @timeout_ms: one attempt lasts that long
 * at most, and none begins later.
 */
int kube_call_within(struct kube_http *http, const char *method,
		     const char *path, struct json_object *body,
		     bool repeatable, int timeout_ms, struct json_object **ret,
		     struct error *err);

/* Return the error of @answer, whose status is not 2xx; the same errors. */
int kube_refused(struct kube_http *http, const struct http_answer *answer,
		 const char *path, struct error *err);

/* Text at "a.b" of @object (NULL is fine); "" when there is none. Borrowed. */
const char *kube_text(struct json_object *object, const char *a, const char *b);

#endif
