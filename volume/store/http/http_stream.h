/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that goes on: a watch. */
#ifndef VOLUME_HTTP_STREAM_H
#define VOLUME_HTTP_STREAM_H

#include "volume/store/http/http_client.h"

/* @bytes: the next of the answer. Other than 0: hang up and return that. */
typedef int (*http_stream_data)(void *context, const char *bytes, size_t length,
				struct error *err);

struct http_stream_request {
	const char *path;
	const char *body; /* JSON to POST; NULL: GET */
	int timeout_ms;   /* of all of it; then it is -EHOSTUNREACH */
	/*
	 * The first byte is there after this, or it is -EHOSTUNREACH. Then
	 * @timeout_ms is a good end. 0: the server ends it.
	 */
	int first_ms;
	int stop_fd; /* readable: hang up, -ECANCELED; -1: none */
};

/*
 * Send the request and hand on the answer's body until its end.
 *
 * @ret          an answer whose status is not 200 (then @data was not
 *		 called); http_answer_done(). status 0: there was none
 * @ret_after_s  what Retry-After says; -1: nothing
 *
 * 0: the body is at its end, or *ret is set. -EHOSTUNREACH: no answer, or one
 * cut off; -EACCES; -EMSGSIZE as http_client_call(); and what @data returns.
 */
int http_stream(struct http_client *http,
		const struct http_stream_request *request,
		http_stream_data data, void *context, struct http_answer *ret,
		int64_t *ret_after_s, struct error *err);

#endif
