/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/etcd/etcd_call.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/record/json_scan.h"
#include "volume/store/http/base64.h"

#define PAGES_MAX 10000 /* of one list */

/*
 * The error of an answer that is none of etcd's API: @object is NULL, or an
 * error. The gateway itself speaks in plain text.
 */
static int gateway_failure(const struct http_answer *answer,
			   struct json_object *object, struct error *err)
{
	if (!object && strstr(answer->body, "CommonName"))
		return error_set(err, EACCES,
				 "etcd with users takes no client certificate "
				 "that has a common name (CN): issue one "
				 "without");
	return etcd_failure(object, err);
}

/* ---- who we are ---- */

static struct json_object *login_body(struct etcd_api *api, struct error *err)
{
	struct json_object *body;
	char *password = NULL;
	size_t length;
	int r = file_read(AT_FDCWD, api->config.password_path,
			  ETCD_PASSWORD_MAX, &password, &length, err);

	if (r < 0) {
		(void)error_prefix(err, r, "password-file: ");
		return NULL;
	}
	password[strcspn(password, "\r\n")] = '\0';
	body = json_object_new_object();
	json_add_text(body, "name", api->config.user);
	json_add_text(body, "password", password);
	http_secret_free(password);
	return body;
}

static int token_take(struct etcd_api *api, const struct http_answer *answer,
		      struct json_object *object, struct error *err)
{
	struct json_object *token = NULL;
	const char *text = "";

	if (json_object_object_get_ex(object, "token", &token) &&
	    json_object_is_type(token, json_type_string))
		text = json_object_get_string(token);
	/* The token becomes a line of a header. */
	if (!text[0] || strpbrk(text, "\r\n"))
		return gateway_failure(answer, object, err);
	api->token = strdup(text);
	return api->token ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* Under the lock. */
static int authenticate(struct etcd_api *api, struct error *err)
{
	struct json_object *body = login_body(api, err), *object = NULL;
	struct http_request request = {.method = "POST",
				       .path = "/v3/auth/authenticate",
				       .repeatable = true,
				       .anonymous = true};
	struct http_answer answer = {0};
	int r;

	if (!body)
		return -EACCES;
	request.body = json_object_to_json_string_ext(body,
						      JSON_C_TO_STRING_PLAIN);
	r = http_client_call(api->http, &request, &answer, err);
	json_object_put(body);
	if (r < 0)
		return r;
	(void)json_scan_parse(answer.body, answer.length, HTTP_BODY_MAX,
			      &object, NULL);
	r = token_take(api, &answer, object, err);
	explicit_bzero(answer.body, answer.length);
	json_object_put(object);
	http_answer_done(&answer);
	return r;
}

static int etcd_authorize(void *api_, char **ret, struct error *err)
{
	struct etcd_api *api = api_;
	int r = 0;

	*ret = NULL;
	(void)pthread_mutex_lock(&api->lock);
	if (!api->token)
		r = authenticate(api, err);
	if (r == 0 && api->token && !(*ret = strdup(api->token)))
		r = error_set(err, ENOMEM, "out of memory");
	(void)pthread_mutex_unlock(&api->lock);
	return r;
}

void etcd_api_forget(struct etcd_api *api)
{
	(void)pthread_mutex_lock(&api->lock);
	http_secret_free(api->token);
	api->token = NULL;
	(void)pthread_mutex_unlock(&api->lock);
}

int etcd_api_new(struct etcd_config *config, struct etcd_api **ret,
		 struct error *err)
{
	struct etcd_api *api = calloc(1, sizeof(*api));
	int r;

	if (!api) {
		etcd_config_done(config);
		return error_set(err, ENOMEM, "out of memory");
	}
	api->config = *config;
	*config = (struct etcd_config){0};
	(void)pthread_mutex_init(&api->lock, NULL);
	api->peer = (struct http_peer){
		.what = "etcd",
		.servers = (const char *const *)api->config.endpoints,
		.n_servers = api->config.n_endpoints,
		.ca = &api->config.ca,
		.certificate = &api->config.certificate,
		.key = &api->config.key,
		/* A member cut off from the others says so at once. */
		.header = "Grpc-Metadata-hasleader: true",
		.authorize = api->config.user[0] ? etcd_authorize : NULL,
		.context = api,
		.connect_ms = ETCD_CONNECT_MS,
		.attempt_ms = ETCD_ATTEMPT_MS,
		.call_ms = ETCD_CALL_MS,
	};
	r = http_client_new(&api->peer, &api->http, err);
	if (r < 0) {
		etcd_api_free(api);
		return r;
	}
	*ret = api;
	return 0;
}

void etcd_api_free(struct etcd_api *api)
{
	if (!api)
		return;
	http_client_free(api->http);
	http_secret_free(api->token);
	etcd_config_done(&api->config);
	(void)pthread_mutex_destroy(&api->lock);
	free(api);
}

/* ---- one call ---- */

static int answer_read(const struct http_answer *answer,
		       struct etcd_answer *ret, struct error *err)
{
	const char *newline = memchr(answer->body, '\n', answer->length);
	size_t length = newline ? (size_t)(newline - answer->body)
				: answer->length;
	struct json_object *object = NULL, *first = NULL;
	int r = json_scan_parse(answer->body, length, HTTP_BODY_MAX, &object,
				NULL);

	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (answer->status != 200)
		r = gateway_failure(answer, object, err);
	else if (json_object_object_get_ex(object, "result", &first) ||
		 json_object_object_get_ex(object, "error", &first))
		r = etcd_answer_decode_stream(object, ret, err);
	else
		r = etcd_answer_decode(object, ret, err);
	json_object_put(object);
	return r;
}

int etcd_call(struct etcd_api *api, const char *path, struct json_object *body,
	      int timeout_ms, unsigned *ret_attempts, struct etcd_answer *ret,
	      struct error *err)
{
	struct http_request request = {.method = "POST",
				       .path = path,
				       .repeatable = true,
				       .timeout_ms = timeout_ms};
	struct http_answer answer = {0};
	int r = -EKEYEXPIRED;

