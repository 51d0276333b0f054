/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* RFC 6750 2.1 */
static int kube_authorize(void *config, char **ret, struct error *err)
{
	char *token = NULL;
	int r = kube_config_token(config, &token, err);

	*ret = NULL;
	if (r == 0 && token && asprintf(ret, "Bearer %s", token) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	http_secret_free(token);
	return r;
}

int kube_http_new(struct kube_config *config, struct kube_http **ret,
		  struct error *err)
{
	struct kube_http *http = calloc(1, sizeof(*http));
	int r;

	if (!http) {
		kube_config_done(config);
		return error_set(err, ENOMEM, "out of memory");
	}
	http->config = *config;
	*config = (struct kube_config){0};
	http->server = http->config.server;
	http->peer = (struct http_peer){
		.what = "the API server",
		.servers = &http->server,
		.n_servers = 1,
		.ca = &http->config.ca,
		.certificate = &http->config.certificate,
		.key = &http->config.key,
		.ready_path = "/readyz",
		.authorize = kube_authorize,
		.context = &http->config,
		.connect_ms = KUBE_CONNECT_TIMEOUT_MS,
		.attempt_ms = KUBE_REQUEST_TIMEOUT_MS,
		.call_ms = KUBE_CALL_TIMEOUT_MS,
	};
	r = http_client_new(&http->peer, &http->client, err);
	if (r < 0) {
		kube_http_free(http);
		return r;
	}
	*ret = http;
	return 0;
}

void kube_http_free(struct kube_http *http)
{
	if (!http)
		return;
	http_client_free(http->client);
	kube_config_done(&http->config);
	free(http);
}

const char *kube_http_namespace(const struct kube_http *http)
{
	return http->config.name_space;
}

int64_t kube_http_now(const struct kube_http *http)
{
	return http_client_now(http->client);
}
