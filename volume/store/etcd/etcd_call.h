/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of etcd's JSON gateway (/v3): requests built, sent to one member after
 * the other, answers decoded and our errors out.
 *
 * A write may be sent twice: when the first answer is lost, the request goes to
 * the next member. So each is a transaction that does nothing the second time.
 */
#ifndef VOLUME_ETCD_CALL_H
#define VOLUME_ETCD_CALL_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/record/volume_record.h"
#include "volume/store/etcd/etcd_answer.h"
#include "volume/store/etcd/etcd_config.h"
#include "volume/store/http/http_client.h"

/*
 * A member that is silent for so long is left for the next one. Elections take
 * one or two seconds.
 */
#define ETCD_ATTEMPT_MS 4000
#define ETCD_CONNECT_MS 2000
#define ETCD_CALL_MS    20000 /* no new attempt begins after this */

struct etcd_api {
	struct etcd_config config; /* not changed */
	struct http_peer peer;
	struct http_client *http;
	pthread_mutex_t lock; /* guards what follows */
	char *token;          /* secret; owned; NULL: none yet */
};

/* Takes @config, also on failure. Asks no member. */
int etcd_api_new(struct etcd_config *config, struct etcd_api **ret,
		 struct error *err);
void etcd_api_free(struct etcd_api *api); /* NULL is fine */
/* Forget the token: the next request authenticates. */
void etcd_api_forget(struct etcd_api *api);

/*
 * POST @body to "/v3/..." and decode the answer, or the first object of it when
 * it is a stream.
 *
 * @body          taken
 * @timeout_ms    0: ETCD_CALL_MS
 * @ret_attempts  requests sent; may be NULL
 * @ret           etcd_answer_done()
 *
 * Errors of etcd_failure(), without -EKEYEXPIRED, and of http_client_call().
 */
int etcd_call(struct etcd_api *api, const char *path, struct json_object *body,
	      int timeout_ms, unsigned *ret_attempts, struct etcd_answer *ret,
	      struct error *err);

/* ---- parts of requests; objects are returned owned ---- */

/* Write "PREFIX/A/B/C" into @ret, ETCD_KEY_SIZE bytes. @c may be NULL. */
void etcd_key(const struct etcd_api *api, const char *a, const char *b,
	      const char *c, char *ret);
/* The key of everything that begins with @key comes before this. */
void etcd_key_end(const char *key, char *ret);

void etcd_add_bytes(struct json_object *in, const char *key, const char *text);
void etcd_add_int64(struct json_object *in, const char *key, int64_t n);

/* A transaction: add to it, then call "/v3/kv/txn". */
struct json_object *etcd_txn_new(void);
/* @revision: the key's last change; 0: there is no such key. */
void etcd_txn_if_revision(struct json_object *txn, const char *key,
			  int64_t revision);
void etcd_txn_if_there(struct json_object *txn, const char *key);
void etcd_txn_if_value(struct json_object *txn, const char *key,
		       const char *value);
/* @lease: 0: none. */
void etcd_txn_put(struct json_object *txn, const char *key, const char *value,
		  int64_t lease);
void etcd_txn_delete(struct json_object *txn, const char *key);
/* Read @key when a condition is not true. */
void etcd_txn_else_get(struct json_object *txn, const char *key);

/* ---- calls ---- */

/* Get one key. -ENOENT. */
int etcd_get(struct etcd_api *api, const char *key, int timeout_ms,
	     struct etcd_answer *ret, struct error *err);

/* @item is borrowed. Other than 0: no more, return that. */
typedef int (*etcd_list_item)(void *context, const struct etcd_item *item,
			      struct error *err);

#define ETCD_PAGE 500 /* keys */

/* Where a list goes on; zero: from the first key, as of now. */
struct etcd_place {
	char after[ETCD_KEY_SIZE]; /* the end of the last key before it */
	int64_t revision;          /* the moment; 0: the present one */
};

/*
 * Call @each for the next keys that begin with @key, @max at most, in their
 * order, and move @place behind them. -ESTALE: etcd forgot that moment.
 */
int etcd_list_page(struct etcd_api *api, const char *key,
		   struct etcd_place *place, unsigned max, etcd_list_item each,
		   void *context, bool *ret_more, struct error *err);

/*
 * Call @each for all keys that begin with @key, in their order, as of one
 * moment: @ret_revision (may be NULL). -ESTALE.
 */
int etcd_list(struct etcd_api *api, const char *key, etcd_list_item each,
	      void *context, int64_t *ret_revision, struct error *err);

/* A lease of @ttl_s seconds from now on. */
int etcd_grant(struct etcd_api *api, int ttl_s, int64_t *ret_lease,
	       struct error *err);
/* -ENOENT: it is over. */
int etcd_keep_alive(struct etcd_api *api, int64_t lease, int timeout_ms,
		    struct error *err);
/* End it, and remove its keys. */
int etcd_revoke(struct etcd_api *api, int64_t lease, int timeout_ms,
		struct error *err);

#endif