	request.body = json_object_to_json_string_ext(
		body, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	/* A token lives for minutes, or until its member starts again. */
	for (int i = 0; i < 2 && r == -EKEYEXPIRED; i++) {
		if (i > 0)
			etcd_api_forget(api);
		r = http_client_call(api->http, &request, &answer, err);
		if (r < 0)
			break;
		if (ret_attempts)
			*ret_attempts = answer.attempts;
		r = answer_read(&answer, ret, err);
		http_answer_done(&answer);
	}
	json_object_put(body);
	return r == -EKEYEXPIRED
		       ? error_set(err, EACCES,
				   "etcd does not accept our token; look at "
				   "user= and password-file=")
		       : r;
}

/* ---- parts of requests ---- */

void etcd_key(const struct etcd_api *api, const char *a, const char *b,
	      const char *c, char *ret)
{
	(void)snprintf(ret, ETCD_KEY_SIZE, "%s/%s/%s%s%s", api->config.prefix,
		       a, b, c ? "/" : "", c ? c : "");
}

void etcd_key_end(const char *key, char *ret)
{
	size_t length = strlen(key);

	memcpy(ret, key, length + 1);
	ret[length - 1]++; /* of our keys none ends with 0xff */
}

void etcd_add_bytes(struct json_object *in, const char *key, const char *text)
{
	auto_free char *base64 = base64_encode(text, strlen(text));

	if (base64)
		json_add_text(in, key, base64);
}

void etcd_add_int64(struct json_object *in, const char *key, int64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, n);
	json_add_text(in, key, text);
}

struct json_object *etcd_txn_new(void)
{
	struct json_object *txn = json_object_new_object();

	json_add(txn, "compare", json_object_new_array());
	json_add(txn, "success", json_object_new_array());
	json_add(txn, "failure", json_object_new_array());
	return txn;
}

/* An object at the end of @txn's array @list. Borrowed. */
static struct json_object *txn_add(struct json_object *txn, const char *list,
				   const char *key)
{
	struct json_object *array = NULL, *item = json_object_new_object();

	etcd_add_bytes(item, "key", key);
	if (json_object_object_get_ex(txn, list, &array))
		(void)json_object_array_add(array, item);
	return item;
}

static struct json_object *compare_add(struct json_object *txn, const char *key,
				       const char *target, const char *result)
{
	struct json_object *item = txn_add(txn, "compare", key);

	json_add_text(item, "target", target);
	json_add_text(item, "result", result);
	return item;
}

void etcd_txn_if_revision(struct json_object *txn, const char *key,
			  int64_t revision)
{
	etcd_add_int64(compare_add(txn, key, "MOD", "EQUAL"), "mod_revision",
		       revision);
}

void etcd_txn_if_there(struct json_object *txn, const char *key)
{
	etcd_add_int64(compare_add(txn, key, "MOD", "GREATER"), "mod_revision",
		       0);
}

void etcd_txn_if_value(struct json_object *txn, const char *key,
		       const char *value)
{
	etcd_add_bytes(compare_add(txn, key, "VALUE", "EQUAL"), "value", value);
}

/* Add {"request_WHAT": {"key": ...}}; the inner object is borrowed. */
static struct json_object *operation_add(struct json_object *txn,
					 const char *list, const char *what,
					 const char *key)
{
	struct json_object *array = NULL, *item = json_object_new_object();
	struct json_object *inner = json_object_new_object();

	etcd_add_bytes(inner, "key", key);
	json_add(item, what, inner);
	if (json_object_object_get_ex(txn, list, &array))
		(void)json_object_array_add(array, item);
	return inner;
}

void etcd_txn_put(struct json_object *txn, const char *key, const char *value,
		  int64_t lease)
{
	struct json_object *put = operation_add(txn, "success", "request_put",
						key);

	etcd_add_bytes(put, "value", value);
	if (lease)
		etcd_add_int64(put, "lease", lease);
}

void etcd_txn_delete(struct json_object *txn, const char *key)
{
	(void)operation_add(txn, "success", "request_delete_range", key);
}

void etcd_txn_else_get(struct json_object *txn, const char *key)
{
	(void)operation_add(txn, "failure", "request_range", key);
}

/* ---- calls ---- */

int etcd_get(struct etcd_api *api, const char *key, int timeout_ms,
	     struct etcd_answer *ret, struct error *err)
{
	struct json_object *body = json_object_new_object();
	int r;

