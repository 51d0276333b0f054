/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server as a peer of http_client.h: its address, our identity there,
 * and its times.
 */
#ifndef VOLUME_KUBE_HTTP_H
#define VOLUME_KUBE_HTTP_H

#include "volume/store/http/http_client.h"
#include "volume/store/kube/api/kube_config.h"

#define KUBE_CONNECT_TIMEOUT_MS 5000
#define KUBE_REQUEST_TIMEOUT_MS 30000 /* one attempt; the server's is 60 s */
#define KUBE_CALL_TIMEOUT_MS    40000 /* no new attempt begins after this */

struct kube_http {
	struct kube_config config; /* not changed */
	struct http_peer peer;
	const char *server; /* of @config */
	struct http_client *client;
};

/* Takes @config, also on failure. */
int kube_http_new(struct kube_config *config, struct kube_http **ret,
		  struct error *err);
void kube_http_free(struct kube_http *http); /* NULL is fine */
const char *kube_http_namespace(const struct kube_http *http);
/* By http_client_now(). */
int64_t kube_http_now(const struct kube_http *http);

#endif
