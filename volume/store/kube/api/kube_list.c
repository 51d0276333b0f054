/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PAGE_MAX     500  /* objects of one page */
#define CONTINUE_MAX 8192 /* bytes of a continue token, escaped */

struct list {
	struct kube_http *http;
	const char *path;
	int timeout_ms;
	kube_list_item item;
	void *context;
	size_t count;
	unsigned limit;           /* objects of the next page */
	char token[CONTINUE_MAX]; /* of the next page; "" at the ends */
	char version[RECORD_VERSION_SIZE];
};

/* Percent-escape all but RFC 3986 2.3, unreserved. */
static int token_escape(const char *token, char *ret, struct error *err)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789-._~";
	size_t used = 0;

	for (; *token; token++) {
		if (used + 4 > CONTINUE_MAX)
			return error_set(err, EPROTO,
					 "the list's continue token is too "
					 "long");
		if (strchr(plain, *token))
			ret[used++] = *token;
		else
			used += (size_t)snprintf(ret + used, 4, "%%%02X",
						 (unsigned char)*token);
	}
	ret[used] = '\0';
	return 0;
}

/* Pages too large for us are asked for again with fewer objects. */
static int page_get(struct list *list, struct json_object **ret,
		    struct error *err)
{
	char full[KUBE_PATH_SIZE + CONTINUE_MAX + 64];
	const char *join = strchr(list->path, '?') ? "&" : "?";
	int r;

	do {
		(void)snprintf(full, sizeof(full), "%s%slimit=%u%s%s",
			       list->path, join, list->limit,
			       list->token[0] ? "&continue=" : "", list->token);
		r = kube_call_within(list->http, "GET", full, NULL, true,
				     list->timeout_ms, ret, err);
		if (r != -EMSGSIZE || list->limit == 1)
			break;
		list->limit = list->limit > 8 ? list->limit / 8 : 1;
	} while (true);
	return r;
}

static int page_read(struct list *list, struct json_object *page,
		     struct error *err)
{
	struct json_object *items = NULL;
	size_t n;
	int r;

	(void)snprintf(list->version, sizeof(list->version), "%s",
		       kube_text(page, "metadata", "resourceVersion"));
	r = token_escape(kube_text(page, "metadata", "continue"), list->token,
			 err);
	if (r < 0)
		return r;
	if (!json_object_object_get_ex(page, "items", &items) ||
	    !json_object_is_type(items, json_type_array))
		return error_set(err, EPROTO, "a list without items");
	n = json_object_array_length(items);
	list->count += n;
	if (list->count > KUBE_LIST_MAX)
		return error_set(err, E2BIG, "more than %d objects of a kind",
				 KUBE_LIST_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(items, i);

		if (!json_object_is_type(item, json_type_object))
			return error_set(err, EPROTO, "an item is no object");
		r = list->item(list->context, item, err);
	}
	return r;
}

int kube_list(struct kube_http *http, const char *path, int timeout_ms,
	      kube_list_item item, void *context, char *ret_version,
	      struct error *err)
{
	struct list list = {.http = http,
			    .path = path,
			    .timeout_ms = timeout_ms,
			    .item = item,
			    .context = context,
			    .limit = PAGE_MAX};
	int r;

	do {
		struct json_object *page = NULL;

		r = page_get(&list, &page, err);
		if (r < 0)
			return r;
		r = page_read(&list, page, err);
		json_object_put(page);
	} while (r == 0 && list.token[0]);
	if (r == 0 && ret_version)
		memcpy(ret_version, list.version, sizeof(list.version));
	return r;
}
