/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_curl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define RETRY_AFTER_MAX_S 3600

static void set_blob(CURL *handle, CURLoption option, char *data)
{
	struct curl_blob blob = {
		.data = data, .len = strlen(data), .flags = CURL_BLOB_COPY};

	(void)curl_easy_setopt(handle, option, &blob);
}

static void set_tls(CURL *handle, struct kube_config *config)
{
	(void)curl_easy_setopt(handle, CURLOPT_SSLVERSION,
			       (long)CURL_SSLVERSION_TLSv1_2);
	if (config->ca.data)
		set_blob(handle, CURLOPT_CAINFO_BLOB, config->ca.data);
	else if (config->ca.path[0])
		(void)curl_easy_setopt(handle, CURLOPT_CAINFO, config->ca.path);
	if (config->certificate.data)
		set_blob(handle, CURLOPT_SSLCERT_BLOB,
			 config->certificate.data);
	else if (config->certificate.path[0])
		(void)curl_easy_setopt(handle, CURLOPT_SSLCERT,
				       config->certificate.path);
	if (config->key.data)
		set_blob(handle, CURLOPT_SSLKEY_BLOB, config->key.data);
	else if (config->key.path[0])
		(void)curl_easy_setopt(handle, CURLOPT_SSLKEY,
				       config->key.path);
}

void kube_curl_options(CURL *handle, struct kube_http *http, const char *url,
		       struct curl_slist *headers, char *problem)
{
	(void)curl_easy_setopt(handle, CURLOPT_URL, url);
	(void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "https");
	(void)curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_HTTP_VERSION,
			       (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
			       (long)KUBE_CONNECT_TIMEOUT_MS);
	(void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem);
	(void)curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(handle, CURLOPT_USERAGENT,
			       "tributary/" TRIBUTARY_VERSION);
	set_tls(handle, &http->config);
}

void kube_curl_read_date(CURL *handle, struct kube_http *http)
{
	struct curl_header *header;
	time_t date;

	if (curl_easy_header(handle, "Date", 0, CURLH_HEADER, -1, &header) !=
	    CURLHE_OK)
		return;
	date = curl_getdate(header->value, NULL);
	if (date > 0)
		atomic_store(&http->ahead_s, (long long)date - clock_wall_s());
}

int64_t kube_curl_retry_after(CURL *handle)
{
	struct curl_header *header;
	long seconds;
	char *end;

	if (curl_easy_header(handle, "Retry-After", 0, CURLH_HEADER, -1,
			     &header) != CURLHE_OK)
		return -1;
	seconds = strtol(header->value, &end, 10);
	if (end == header->value || *end || seconds < 0 ||
	    seconds > RETRY_AFTER_MAX_S)
		return -1;
	return seconds;
}

int kube_curl_headers(struct kube_http *http, struct curl_slist **ret,
		      struct error *err)
{
	char *token = NULL, *line = NULL;
	struct curl_slist *list = NULL, *longer;
	struct error why = {0};

	/* Never -ENOENT, which would speak of the object. */
	if (kube_config_token(&http->config, &token, &why) < 0)
		return error_set(err, EACCES, "%s", why.msg);
	longer = list = curl_slist_append(NULL,
					  "Content-Type: application/json");
	if (longer)
		longer = curl_slist_append(list, "Accept: application/json");
	if (longer)
		longer = curl_slist_append(list, "Expect:");
	if (longer && token &&
	    asprintf(&line, "Authorization: Bearer %s", token) > 0)
		longer = curl_slist_append(list, line);
	else if (token)
		longer = NULL;
	kube_secret_free(line);
	kube_secret_free(token);
	if (!longer) {
		curl_slist_free_all(list);
		return error_set(err, ENOMEM, "out of memory");
	}
	*ret = list;
	return 0;
}

/* The list holds the token. */
void kube_curl_headers_free(struct curl_slist *headers)
{
	for (struct curl_slist *i = headers; i; i = i->next)
		explicit_bzero(i->data, strlen(i->data));
	curl_slist_free_all(headers);
}

bool kube_curl_is_certificate(CURLcode code)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR: return true;
	default: return false;
	}
}