	etcd_add_bytes(body, "key", key);
	r = etcd_call(api, "/v3/kv/range", body, timeout_ms, NULL, ret, err);
	if (r == 0 && ret->count == 0) {
		etcd_answer_done(ret);
		return error_set(err, ENOENT, "etcd has no '%s'", key);
	}
	return r;
}

/* Pages too large for us are asked for again with fewer items. */
static int etcd_page(struct etcd_api *api, const char *from, const char *end,
		     int64_t revision, unsigned *limit, struct etcd_answer *ret,
		     struct error *err)
{
	int r;

	do {
		struct json_object *body = json_object_new_object();

		etcd_add_bytes(body, "key", from);
		etcd_add_bytes(body, "range_end", end);
		etcd_add_int64(body, "limit", *limit);
		if (revision)
			etcd_add_int64(body, "revision", revision);
		r = etcd_call(api, "/v3/kv/range", body, 0, NULL, ret, err);
		if (r != -EMSGSIZE || *limit == 1)
			break;
		*limit = *limit > 8 ? *limit / 8 : 1;
	} while (true);
	return r;
}

int etcd_list_page(struct etcd_api *api, const char *key,
		   struct etcd_place *place, unsigned max, etcd_list_item each,
		   void *context, bool *ret_more, struct error *err)
{
	char from[ETCD_KEY_SIZE + 1], end[ETCD_KEY_SIZE];
	struct etcd_answer page = {0};
	int r;

	/* After the last one: the next key is longer. */
	(void)snprintf(from, sizeof(from), "%s%s%s", key, place->after,
		       place->after[0] ? "\001" : "");
	etcd_key_end(key, end);
	r = etcd_page(api, from, end, place->revision, &max, &page, err);
	if (r < 0)
		return r;
	place->revision = place->revision ?: page.revision;
	for (size_t i = 0; r == 0 && i < page.count; i++)
		r = each(context, &page.items[i], err);
	if (r == 0 && page.count > 0)
		(void)snprintf(place->after, sizeof(place->after), "%s",
			       page.items[page.count - 1].key + strlen(key));
	*ret_more = page.more && page.count > 0;
	etcd_answer_done(&page);
	return r;
}

int etcd_list(struct etcd_api *api, const char *key, etcd_list_item each,
	      void *context, int64_t *ret_revision, struct error *err)
{
	struct etcd_place place = {0};
	unsigned pages = 0;
	bool more = true;
	int r = 0;

	while (r == 0 && more)
		r = pages++ == PAGES_MAX
			    ? error_set(err, E2BIG, "more than %d pages",
					PAGES_MAX)
			    : etcd_list_page(api, key, &place, ETCD_PAGE, each,
					     context, &more, err);
	if (r == 0 && ret_revision)
		*ret_revision = place.revision;
	return r;
}

int etcd_grant(struct etcd_api *api, int ttl_s, int64_t *ret_lease,
	       struct error *err)
{
	struct json_object *body = json_object_new_object();
	struct etcd_answer answer = {0};
	int r;

	etcd_add_int64(body, "TTL", ttl_s);
	r = etcd_call(api, "/v3/lease/grant", body, 0, NULL, &answer, err);
	if (r < 0)
		return r;
	*ret_lease = answer.lease;
	etcd_answer_done(&answer);
	return *ret_lease ? 0 : error_set(err, EPROTO, "etcd: no lease");
}

int etcd_keep_alive(struct etcd_api *api, int64_t lease, int timeout_ms,
		    struct error *err)
{
	struct json_object *body = json_object_new_object();
	struct etcd_answer answer = {0};
	int64_t ttl_s;
	int r;

	etcd_add_int64(body, "ID", lease);
	r = etcd_call(api, "/v3/lease/keepalive", body, timeout_ms, NULL,
		      &answer, err);
	if (r < 0)
		return r;
	ttl_s = answer.ttl_s;
	etcd_answer_done(&answer);
	return ttl_s > 0 ? 0 : error_set(err, ENOENT, "etcd: no such lease");
}

int etcd_revoke(struct etcd_api *api, int64_t lease, int timeout_ms,
		struct error *err)
{
	struct json_object *body = json_object_new_object();
	struct etcd_answer answer = {0};
	int r;

	etcd_add_int64(body, "ID", lease);
	r = etcd_call(api, "/v3/lease/revoke", body, timeout_ms, NULL, &answer,
		      err);
	if (r == 0)
		etcd_answer_done(&answer);
	return r;
}
