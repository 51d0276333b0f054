/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/http/http_curl.h"

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

static void set_pem(CURL *handle, const struct http_pem *pem,
		    CURLoption by_value, CURLoption by_path)
{
	if (pem && pem->data)
		set_blob(handle, by_value, pem->data);
	else if (pem && pem->path[0])
		(void)curl_easy_setopt(handle, by_path, pem->path);
}

static void set_tls(CURL *handle, const struct http_peer *peer)
{
	(void)curl_easy_setopt(handle, CURLOPT_SSLVERSION,
			       (long)CURL_SSLVERSION_TLSv1_2);
	set_pem(handle, peer->ca, CURLOPT_CAINFO_BLOB, CURLOPT_CAINFO);
	set_pem(handle, peer->certificate, CURLOPT_SSLCERT_BLOB,
		CURLOPT_SSLCERT);
	set_pem(handle, peer->key, CURLOPT_SSLKEY_BLOB, CURLOPT_SSLKEY);
}

void http_curl_options(CURL *handle, struct http_client *http, const char *url,
		       struct curl_slist *headers, char *problem)
{
	(void)curl_easy_setopt(handle, CURLOPT_URL, url);
	(void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(handle, CURLOPT_HTTP_VERSION,
			       (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS,
			       (long)http->peer->connect_ms);
	(void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem);
	(void)curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(handle, CURLOPT_USERAGENT,
			       "tributary/" TRIBUTARY_VERSION);
	set_tls(handle, http->peer);
}

const char *http_curl_server(struct http_client *http)
{
	return http->peer->servers[atomic_load(&http->server)];
}

void http_curl_next(struct http_client *http, const char *server)
{
	unsigned now = atomic_load(&http->server);

	/* Another thread may have gone on already. */
	if (http->peer->servers[now] == server)
		(void)atomic_compare_exchange_strong(
			&http->server, &now,
			(now + 1) % (unsigned)http->peer->n_servers);
}

void http_curl_read_date(CURL *handle, struct http_client *http)
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

int64_t http_curl_retry_after(CURL *handle)
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

int http_curl_headers(struct http_client *http, bool anonymous,
		      struct curl_slist **ret, struct error *err)
{
	char *token = NULL, *line = NULL;
	struct curl_slist *list = NULL, *longer;
	struct error why = {0};
	int r = 0;

	if (http->peer->authorize && !anonymous)
		r = http->peer->authorize(http->peer->context, &token, &why);
	/* Never -ENOENT, which would speak of the object. */
	if (r < 0)
		return error_set(err,
				 r == -EHOSTUNREACH ? EHOSTUNREACH : EACCES,
				 "%s", why.msg);
	longer = list = curl_slist_append(NULL,
					  "Content-Type: application/json");
	if (longer)
		longer = curl_slist_append(list, "Accept: application/json");
	if (longer)
		longer = curl_slist_append(list, "Expect:");
	if (longer && http->peer->header)
		longer = curl_slist_append(list, http->peer->header);
	if (longer && token && asprintf(&line, "Authorization: %s", token) > 0)
		longer = curl_slist_append(list, line);
	else if (token)
		longer = NULL;
	http_secret_free(line);
	http_secret_free(token);
	if (!longer) {
		curl_slist_free_all(list);
		return error_set(err, ENOMEM, "out of memory");
	}
	*ret = list;
	return 0;
}

/* The list holds the token. */
void http_curl_headers_free(struct curl_slist *headers)
{
	for (struct curl_slist *i = headers; i; i = i->next)
		explicit_bzero(i->data, strlen(i->data));
	curl_slist_free_all(headers);
}

bool http_curl_is_certificate(CURLcode code, const char *problem)
{
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR: return true;
	/* RFC 8446 6.2: the peer's alert about our certificate. */
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
		return strstr(problem, "alert") &&
		       (strstr(problem, "certificate") ||
			strstr(problem, "unknown ca"));
	default: return false;
	}
}
