/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/http/http_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/store/http/http_curl.h"

#define FIRST_PAUSE_MS   100 /* doubled at each attempt */
#define READY_TIMEOUT_MS 3000

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
	(void)curl_global_init(CURL_GLOBAL_DEFAULT); /* easy_init tells */
}

int http_client_new(const struct http_peer *peer, struct http_client **ret,
		    struct error *err)
{
	struct http_client *http = calloc(1, sizeof(*http));
	unsigned chance = 0;

	if (!http)
		return error_set(err, ENOMEM, "out of memory");
	(void)pthread_once(&curl_once, curl_start);
	http->peer = peer;
	(void)getrandom(&chance, sizeof(chance), 0); /* or the first */
	http->server = chance % (unsigned)peer->n_servers;
	(void)pthread_mutex_init(&http->lock, NULL);
	*ret = http;
	return 0;
}

void http_client_free(struct http_client *http)
{
	if (!http)
		return;
	for (size_t i = 0; i < http->n_idle; i++)
		curl_easy_cleanup(http->idle[i]);
	(void)pthread_mutex_destroy(&http->lock);
	free(http);
}

void http_secret_free(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

int64_t http_client_now(const struct http_client *http)
{
	return clock_wall_s() + atomic_load(&http->ahead_s);
}

void http_answer_done(struct http_answer *answer)
{
	free(answer->body);
	*answer = (struct http_answer){0};
}

/* ---- connections ---- */

static CURL *handle_take(struct http_client *http)
{
	CURL *handle = NULL;

	(void)pthread_mutex_lock(&http->lock);
	if (http->n_idle > 0)
		handle = http->idle[--http->n_idle];
	(void)pthread_mutex_unlock(&http->lock);
	return handle ? handle : curl_easy_init();
}

/*
 * Give a handle back. Its options are forgotten (with the token), its
 * connections kept.
 */
static void handle_give(struct http_client *http, CURL *handle)
{
	curl_easy_reset(handle);
	(void)pthread_mutex_lock(&http->lock);
	if (http->n_idle < HTTP_IDLE_MAX) {
		http->idle[http->n_idle++] = handle;
		handle = NULL;
	}
	(void)pthread_mutex_unlock(&http->lock);
	curl_easy_cleanup(handle); /* NULL is fine */
}

/* ---- one attempt ---- */

struct attempt {
	const struct http_request *request;
	struct http_answer answer;
	size_t room; /* bytes allocated for the body */
	bool too_big;
	char problem[CURL_ERROR_SIZE];
	int64_t retry_after_s; /* -1: not said */
	const char *server;    /* borrowed: who was asked */
};

static size_t http_body_write(char *data, size_t one, size_t count,
			      void *context)
{
	struct attempt *attempt = context;
	size_t length = one * count; /* at most CURL_MAX_WRITE_SIZE */
	size_t need = attempt->answer.length + length + 1;
	char *more;

	if (need > HTTP_BODY_MAX) {
		attempt->too_big = true;
		return 0; /* curl ends the transfer */
	}
	if (need > attempt->room) {
		attempt->room = need < 4096 ? 4096 : 2 * need;
		more = realloc(attempt->answer.body, attempt->room);
		if (!more)
			return 0;
		attempt->answer.body = more;
	}
	memcpy(attempt->answer.body + attempt->answer.length, data, length);
	attempt->answer.length += length;
	attempt->answer.body[attempt->answer.length] = '\0';
	return length;
}

static void set_options(CURL *handle, struct http_client *http,
			struct attempt *attempt, const char *url,
			struct curl_slist *headers)
{
	const struct http_request *request = attempt->request;
	long timeout_ms = http->peer->attempt_ms;

	/* Two servers are asked within the time of a short request. */
	if (request->timeout_ms && http->peer->n_servers == 1)
		timeout_ms = request->timeout_ms;
	else if (request->timeout_ms && request->timeout_ms / 2 < timeout_ms)
		timeout_ms = request->timeout_ms / 2;
	http_curl_options(handle, http, url, headers, attempt->problem);
	(void)curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, timeout_ms);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, http_body_write);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEDATA, attempt);
	(void)curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
	if (request->body) {
		(void)curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
				       (curl_off_t)strlen(request->body));
		(void)curl_easy_setopt(handle, CURLOPT_POSTFIELDS,
				       request->body);
	}
}

