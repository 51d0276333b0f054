/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_lease.h: heartbeats. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/record/json_scan.h"
#include "volume/store/etcd/etcd_lease.h"

#define BEAT_MS        5000 /* for the answer; the next beat comes soon */
#define BEAT_TRIES_MAX 3    /* somebody else writes it meanwhile */
#define BEAT_VALUE_MAX 1024 /* bytes */

static void beat_keys(const struct etcd_beats *beats, const char *name,
		      char *last, char *live)
{
	etcd_key(beats->api, "beats", "last", name, last);
	etcd_key(beats->api, "beats", "live", name, live);
}

/* Write that the node is alive, where @txn's condition is true. */
static int beat_write(struct etcd_beats *beats, const char *name,
		      struct json_object *txn, struct etcd_answer *ret,
		      struct error *err)
{
	struct json_object *object = json_object_new_object();
	char last[ETCD_KEY_SIZE], live[ETCD_KEY_SIZE];
	auto_free char *value = NULL;
	int r;

	json_add_text(object, "holder", beats->holder);
	json_add_number(object, "time", (uint64_t)clock_wall_s());
	r = json_finish(object, BEAT_VALUE_MAX, &value, err);
	if (r < 0) {
		json_object_put(txn);
		return r;
	}
	beat_keys(beats, name, last, live);
	etcd_txn_put(txn, last, value, 0);
	etcd_txn_put(txn, live, beats->holder, beats->lease);
	etcd_txn_else_get(txn, live);
	return etcd_call(beats->api, "/v3/kv/txn", txn, BEAT_MS, NULL, ret,
			 err);
}

/* The beat after one of ours. -ESTALE: another's is there, or none. */
static int beat_repeat(struct etcd_beats *beats, const char *name,
		       struct error *err)
{
	char last[ETCD_KEY_SIZE], live[ETCD_KEY_SIZE];
	struct etcd_answer answer = {0};
	struct json_object *txn;
	int r = etcd_keep_alive(beats->api, beats->lease, BEAT_MS, err);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	beat_keys(beats, name, last, live);
	txn = etcd_txn_new();
	etcd_txn_if_value(txn, live, beats->holder);
	r = beat_write(beats, name, txn, &answer, err);
	if (r == 0 && !answer.succeeded)
		r = -ESTALE;
	etcd_answer_done(&answer);
	return r == -ENOENT ? -ESTALE : r;
}

/* -ESTALE: somebody was faster. */
static int beat_claim(struct etcd_beats *beats, const char *name,
		      struct error *err)
{
	char last[ETCD_KEY_SIZE], live[ETCD_KEY_SIZE];
	struct etcd_answer answer = {0};
	struct json_object *txn;
	int64_t revision = 0;
	int r;

	beat_keys(beats, name, last, live);
	r = etcd_get(beats->api, live, BEAT_MS, &answer, err);
	if (r == 0 && strcmp(answer.items[0].value, beats->holder) != 0)
		r = error_set(err, EBUSY,
			      "another machine, %.100s, says that it is node "
			      "'%s', less than %d s ago: two machines of one "
			      "name?",
			      answer.items[0].value, name, STORE_BEAT_LOST_S);
	if (r == 0)
		revision = answer.items[0].mod_revision;
	etcd_answer_done(&answer);
	if (r < 0 && r != -ENOENT)
		return r;
	r = etcd_grant(beats->api, STORE_BEAT_LOST_S, &beats->lease, err);
	if (r < 0)
		return r;
	txn = etcd_txn_new();
	etcd_txn_if_revision(txn, live, revision);
	r = beat_write(beats, name, txn, &answer, err);
	if (r == -ENOENT || (r == 0 && !answer.succeeded))
		r = error_set(err, ESTALE, "another was faster");
	etcd_answer_done(&answer);
	return r;
}

int etcd_beat_send(struct etcd_beats *beats, const char *name,
		   struct error *err)
{
	int r = name_check(RECORD_KIND_NODE, name, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&beats->lock);
	r = -ESTALE;
	if (strcmp(beats->name, name) == 0)
		r = beat_repeat(beats, name, err);
	for (int i = 0; i < BEAT_TRIES_MAX && r == -ESTALE; i++)
		r = beat_claim(beats, name, err);
	(void)strcpy(beats->name, r == 0 ? name : ""); /* checked above */
	(void)pthread_mutex_unlock(&beats->lock);
	return r;
}

