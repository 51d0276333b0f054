/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/store/kube/api/kube_curl.h"

#define REFUSAL_MAX     (64u << 10) /* bytes of an answer that is an error */
#define WAIT_MS         60000       /* curl wakes up for its own timers */
#define KEEPALIVE_S     30L /* a peer that vanished is noticed after this */
#define KEEPALIVE_GAP_S 10L /* and nine of these (tcp(7)) */

struct stream {
	CURL *handle;
	kube_stream_data data;
	void *context;
	struct error *err;
	int r; /* what @data returned */
	struct kube_answer refusal;
	char problem[CURL_ERROR_SIZE];
};

static int refusal_add(struct stream *stream, const char *bytes, size_t length)
{
	struct kube_answer *refusal = &stream->refusal;
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
	stream->r = status == 200 ? stream->data(stream->context, bytes, length,
						 stream->err)
				  : refusal_add(stream, bytes, length);
	return stream->r == 0 ? length : 0; /* 0: curl hangs up */
}

/* Until it is at its end: how, or -ECANCELED. */
static int stream_perform(CURLM *multi, CURL *handle, int stop_fd,
			  CURLcode *ret)
{
	struct curl_waitfd stop = {.fd = stop_fd, .events = CURL_WAIT_POLLIN};
	int running = 1, left;
	CURLMsg *message;

	while (running > 0) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return -EIO;
		if (running == 0)
			break;
		stop.revents = 0;
		if (curl_multi_poll(multi, &stop, stop_fd >= 0, WAIT_MS,
				    NULL) != CURLM_OK)
			return -EIO;
		if (stop.revents)
			return -ECANCELED;
	}
	*ret = CURLE_RECV_ERROR;
	while ((message = curl_multi_info_read(multi, &left))) {
		if (message->msg == CURLMSG_DONE &&
		    message->easy_handle == handle)
			*ret = message->data.result;
	}
	return 0;
}

static int stream_ended(struct stream *stream, struct kube_http *http,
			CURLcode code, struct error *err)
{
	const char *why = stream->problem[0] ? stream->problem
					     : curl_easy_strerror(code);

	if (stream->r == -EMSGSIZE || stream->r == -ENOMEM)
		return error_set(err, -stream->r,
				 "the answer of %s is too "
				 "large",
				 http->config.server);
	if (stream->r != 0 || code == CURLE_OK)
		return stream->r;
	if (kube_curl_is_certificate(code))
		return error_set(err, EACCES,
				 "no trust between us and the API server %s: "
				 "%.200s",
				 http->config.server, why);
	return error_set(err, EHOSTUNREACH, "the API server %s: %.200s",
			 http->config.server, why);
}

static int stream_run(struct kube_http *http, struct stream *stream,
		      CURLM *multi, const char *url, struct curl_slist *headers,
		      int timeout_ms, int stop_fd, struct error *err)
{
	CURL *handle = stream->handle;
	CURLcode code = CURLE_OK;
	int r;

	kube_curl_options(handle, http, url, headers, stream->problem);
	(void)curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
	(void)curl_easy_setopt(handle, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_GAP_S);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION,
			       stream_body_write);
	(void)curl_easy_setopt(handle, CURLOPT_WRITEDATA, stream);
	if (curl_multi_add_handle(multi, handle) != CURLM_OK)
		return error_set(err, ENOMEM, "out of memory");
	r = stream_perform(multi, handle, stop_fd, &code);
	(void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE,
				&stream->refusal.status);
	(void)curl_multi_remove_handle(multi, handle);
	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "stopped");
	if (r < 0)
		return error_set(err, EIO, "libcurl gave up");
	return stream_ended(stream, http, code, err);
}

int kube_stream(struct kube_http *http, const char *path, int timeout_ms,
		int stop_fd, kube_stream_data data, void *context,
		struct kube_answer *ret, int64_t *ret_after_s,
		struct error *err)
{
	struct stream stream = {.data = data, .context = context, .err = err};
	struct curl_slist *headers = NULL;
	auto_free char *url = NULL;
	CURLM *multi;
	int r = kube_curl_headers(http, &headers, err);

	*ret = (struct kube_answer){0};
	*ret_after_s = -1;
	if (r < 0)
		return r;
	multi = curl_multi_init();
	stream.handle = curl_easy_init();
	if (!multi || !stream.handle ||
	    asprintf(&url, "%s%s", http->config.server, path) < 0) {
		r = error_set(err, ENOMEM, "out of memory");
	} else {
		r = stream_run(http, &stream, multi, url, headers, timeout_ms,
			       stop_fd, err);
		*ret_after_s = kube_curl_retry_after(stream.handle);
	}
	curl_easy_cleanup(stream.handle); /* NULL is fine */
	(void)curl_multi_cleanup(multi);
	kube_curl_headers_free(headers);
	if (r == 0 && stream.refusal.status != 200) {
		*ret = stream.refusal;
		return 0;
	}
	kube_answer_done(&stream.refusal);
	return r;
}
