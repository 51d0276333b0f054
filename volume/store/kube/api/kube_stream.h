/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of the API server that goes on: a watch. */
#ifndef VOLUME_KUBE_STREAM_H
#define VOLUME_KUBE_STREAM_H

#include "volume/store/kube/api/kube_http.h"

/* @bytes: the next of the answer. Other than 0: hang up and return that. */
typedef int (*kube_stream_data)(void *context, const char *bytes, size_t length,
				struct error *err);

/*
 * GET @path and hand on its body until the server ends it.
 *
 * @timeout_ms   of all of it; then it is -EHOSTUNREACH
 * @stop_fd      readable: hang up, -ECANCELED; -1: none
 * @ret          an answer whose status is not 200 (then @data was not
 *		 called); kube_answer_done(). status 0: there was none
 * @ret_after_s  what Retry-After says; -1: nothing
 *
 * 0: the body is at its end, or *ret is set. -EHOSTUNREACH: no answer, or one
 * cut off; -EACCES; -EMSGSIZE as kube_http_call(); and what @data returns.
 */
int kube_stream(struct kube_http *http, const char *path, int timeout_ms,
		int stop_fd, kube_stream_data data, void *context,
		struct kube_answer *ret, int64_t *ret_after_s,
		struct error *err);

#endif