int etcd_beat_end(struct etcd_beats *beats, const char *name, struct error *err)
{
	char last[ETCD_KEY_SIZE], live[ETCD_KEY_SIZE];
	struct etcd_answer answer = {0};
	struct json_object *txn;
	int r = name_check(RECORD_KIND_NODE, name, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&beats->lock);
	beats->name[0] = '\0';
	beat_keys(beats, name, last, live);
	txn = etcd_txn_new();
	etcd_txn_delete(txn, last);
	etcd_txn_delete(txn, live);
	r = etcd_call(beats->api, "/v3/kv/txn", txn, BEAT_MS, NULL, &answer,
		      err);
	etcd_answer_done(&answer);
	(void)pthread_mutex_unlock(&beats->lock);
	return r;
}

/* ---- looking ---- */

/* An age of a node that lives, while a list is read; and back. */
#define BEAT_LIVE(age_s) (-1 - (age_s))

struct beats_read {
	size_t last_length, live_length; /* of the keys before the names */
	const char *live;
	struct store_beat *items; /* owned, by name */
	size_t count, room;
};

static int64_t beat_time(const struct etcd_item *item)
{
	struct json_object *object = NULL;
	struct json_scan scan = {0};
	int64_t time;

	(void)json_scan_parse(item->value, item->length, BEAT_VALUE_MAX,
			      &object, NULL);
	time = (int64_t)json_scan_number(&scan, object, "time", 0, INT64_MAX,
					 true);
	json_object_put(object);
	return time;
}

static int beat_last_add(struct beats_read *read, const struct etcd_item *item,
			 struct error *err)
{
	const char *name = item->key + read->last_length;
	int64_t age_s = clock_wall_s() - beat_time(item);
	struct store_beat *at;

	if (strlen(name) >= sizeof(at->name))
		return 0;
	if (read->count == read->room) {
		read->room = read->room ? 2 * read->room : 64;
		at = reallocarray(read->items, read->room, sizeof(*at));
		if (!at)
			return error_set(err, ENOMEM, "out of memory");
		read->items = at;
	}
	at = &read->items[read->count++];
	*at = (struct store_beat){.age_s = age_s > 0 ? age_s : 0};
	(void)strcpy(at->name, name);
	return 0;
}

static int beat_name_compare(const void *name, const void *beat)
{
	return strcmp(name, ((const struct store_beat *)beat)->name);
}

/* In the order of keys: all that is last comes before all that live. */
static int beat_found(void *context, const struct etcd_item *item,
		      struct error *err)
{
	struct beats_read *read = context;
	struct store_beat *beat = NULL;

	if (strncmp(item->key, read->live, read->live_length) != 0)
		return beat_last_add(read, item, err);
	if (read->count > 0)
		beat = bsearch(item->key + read->live_length, read->items,
			       read->count, sizeof(*beat), beat_name_compare);
	if (beat)
		beat->age_s = BEAT_LIVE(beat->age_s);
	return 0;
}

/* Clocks may differ: the node is lost, or not, as etcd says. */
static void beat_age_set(struct store_beat *beat)
{
	bool live = beat->age_s < 0;
	int64_t age_s = live ? BEAT_LIVE(beat->age_s) : beat->age_s;

	if (live && age_s > STORE_BEAT_LOST_S)
		age_s = STORE_BEAT_LOST_S;
	if (!live && age_s <= STORE_BEAT_LOST_S)
		age_s = STORE_BEAT_LOST_S + 1;
	beat->age_s = age_s;
}

int etcd_beat_list(struct etcd_beats *beats, struct store_beat **ret,
		   size_t *ret_count, struct error *err)
{
	char all[ETCD_KEY_SIZE], last[ETCD_KEY_SIZE], live[ETCD_KEY_SIZE];
	struct beats_read read = {.live = live};
	int r;

	etcd_key(beats->api, "beats", "", NULL, all);
	beat_keys(beats, "", last, live);
	read.last_length = strlen(last);
	read.live_length = strlen(live);
	r = etcd_list(beats->api, all, beat_found, &read, NULL, err);
	if (r < 0) {
		free(read.items);
		return r;
	}
	for (size_t i = 0; i < read.count; i++)
		beat_age_set(&read.items[i]);
	*ret = read.items;
	*ret_count = read.count;
	return 0;
}

int etcd_beats_init(struct etcd_beats *beats, struct etcd_api *api,
		    struct error *err)
{
	beats->api = api;
	(void)pthread_mutex_init(&beats->lock, NULL);
	return lease_machine_make(beats->holder, err);
}

void etcd_beats_done(struct etcd_beats *beats)
{
	(void)pthread_mutex_destroy(&beats->lock);
}
