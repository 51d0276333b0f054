/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP requests to one server, or to the members of one cluster: one of them is
 * asked until it does not answer, then the next. A server's certificate is
 * always checked; no redirect is followed; a token goes into a header and
 * nowhere else.
 *
 * Calls may come from any thread: each takes a connection of its own out of
 * those kept open.
 */
#ifndef VOLUME_HTTP_CLIENT_H
#define VOLUME_HTTP_CLIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define HTTP_BODY_MAX     (8u << 20) /* bytes of one answer */
#define HTTP_ATTEMPTS_MAX 6          /* pauses of 0.1, 0.2, .. 1.6 s between */

struct http_client;

/* PEM by value or by file. The file is read at each connection. */
struct http_pem {
	char *data;          /* owned; NULL: none */
	char path[PATH_MAX]; /* "": none */
};

/* All but @what, @servers and the times may be NULL. */
struct http_peer {
	const char *what;           /* "the API server", for messages */
	const char *const *servers; /* "https://HOST:PORT", no last '/' */
	size_t n_servers;           /* 1 or more */
	const struct http_pem *ca, *certificate, *key;
	const char *header; /* "NAME: VALUE", sent with each request */
	/*
	 * A path that answers 200 when the server is ready. With it, a refusal
	 * (401, 403) counts when a ready server repeats it.
	 */
	const char *ready_path;
	/*
	 * Make the value of the header Authorization, returned owned; NULL:
	 * none.
	 */
	int (*authorize)(void *context, char **ret, struct error *err);
	void *context;
	int connect_ms;
	int attempt_ms; /* of one attempt */
	int call_ms;    /* no new attempt begins after this */
};

/* @peer: with all that it has, borrowed for the client's life. */
int http_client_new(const struct http_peer *peer, struct http_client **ret,
		    struct error *err);
void http_client_free(struct http_client *http); /* NULL is fine */

/* Wipe and free. NULL is fine. */
void http_secret_free(char *secret);

struct http_request {
	const char *method; /* "GET", "POST", ... */
	const char *path;   /* "/apis/...", with its query; already escaped */
	const char *body;   /* JSON; NULL: none */
	/*
	 * Done twice it has the same effect, so it may be sent again when
	 * nobody knows what became of it.
	 */
	bool repeatable;
	bool anonymous; /* without the header Authorization */
	/* Of one attempt, and none begins after it. 0: the peer's times. */
	int timeout_ms;
};

struct http_answer {
	long status; /* HTTP */
	char *body;  /* owned, NUL-terminated */
	size_t length;
	unsigned attempts; /* requests sent until this answer came */
};

void http_answer_done(struct http_answer *answer);

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
 * refused. -EMSGSIZE: more than HTTP_BODY_MAX.
 */
int http_client_call(struct http_client *http,
		     const struct http_request *request,
		     struct http_answer *ret, struct error *err);

/*
 * Seconds since 1970 by the server's clock, as its last quick answer had it:
 * one clock for all who talk to it. It is behind by at most
 * HTTP_CLOCK_SLACK_MS and a second. This machine's before the first answer.
 */
#define HTTP_CLOCK_SLACK_MS 2000
int64_t http_client_now(const struct http_client *http);

#endif
