/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/http/http_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/store/http/http_curl.h"

#define REFUSAL_MAX     (64u << 10) /* bytes of an answer that is an error */
#define WAIT_MS         60000       /* curl wakes up for its own timers */
#define KEEPALIVE_S     30L /* a peer that vanished is noticed after this */
#define KEEPALIVE_GAP_S 10L /* and nine of these (tcp(7)) */

struct stream {
	const struct http_stream_request *request;
	const char *server; /* borrowed */
	CURL *handle;
	bool begun; /* a byte of the body came */
	http_stream_data data;
	void *context;
	struct error *err;
	int r; /* what @data returned */
	struct http_answer refusal;
	char problem[CURL_ERROR_SIZE];
};

static int refusal_add(struct stream *stream, const char *bytes, size_t length)
{
	struct http_answer *refusal = &stream->refusal;
	char *more;

	if (refusal->length + length > REFUSAL_MAX)
		return -EMSGSIZE;
	more = realloc(refusal->body, refusal->length + length + 1);
	if (!more)
		return -ENOMEM;
	memcpy(more + refusal->length, bytes, length);
	refusal->body = more;
	refusal->length += length;
	more[refusal->length] = '\0';
	return 0;
}

static size_t stream_body_write(char *bytes, size_t one, size_t count,
				void *context)
{
	struct stream *stream = context;
	size_t length = one * count; /* at most CURL_MAX_WRITE_SIZE */
	long status = 0;

	(void)curl_easy_getinfo(stream->handle, CURLINFO_RESPONSE_CODE,
				&status);
	stream->begun = true;
	stream->r = status == 200 ? stream->data(stream->context, bytes, length,
						 stream->err)
				  : refusal_add(stream, bytes, length);
	return stream->r == 0 ? length : 0; /* 0: curl hangs up */
}

/* Milliseconds to wait for the next bytes; 0 or less: the first are late. */
static int64_t stream_wait_ms(const struct stream *stream, int64_t begun_ms)
{
	if (stream->begun || !stream->request->first_ms)
		return WAIT_MS;
	return begun_ms + stream->request->first_ms - clock_ms();
}

/* Until it is at its end: how, or -ECANCELED, -ETIMEDOUT. */
static int stream_perform(struct stream *stream, CURLM *multi, CURLcode *ret)
{
	int stop_fd = stream->request->stop_fd;
	struct curl_waitfd stop = {.fd = stop_fd, .events = CURL_WAIT_POLLIN};
	int64_t begun_ms = clock_ms(), wait_ms;
	int running = 1, left;
	CURLMsg *message;

	while (running > 0) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return -EIO;
		if (running == 0)
			break;
		stop.revents = 0;
		wait_ms = stream_wait_ms(stream, begun_ms);
		if (wait_ms <= 0)
			return -ETIMEDOUT;
		if (curl_multi_poll(multi, &stop, stop_fd >= 0, (int)wait_ms,
				    NULL) != CURLM_OK)
			return -EIO;
		if (stop.revents)
			return -ECANCELED;
	}
	*ret = CURLE_RECV_ERROR;
	while ((message = curl_multi_info_read(multi, &left))) {
		if (message->msg == CURLMSG_DONE &&
		    message->easy_handle == stream->handle)
			*ret = message->data.result;
	}
	return 0;
}

static int stream_ended(struct stream *stream, struct http_client *http,
			CURLcode code, struct error *err)
{
	const char *why = stream->problem[0] ? stream->problem
					     : curl_easy_strerror(code);

	if (stream->r == -EMSGSIZE || stream->r == -ENOMEM)
		return error_set(err, -stream->r,
				 "the answer of %s is too "
				 "large",
				 stream->server);
	if (stream->r != 0 || code == CURLE_OK)
		return stream->r;
	if (code == CURLE_OPERATION_TIMEDOUT && stream->begun &&
	    stream->request->first_ms)
		return 0;
	http_curl_next(http, stream->server);
	if (http_curl_is_certificate(code, stream->problem))
		return error_set(err, EACCES,
				 "no trust between us and %s %s: %.200s",
				 http->peer->what, stream->server, why);
	return error_set(err, EHOSTUNREACH, "%s %s: %.200s", http->peer->what,
			 stream->server, why);
}

static int stream_run(struct http_client *http, struct stream *stream,
		      CURLM *multi, const char *url, struct curl_slist *headers,
		      struct error *err)
{
	const struct http_stream_request *request = stream->request;
	CURL *handle = stream->handle;
	CURLcode code = CURLE_OK;
	int r;

	http_curl_options(handle, http, url, headers, stream->problem);
	if (request->body)
		(void)curl_easy_setopt(handle, CURLOPT_POSTFIELDS,
				       request->body);
	(void)curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS,
			       (long)request->timeout_ms);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_GAP_S);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION,
			       stream_body_write);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEDATA, stream);
	if (curl_multi_add_handle(multi, handle) != CURLM_OK)
		return error_set(err, ENOMEM, "out of memory");
	r = stream_perform(stream, multi, &code);
	(void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE,
				&stream->refusal.status);
	(void)curl_multi_remove_handle(multi, handle);
	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "stopped");
	if (r == -ETIMEDOUT) {
		http_curl_next(http, stream->server);
		return error_set(
			err, EHOSTUNREACH, "%s %s: no answer within %d ms",
			http->peer->what, stream->server, request->first_ms);
	}
	if (r < 0)
		return error_set(err, EIO, "libcurl gave up");
	return stream_ended(stream, http, code, err);
}

int http_stream(struct http_client *http,
		const struct http_stream_request *request,
		http_stream_data data, void *context, struct http_answer *ret,
		int64_t *ret_after_s, struct error *err)
{
	struct stream stream = {.request = request,
				.server = http_curl_server(http),
				.data = data,
				.context = context,
				.err = err};
	struct curl_slist *headers = NULL;
	auto_free char *url = NULL;
	CURLM *multi;
	int r = http_curl_headers(http, false, &headers, err);

	*ret = (struct http_answer){0};
	*ret_after_s = -1;
	if (r < 0)
		return r;
	multi = curl_multi_init();
	stream.handle = curl_easy_init();
	if (!multi || !stream.handle ||
	    asprintf(&url, "%s%s", stream.server, request->path) < 0) {
		r = error_set(err, ENOMEM, "out of memory");
	} else {
		r = stream_run(http, &stream, multi, url, headers, err);
		*ret_after_s = http_curl_retry_after(stream.handle);
	}
	curl_easy_cleanup(stream.handle); /* NULL is fine */
	(void)curl_multi_cleanup(multi);
	http_curl_headers_free(headers);
	if (r == 0 && stream.refusal.status != 200) {
		*ret = stream.refusal;
		return 0;
	}
	http_answer_done(&stream.refusal);
	return r;
}
