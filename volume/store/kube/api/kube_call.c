/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "volume/record/json_scan.h"

int kube_name_check(const char *kind, const char *name, struct error *err)
{
	int r = name_check(kind, name, err);

	if (r < 0)
		return r;
	if (strchr(name, '_') || strstr(name, ".-") || strstr(name, "-."))
		return error_set(err, EINVAL,
				 "the %s name '%s' cannot be an object's in "
				 "Kubernetes: no '_', and a letter or digit on "
				 "both sides of '.'",
				 kind, name);
	return 0;
}

int kube_path(struct kube_http *http, const struct kube_resource *resource,
	      const char *name, const char *sub, char *ret, struct error *err)
{
	int r = name ? kube_name_check(resource->kind, name, err) : 0;

	if (r < 0)
		return r;
	(void)snprintf(ret, KUBE_PATH_SIZE, "/%s%s/%s/namespaces/%s/%s%s%s%s%s",
		       resource->group[0] ? "apis/" : "api", resource->group,
		       resource->version, kube_http_namespace(http),
		       resource->plural, name ? "/" : "", name ? name : "",
		       sub ? "/" : "", sub ? sub : "");
	return 0;
}

const char *kube_text(struct json_object *object, const char *a, const char *b)
{
	struct json_object *found = object;

	if (a && !json_object_object_get_ex(object, a, &found))
		return "";
	if (!json_object_object_get_ex(found, b, &found) ||
	    !json_object_is_type(found, json_type_string))
		return "";
	return json_object_get_string(found);
}

/* Write the error in the server's words, made safe to show. */
static void reason_text(struct json_object *status,
			const struct http_answer *answer, char *ret)
{
	const char *text = kube_text(status, NULL, "message");
	size_t length;

	if (!text[0])
		text = answer->body;
	length = strnlen(text, KUBE_TEXT_SIZE);
	while (length > 0 &&
	       (text[length - 1] == '\n' || text[length - 1] == ' '))
		length--;
	(void)log_quote(ret, KUBE_TEXT_SIZE, text, (unsigned)length);
}

static int not_found(struct json_object *status, const char *path,
		     const char *text, struct error *err)
{
	const char *kind = kube_text(status, "details", "kind");

	if (strcmp(kind, "namespaces") == 0)
		return error_set(err, ENXIO,
				 "the namespace is not there (%.200s): "
				 "kubectl create namespace",
				 text);
	if (!kube_text(status, "details", "name")[0])
		return error_set(err, ENXIO,
				 "the API server does not know %.120s: install "
				 "deploy/crd (kubectl apply -f deploy/crd)",
				 path);
	return error_set(err, ENOENT, "%.300s", text);
}

static int refused(struct kube_http *http, const struct http_answer *answer,
		   struct json_object *status, const char *path,
		   struct error *err)
{
	char text[KUBE_TEXT_SIZE];

	reason_text(status, answer, text);
	switch (answer->status) {
	case 401:
		return error_set(err, EACCES,
				 "the API server does not accept our token or "
				 "certificate: %.300s",
				 text);
	case 403:
		return error_set(
			err, EACCES,
			"%.320s; grant it by a Role and RoleBinding in "
			"namespace '%s'",
			text, kube_http_namespace(http));
	case 404: return not_found(status, path, text, err);
	case 409:
		return error_set(err,
				 strcmp(kube_text(status, NULL, "reason"),
					"AlreadyExists") == 0
					 ? EEXIST
					 : ESTALE,
				 "%.380s", text);
	case 410: return error_set(err, ESTALE, "%.380s", text);
	case 413: return error_set(err, E2BIG, "%.380s", text);
	case 429:
		return error_set(err, EHOSTUNREACH,
				 "the API server is overloaded: %.300s; try "
				 "again later",
				 text);
	default:
		if (answer->status >= 500)
			return error_set(err, EHOSTUNREACH,
					 "the API server failed (HTTP %ld): "
					 "%.300s; try again later",
					 answer->status, text);
		return error_set(err, EINVAL,
				 "the API server refused it (HTTP %ld): %.380s",
				 answer->status, text);
	}
}

/*
 * Drop the list of who wrote which field. It is as large as the object, and
 * kept by the server.
 */
static void drop_managed(struct json_object *object)
{
	struct json_object *meta = NULL;

	if (json_object_object_get_ex(object, "metadata", &meta) &&
	    json_object_is_type(meta, json_type_object))
		json_object_object_del(meta, "managedFields");
}

int kube_refused(struct kube_http *http, const struct http_answer *answer,
		 const char *path, struct error *err)
{
	struct json_object *status = NULL;
	int r;

	if (answer->body)
		(void)json_scan_parse(answer->body, answer->length,
				      HTTP_BODY_MAX, &status, NULL);
	r = refused(http, answer, status, path, err);
	json_object_put(status);
	return r;
}

int kube_call(struct kube_http *http, const char *method, const char *path,
	      struct json_object *body, bool repeatable,
	      struct json_object **ret, struct error *err)
{
	return kube_call_within(http, method, path, body, repeatable, 0, ret,
				err);
}

int kube_call_within(struct kube_http *http, const char *method,
		     const char *path, struct json_object *body,
		     bool repeatable, int timeout_ms, struct json_object **ret,
		     struct error *err)
{
	struct http_request request = {.method = method,
				       .path = path,
				       .repeatable = repeatable,
				       .timeout_ms = timeout_ms};
	struct http_answer answer = {0};
	struct json_object *object = NULL;
	struct error why = {0};
	int r;

	if (body)
		request.body = json_object_to_json_string_ext(
			body, JSON_C_TO_STRING_PLAIN |
				      JSON_C_TO_STRING_NOSLASHESCAPE);
	r = http_client_call(http->client, &request, &answer, err);
	if (r < 0)
		return r;
	r = json_scan_parse(answer.body, answer.length, HTTP_BODY_MAX, &object,
			    &why);
	if (answer.status < 200 || answer.status > 299)
		r = refused(http, &answer, object, path, err);
	else if (r < 0)
		r = error_set(
			err, EPROTO,
			"the address does not answer as a Kubernetes API server: %s",
			why.msg);
	http_answer_done(&answer);
	if (r == 0)
		drop_managed(object);
	if (r == 0 && ret)
		*ret = object;
	else
		json_object_put(object);
	return r;
}
