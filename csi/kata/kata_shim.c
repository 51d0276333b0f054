/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/kata/kata_shim.h"

#include <curl/curl.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SOCKET_NAME      "shim-monitor.sock"
#define CONNECT_MS       1000L
#define STATS_MS         3000L
#define RESIZE_MS        20000L
#define JSON_DEPTH_MAX   16
#define UNIT_BYTES       1 /* csi.proto, VolumeUsage.Unit */
#define UNIT_INODES      2
#define HTTP_OK          200
#define HTTP_SERVER_TEXT 200 /* bytes of its words that are told */

struct answer {
	char data[KATA_ANSWER_MAX + 1];
	size_t length;
};

/* ---- HTTP ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void shim_setup(void)
{
	(void)curl_global_init(CURL_GLOBAL_DEFAULT); /* the easy handle tells */
}

static size_t shim_receive(char *data, size_t size, size_t n, void *answer_)
{
	struct answer *answer = answer_;

	n *= size;
	if (n > KATA_ANSWER_MAX - answer->length)
		return 0; /* too long: the transfer fails */
	memcpy(answer->data + answer->length, data, n);
	answer->length += n;
	answer->data[answer->length] = '\0';
	return n;
}

static void socket_path(const char *run_dir, const char *sandbox, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%.3500s/vc/sbs/%s/" SOCKET_NAME, run_dir,
		       sandbox);
	if (access(ret, F_OK) == 0)
		return;
	(void)snprintf(ret, PATH_MAX, "%.3500s/kata/%s/" SOCKET_NAME, run_dir,
		       sandbox);
}

static int shim_perform(CURL *curl, const char *sandbox,
			const struct answer *answer, struct error *err)
{
	CURLcode code = curl_easy_perform(curl);
	long status = 0;

	if (code != CURLE_OK)
		return error_set(err, EHOSTUNREACH,
				 "the shim of sandbox '%.64s' does not answer: "
				 "%s",
				 sandbox, curl_easy_strerror(code));
	(void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (status == HTTP_OK)
		return 0;
	return error_set(err, EIO,
			 "the shim of sandbox '%.64s' says (HTTP %ld): %.*s",
			 sandbox, status, HTTP_SERVER_TEXT, answer->data);
}

static int shim_post(const char *run_dir, const char *sandbox,
		     const char *target, const char *body, long timeout_ms,
		     struct answer *answer, struct error *err)
{
	struct curl_slist *headers;
	char path[PATH_MAX], *url = NULL;
	CURL *curl;
	int r;

	(void)pthread_once(&once, shim_setup); /* cannot fail */
	curl = curl_easy_init();
	headers = curl_slist_append(NULL, "Content-Type: application/json");
	if (!curl || !headers || asprintf(&url, "http://shim%s", target) < 0) {
		curl_easy_cleanup(curl);
		curl_slist_free_all(headers);
		return error_set(err, ENOMEM, "out of memory");
	}
	socket_path(run_dir, sandbox, path);
	(void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, path);
	(void)curl_easy_setopt(curl, CURLOPT_URL, url);
	(void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	(void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
	(void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
	(void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, shim_receive);
	(void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	r = shim_perform(curl, sandbox, answer, err);
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	free(url);
	return r;
}

/* ---- the answer ---- */

static uint64_t shim_number(struct json_object *object, const char *name)
{
	struct json_object *value;
	int64_t n = 0;

	if (json_object_object_get_ex(object, name, &value))
		n = json_object_get_int64(value);
	return n < 0 ? 0 : (uint64_t)n;
}

/* As a number, or as protobuf's JSON has it. */
static int unit_of(struct json_object *object)
{
	struct json_object *value;

	if (!json_object_object_get_ex(object, "unit", &value))
		return 0;
	if (json_object_is_type(value, json_type_string))
		return strcmp(json_object_get_string(value), "BYTES") == 0
			       ? UNIT_BYTES
		       : strcmp(json_object_get_string(value), "INODES") == 0
			       ? UNIT_INODES
			       : 0;
	return json_object_get_int(value);
}

static void read_usage(struct json_object *object, struct kata_stats *ret)
{
	const struct kata_usage usage = {
		.total = shim_number(object, "total"),
		.used = shim_number(object, "used"),
		.available = shim_number(object, "available"),
	};

	switch (unit_of(object)) {
	case UNIT_BYTES:
		ret->bytes = usage;
		ret->has_bytes = true;
		break;
	case UNIT_INODES:
		ret->inodes = usage;
		ret->has_inodes = true;
		break;
	default: break;
	}
}

static void read_condition(struct json_object *object, struct kata_stats *ret)
{
	struct json_object *value;

	if (json_object_object_get_ex(object, "abnormal", &value))
		ret->abnormal = json_object_get_boolean(value);
	if (ret->abnormal &&
	    json_object_object_get_ex(object, "message", &value))
		(void)snprintf(ret->message, sizeof(ret->message), "%s",
			       json_object_get_string(value));
}

int kata_stats_parse(const char *text, size_t length, struct kata_stats *ret)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	struct json_object *object = NULL, *value;
	struct kata_stats stats = {0};
	int r = -EBADMSG;

	if (!tokener)
		return -ENOMEM;
	if (length <= KATA_ANSWER_MAX)
		object = json_tokener_parse_ex(tokener, text, (int)length);
	json_tokener_free(tokener);
	if (json_object_is_type(object, json_type_object) &&
	    json_object_object_get_ex(object, "usage", &value) &&
	    json_object_is_type(value, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(value); i++)
			read_usage(json_object_array_get_idx(value, i), &stats);
		if (json_object_object_get_ex(object, "volume_condition",
					      &value))
			read_condition(value, &stats);
		*ret = stats;
		r = 0;
	}
	json_object_put(object);
	return r;
}

/* ---- calls ---- */

int kata_shim_stats(const char *run_dir, const char *sandbox, const char *path,
		    struct kata_stats *ret, struct error *err)
{
	struct answer *answer = calloc(1, sizeof(*answer));
	char *escaped = curl_easy_escape(NULL, path, 0), *target = NULL;
	int r;

	if (!answer || !escaped ||
	    asprintf(&target, "/direct-volume/stats?path=%s", escaped) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	else
		r = shim_post(run_dir, sandbox, target, "", STATS_MS, answer,
			      err);
	if (r == 0 && kata_stats_parse(answer->data, answer->length, ret) < 0)
		r = error_set(
			err, EBADMSG,
			"the shim of sandbox '%.64s' answers nothing that "
			"tells of a volume",
			sandbox);
	curl_free(escaped);
	free(target);
	free(answer);
	return r;
}

int kata_shim_resize(const char *run_dir, const char *sandbox, const char *path,
		     uint64_t size, struct error *err)
{
	struct answer *answer = calloc(1, sizeof(*answer));
	struct json_object *body = json_object_new_object();
	int r;

	/* The names of the runtime in Go, then of the one in Rust. */
	(void)json_object_object_add(body, "VolumePath",
				     json_object_new_string(path));
	(void)json_object_object_add(body, "volume_guest_path",
				     json_object_new_string(path));
	(void)json_object_object_add(body, "size",
				     json_object_new_int64((int64_t)size));
	r = answer ? shim_post(run_dir, sandbox, "/direct-volume/resize",
			       json_object_to_json_string_ext(
				       body, JSON_C_TO_STRING_PLAIN),
			       RESIZE_MS, answer, err)
		   : error_set(err, ENOMEM, "out of memory");
	json_object_put(body);
	free(answer);
	return r;
}
