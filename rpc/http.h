/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages for monitoring: GET and HEAD of a few fixed paths. One thread waits
 * for connections, and each connection has a thread. There are at most
 * HTTP_CONNECTIONS_MAX. A connection that is silent for HTTP_SILENT_S is
 * closed. Only the request line and headers of a client are read.
 */
#ifndef RPC_HTTP_H
#define RPC_HTTP_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

#define HTTP_CONNECTIONS_MAX 16
#define HTTP_SILENT_S        10
#define HTTP_MEMORY_MAX      16384 /* bytes of one connection */

struct http_page {
	const char *path;         /* "/metrics" */
	const char *content_type; /* borrowed, as path is */
	/* Writes the page; returns its status, 200 or 503. Any thread. */
	unsigned (*write)(void *context, FILE *out);
};

struct http;

/*
 * Begin to serve @pages.
 *
 * @address  "HOST:PORT" ([IPv6]:PORT), or "unix:/PATH": mode 0600, a socket
 *           that nobody listens on is replaced
 * @pages    borrowed until http_stop(), as @context is
 *
 * -EINVAL: the address; -EADDRINUSE: it is taken.
 */
int http_start(const char *address, const struct http_page *pages, size_t n,
	       void *context, struct http **ret, struct error *err);
/* End, when pages that are being written are done. NULL is fine. */
void http_stop(struct http *http);

#endif
