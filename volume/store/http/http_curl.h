/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of every request: connection, trust, token. Inside
 * http_client.c and http_stream.c, the only users of libcurl.
 */
#ifndef VOLUME_HTTP_CURL_H
#define VOLUME_HTTP_CURL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "volume/store/http/http_client.h"

#define HTTP_IDLE_MAX 8 /* connections kept for the next call */

struct http_client {
	const struct http_peer *peer; /* not changed */
	atomic_uint server;           /* index of the one to ask */
	pthread_mutex_t lock;         /* guards what follows */
	CURL *idle[HTTP_IDLE_MAX];
	size_t n_idle;
	atomic_llong ahead_s; /* the server's clock before ours */
};

/* With the token, as it is now, or @anonymous. http_curl_headers_free(). */
int http_curl_headers(struct http_client *http, bool anonymous,
		      struct curl_slist **ret, struct error *err);
void http_curl_headers_free(struct curl_slist *headers);

/*
 * Set every option but method, body, time limit and the answer's callbacks.
 * @problem: CURL_ERROR_SIZE bytes. All are borrowed while @handle has them.
 */
void http_curl_options(CURL *handle, struct http_client *http, const char *url,
		       struct curl_slist *headers, char *problem);

/* The server to ask now; borrowed for the client's life. */
const char *http_curl_server(struct http_client *http);
/* Ask the next one from now on: @server did not answer. */
void http_curl_next(struct http_client *http, const char *server);

/* Set http_client_now() by an answer that was quick. */
void http_curl_read_date(CURL *handle, struct http_client *http);
/* Seconds; -1: not said. */
int64_t http_curl_retry_after(CURL *handle);
/* Tell whether one side does not trust the other; @problem: curl's words. */
bool http_curl_is_certificate(CURLcode code, const char *problem);

#endif
