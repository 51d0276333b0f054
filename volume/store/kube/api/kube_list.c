/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ESCAPED_SIZE (3 * KUBE_TOKEN_SIZE)
#define PAGE_MAX     500   /* objects of one page */
#define PAGES_MAX    10000 /* of one list */

struct list {
	struct kube_http *http;
	const char *path;
	int timeout_ms;
	kube_list_item item;
	void *context;
	unsigned limit; /* objects of the next page */
	char *token;    /* borrowed; of the next page; "" at the ends */
	char version[RECORD_VERSION_SIZE];
};

/* Percent-escape all but RFC 3986 2.3, unreserved. */
static int token_escape(const char *token, char *ret, struct error *err)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789-._~";
	size_t used = 0;

	for (; *token; token++) {
		if (used + 4 > ESCAPED_SIZE)
			return error_set(err, EINVAL,
					 "a continue token is too long");
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
	char full[KUBE_PATH_SIZE + ESCAPED_SIZE + 64], token[ESCAPED_SIZE];
	const char *join = strchr(list->path, '?') ? "&" : "?";
	int r = token_escape(list->token, token, err);

	if (r < 0)
		return r;
	do {
		(void)snprintf(full, sizeof(full), "%s%slimit=%u%s%s",
			       list->path, join, list->limit,
			       token[0] ? "&continue=" : "", token);
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
	int r = 0;

	(void)snprintf(list->version, sizeof(list->version), "%s",
		       kube_text(page, "metadata", "resourceVersion"));
	if (snprintf(list->token, KUBE_TOKEN_SIZE, "%s",
		     kube_text(page, "metadata", "continue")) >=
	    KUBE_TOKEN_SIZE)
		return error_set(err, EPROTO,
				 "the list's continue token is too long");
	if (!json_object_object_get_ex(page, "items", &items) ||
	    !json_object_is_type(items, json_type_array))
		return error_set(err, EPROTO, "a list without items");
	n = json_object_array_length(items);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(items, i);

		if (!json_object_is_type(item, json_type_object))
			return error_set(err, EPROTO, "an item is no object");
		r = list->item(list->context, item, err);
	}
	return r;
}

int kube_list_page(struct kube_http *http, const char *path, int timeout_ms,
		   unsigned limit, char *token, kube_list_item item,
		   void *context, char *ret_version, struct error *err)
{
	struct list list = {.http = http,
			    .path = path,
			    .timeout_ms = timeout_ms,
			    .item = item,
			    .context = context,
			    .limit = limit,
			    .token = token};
	struct json_object *page = NULL;
	int r = page_get(&list, &page, err);

	if (r < 0)
		return r;
	r = page_read(&list, page, err);
	json_object_put(page);
	if (r == 0 && ret_version)
		memcpy(ret_version, list.version, sizeof(list.version));
	return r;
}

int kube_list(struct kube_http *http, const char *path, int timeout_ms,
	      kube_list_item item, void *context, char *ret_version,
	      struct error *err)
{
	char token[KUBE_TOKEN_SIZE] = "";
	unsigned pages = 0;
	int r;

	do
		r = pages++ == PAGES_MAX
			    ? error_set(err, E2BIG, "more than %d pages",
					PAGES_MAX)
			    : kube_list_page(http, path, timeout_ms, PAGE_MAX,
					     token, item, context, ret_version,
					     err);
	while (r == 0 && token[0]);
	return r;
}
