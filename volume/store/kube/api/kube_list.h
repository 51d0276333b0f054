/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the API server, page by page. */
#ifndef VOLUME_KUBE_LIST_H
#define VOLUME_KUBE_LIST_H

#include "volume/record/volume_record.h"
#include "volume/store/kube/api/kube_call.h"

#define KUBE_TOKEN_SIZE 2048 /* bytes with NUL of a continue token */

/* @item: one of the list, an object, without apiVersion and kind; borrowed. */
typedef int (*kube_list_item)(void *context, struct json_object *item,
			      struct error *err);

/*
 * Call @item for the next page of everything at @path, in order of name.
 *
 * @limit  objects at most; less when they are too much for one answer
 * @token  KUBE_TOKEN_SIZE bytes: continue there, "" for the first; becomes that
 *         of the next page, "" when this was the last
 *
 * -ESTALE: the server forgot the moment of @token. -EINVAL: @token is none of
 * its own. Otherwise as kube_list().
 */
int kube_list_page(struct kube_http *http, const char *path, int timeout_ms,
		   unsigned limit, char *token, kube_list_item item,
		   void *context, char *ret_version, struct error *err);

/*
 * Call @item for everything at @path, which may end in a query ("?a=b"), as
 * of one moment.
 *
 * @timeout_ms   of each request; 0: kube_call()'s
 * @ret_version  RECORD_VERSION_SIZE bytes: the moment that a watch goes on
 *               from; may be NULL
 *
 * -ESTALE: the list took so long that the server forgot that moment: begin
 * again. -E2BIG. Further the errors of @item and of kube_call().
 */
int kube_list(struct kube_http *http, const char *path, int timeout_ms,
	      kube_list_item item, void *context, char *ret_version,
	      struct error *err);

#endif
