/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of every request to the API server: connection, trust, token.
 * Inside kube_http.c and kube_stream.c, the only users of libcurl.
 */
#ifndef VOLUME_KUBE_CURL_H
#define VOLUME_KUBE_CURL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "volume/store/kube/api/kube_http.h"

#define KUBE_IDLE_MAX 8 /* connections kept for the next call */

struct kube_http {
	struct kube_config config; /* not changed */
	pthread_mutex_t lock;      /* guards what follows */
	CURL *idle[KUBE_IDLE_MAX];
	size_t n_idle;
	atomic_llong ahead_s; /* the server's clock before ours */
};

/* With the token, as it is now. kube_curl_headers_free(). */
int kube_curl_headers(struct kube_http *http, struct curl_slist **ret,
		      struct error *err);
void kube_curl_headers_free(struct curl_slist *headers);

/*
 * All but method, body, time limit and what becomes of the answer.
 * @problem: CURL_ERROR_SIZE bytes. All are borrowed while @handle has them.
 */
void kube_curl_options(CURL *handle, struct kube_http *http, const char *url,
		       struct curl_slist *headers, char *problem);

/* Set kube_http_now() by an answer that was quick. */
void kube_curl_read_date(CURL *handle, struct kube_http *http);
/* Seconds; -1: not said. */
int64_t kube_curl_retry_after(CURL *handle);
/* Tell whether one side does not trust the other. */
bool kube_curl_is_certificate(CURLcode code);

#endif