static int attempt_run(struct http_client *http, struct attempt *attempt,
		       CURLcode *ret_code, struct error *err)
{
	struct curl_slist *headers = NULL;
	auto_free char *url = NULL;
	int64_t start_ms;
	CURL *handle;
	int r = http_curl_headers(http, attempt->request->anonymous, &headers,
				  err);

	if (r < 0)
		return r;
	handle = handle_take(http);
	attempt->server = http_curl_server(http);
	if (!handle || asprintf(&url, "%s%s", attempt->server,
				attempt->request->path) < 0) {
		curl_easy_cleanup(handle);
		http_curl_headers_free(headers);
		return error_set(err, ENOMEM, "out of memory");
	}
	set_options(handle, http, attempt, url, headers);
	start_ms = clock_ms();
	*ret_code = curl_easy_perform(handle);
	(void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE,
				&attempt->answer.status);
	/* An answer that was long on its way says little of the time. */
	if (clock_ms() - start_ms <= HTTP_CLOCK_SLACK_MS)
		http_curl_read_date(handle, http);
	attempt->retry_after_s = http_curl_retry_after(handle);
	handle_give(http, handle);
	http_curl_headers_free(headers);
	if (*ret_code == CURLE_OK && !attempt->answer.body)
		attempt->answer.body = strdup("");
	if (*ret_code == CURLE_OK && !attempt->answer.body)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* ---- until there is an answer ---- */

/* Nothing of the request has been sent. */
static bool never_sent(CURLcode code)
{
	return code == CURLE_COULDNT_CONNECT ||
	       code == CURLE_COULDNT_RESOLVE_HOST ||
	       code == CURLE_COULDNT_RESOLVE_PROXY;
}

static bool try_again(const struct attempt *attempt, CURLcode code)
{
	long status = attempt->answer.status;

	if (attempt->too_big ||
	    http_curl_is_certificate(code, attempt->problem))
		return false;
	if (code != CURLE_OK)
		return attempt->request->repeatable || never_sent(code);
	if (status == 429 || (status == 503 && attempt->retry_after_s >= 0))
		return true;
	return status >= 500 && attempt->request->repeatable;
}

static int no_answer(struct http_client *http, const struct attempt *attempt,
		     CURLcode code, struct error *err)
{
	const char *why = attempt->problem[0] ? attempt->problem
					      : curl_easy_strerror(code);

	if (attempt->too_big)
		return error_set(err, EMSGSIZE,
				 "the answer of %s is larger than %u MiB",
				 attempt->server, HTTP_BODY_MAX >> 20);
	if (http_curl_is_certificate(code, attempt->problem))
		return error_set(err, EACCES,
				 "no trust between us and %s %s: %.200s; look "
				 "at the authority and the client certificate",
				 http->peer->what, attempt->server, why);
	return error_set(
		err, EHOSTUNREACH, "%s %s: %.200s%s", http->peer->what,
		attempt->server, why,
		attempt->request->repeatable || never_sent(code)
			? "; try again later"
			: "; it may have been done or not: repeat the command");
}

static bool is_ready(struct http_client *http)
{
	struct http_request request = {.method = "GET",
				       .path = http->peer->ready_path,
				       .timeout_ms = READY_TIMEOUT_MS};
	struct attempt attempt = {.request = &request, .retry_after_s = -1};
	CURLcode code;
	bool ready = attempt_run(http, &attempt, &code, NULL) == 0 &&
		     code == CURLE_OK && attempt.answer.status == 200;

	http_answer_done(&attempt.answer);
	return ready;
}

/*
 * A server that starts forbids everything for a moment: it answers before it
 * has read who may do what. So a refusal counts when it is said once more by
 * a server that is ready.
 */
static bool refused_for_now(struct http_client *http,
			    const struct attempt *attempt, CURLcode code,
			    bool *ready)
{
	long status = attempt->answer.status;

	if (code != CURLE_OK || (status != 401 && status != 403) || *ready ||
	    !http->peer->ready_path)
		return false;
	*ready = is_ready(http);
	return true;
}

/* Up to half of it is by chance, so that a crowd does not come back as one. */
static void pause_ms(int64_t ms)
{
	struct timespec time;
	unsigned chance = 0;

	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	ms += (int64_t)(chance % (unsigned)(ms / 2 + 1));
	time = (struct timespec){.tv_sec = ms / 1000,
				 .tv_nsec = ms % 1000 * 1000000};
	(void)nanosleep(&time, NULL); /* early is fine */
}

int http_client_call(struct http_client *http,
		     const struct http_request *request,
		     struct http_answer *ret, struct error *err)
{
	int64_t end_ms = clock_ms() + (request->timeout_ms
					       ? request->timeout_ms
					       : http->peer->call_ms);
	bool ready = false, again;

	for (unsigned i = 0;; i++) {
		struct attempt attempt = {.request = request,
					  .retry_after_s = -1};
		int64_t wait_ms = FIRST_PAUSE_MS << i;
		CURLcode code;
		int r = attempt_run(http, &attempt, &code, err);

		if (r < 0) {
			http_answer_done(&attempt.answer);
			return r;
		}
		if (attempt.retry_after_s >= 0)
			wait_ms = attempt.retry_after_s * 1000 + FIRST_PAUSE_MS;
		again = try_again(&attempt, code) ||
			refused_for_now(http, &attempt, code, &ready);
		if (code != CURLE_OK || attempt.answer.status >= 500)
			http_curl_next(http, attempt.server);
		if (!again || i + 1 == HTTP_ATTEMPTS_MAX ||
		    clock_ms() + wait_ms > end_ms) {
			if (code == CURLE_OK) {
				*ret = attempt.answer;
				ret->attempts = i + 1;
				return 0;
			}
			http_answer_done(&attempt.answer);
			return no_answer(http, &attempt, code, err);
		}
		http_answer_done(&attempt.answer);
		pause_ms(wait_ms);
	}
}
