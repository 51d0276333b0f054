/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTPS requests to the API server. The server's
 * certificate is always checked; no redirect is followed; a token goes into
 * a header and nowhere else.
 *
 * Calls may come from any thread: each takes a connection of its own out of
 * those kept open.
 */
#ifndef VOLUME_KUBE_HTTP_H
#define VOLUME_KUBE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/store/kube/api/kube_config.h"

#define KUBE_BODY_MAX           (8u << 20) /* bytes of one answer */
#define KUBE_CONNECT_TIMEOUT_MS 5000
#define KUBE_REQUEST_TIMEOUT_MS \
	30000                      /* one attempt; the server's own is 60 s */
#define KUBE_CALL_TIMEOUT_MS 40000 /* no new attempt begins after this */
#define KUBE_ATTEMPTS_MAX    6     /* pauses of 0.1, 0.2, .. 1.6 s between */

struct kube_http;

/* Takes @config, also on failure. */
int kube_http_new(struct kube_config *config, struct kube_http **ret,
		  struct error *err);
void kube_http_free(struct kube_http *http); /* NULL is fine */
const char *kube_http_namespace(const struct kube_http *http);

struct kube_request {
	const char *method; /* "GET", "POST", ... */
	const char *path;   /* "/apis/...", with its query; already escaped */
	const char *body;   /* JSON; NULL: none */
	/*
	 * Done twice it has the same effect, so it may be sent again when
	 * nobody knows what became of it.
	 */
	bool repeatable;
	/*
	 * Of one attempt, and none begins after it. 0:
	 * KUBE_REQUEST_TIMEOUT_MS and KUBE_CALL_TIMEOUT_MS.
	 */
	int timeout_ms;
};

struct kube_answer {
	long status; /* HTTP */
	char *body;  /* owned, NUL-terminated */
	size_t length;
};

void kube_answer_done(struct kube_answer *answer);

/*
 * Send the request and wait. "Slow down" (429, or 503 with Retry-After) is
 * obeyed, and the request is tried again later. A server that cannot be reached
 * is tried again, too. A repeatable request is also tried again after the
 * server failed (5xx) or hung up. Forbidden (401, 403) is tried again, too,
 * until a server that says it is ready repeats it.
 *
 * 0: there is an answer, whatever its status. -EHOSTUNREACH: no answer. A
 * request that is not repeatable may have been done all the same; the text says
 * so. -EACCES: the token cannot be read or the certificate of one side is
 * refused. -EMSGSIZE: more than KUBE_BODY_MAX.
 */
int kube_http_call(struct kube_http *http, const struct kube_request *request,
		   struct kube_answer *ret, struct error *err);

/*
 * Seconds since 1970 by the server's clock, as its last quick answer had it:
 * one clock for all who talk to it. It is behind by at most
 * KUBE_CLOCK_SLACK_MS and a second. This machine's before the first answer.
 */
#define KUBE_CLOCK_SLACK_MS 2000
int64_t kube_http_now(const struct kube_http *http);

#endif
