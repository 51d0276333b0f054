/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the API server, page by page. */
#ifndef VOLUME_KUBE_LIST_H
#define VOLUME_KUBE_LIST_H

#include "volume/record/volume_record.h"
#include "volume/store/kube/api/kube_call.h"

#define KUBE_LIST_MAX 100000 /* objects of one list */

/* @item: one of the list, an object, without apiVersion and kind; borrowed. */
typedef int (*kube_list_item)(void *context, struct json_object *item,
			      struct error *err);

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
