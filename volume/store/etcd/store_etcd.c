/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of hosts that share an etcd (3.4 or later, by its JSON gateway):
 *
 *	PREFIX/records/KIND/NAME   the record's JSON, a newline, and
 *	                           {"write": RANDOM}, anew with each write
 *	PREFIX/leases, PREFIX/beats   etcd_lease.h
 *
 * A version is the key's mod_revision. A write is a transaction: if the record
 * is of that version, and our lease on it is still ours. Sent twice because its
 * first answer was lost, it finds its own RANDOM and is done.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/uuid_name.h"
#include "volume/record/json_scan.h"
#include "volume/store/etcd/etcd_lease.h"
#include "volume/store/etcd/etcd_watch.h"
#include "volume/store/etcd/store_etcd.h"

struct etcd {
	struct store store;
	struct etcd_api *api;
	struct etcd_leases leases;
	struct etcd_beats beats;
};

static struct etcd *etcd_of(struct store *store)
{
	return container_of(store, struct etcd, store);
}

/* ---- values ---- */

/* The value of @json as written by @write. Returned owned. */
static char *value_make(const char *json, const char *write)
{
	char *value = NULL;

	return asprintf(&value, "%s\n{\"write\":\"%s\"}", json, write) < 0
		       ? NULL
		       : value;
}

static bool value_is_of(const struct etcd_item *item, const char *write)
{
	const char *line = strrchr(item->value, '\n');

	return line && write[0] && strstr(line, write);
}

static void version_write(const struct etcd_item *item, char *ret)
{
	(void)snprintf(ret, RECORD_VERSION_SIZE, "%" PRId64,
		       item->mod_revision);
}

/* A version that is none of ours is of no record. */
static int64_t version_revision(const char *version)
{
	char *end;
	int64_t revision;

	errno = 0;
	revision = strtoll(version, &end, 10);
	return !version[0] || *end || errno || revision <= 0 ? INT64_MAX
							     : revision;
}

static int etcd_record_read(const struct etcd_item *item, const char *name,
			    struct store_object *ret, struct error *err)
{
	const char *line = strrchr(item->value, '\n');
	size_t length = line ? (size_t)(line - item->value) : item->length;

	if (strlen(name) >= sizeof(ret->name))
		return error_set(err, EUCLEAN,
				 "the name of '%.200s' is too "
				 "long",
				 item->key);
	*ret = (struct store_object){.length = length};
	(void)strcpy(ret->name, name);
	version_write(item, ret->version);
	ret->json = strndup(item->value, length);
	return ret->json ? 0 : error_set(err, ENOMEM, "out of memory");
}

/* ---- reading ---- */

static int etcd_store_get(struct store *store, const char *kind,
			  const char *name, struct store_object *ret,
			  struct error *err)
{
	struct etcd *etcd = etcd_of(store);
	struct etcd_answer answer = {0};
	char key[ETCD_KEY_SIZE];
	int r = name_check(kind, name, err);

	if (r < 0)
		return r;
	etcd_key(etcd->api, "records", kind, name, key);
	r = etcd_get(etcd->api, key, 0, &answer, err);
	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no %s '%s'", kind,
				 name);
	if (r < 0)
		return r;
	r = etcd_record_read(&answer.items[0], name, ret, err);
	etcd_answer_done(&answer);
	return r;
}

struct reading {
	size_t key_length, max;
	struct store_page *page;
};

static int record_add(void *reading_, const struct etcd_item *item,
		      struct error *err)
{
	struct reading *reading = reading_;
	struct store_page *page = reading->page;
	int r;

	if (page->count == reading->max)
		return error_set(err, EPROTO,
				 "etcd: more keys than were asked for");
	r = etcd_record_read(item, item->key + reading->key_length,
			     &page->objects[page->count], err);
	if (r == 0)
		page->count++;
	return r;
}

/* Each page is of its own moment, so no row of pages takes too long. */
static int etcd_store_list(struct store *store, const char *kind,
			   struct record_place *place, size_t max,
			   struct store_page *ret, struct error *err)
{
	struct etcd *etcd = etcd_of(store);
	struct store_page page = {
		.objects = calloc(max, sizeof(*page.objects))};
	struct reading reading = {.max = max, .page = &page};
	struct etcd_place from = {0};
	char key[ETCD_KEY_SIZE];
	int r;

	if (!page.objects)
		return error_set(err, ENOMEM, "out of memory");
	etcd_key(etcd->api, "records", kind, "", key);
	reading.key_length = strlen(key);
	(void)strcpy(from.after, place->after);
	r = etcd_list_page(etcd->api, key, &from, (unsigned)max, record_add,
			   &reading, &page.more, err);
	if (r < 0) {
		store_page_done(&page);
		return r;
	}
	if (page.count > 0)
		memcpy(place->after, page.objects[page.count - 1].name,
		       sizeof(place->after));
	*ret = page;
	return 0;
}

/* ---- writing ---- */

/* A write under way. */
struct writing {
	struct etcd *etcd;
	const char *kind, *name;
	char key[ETCD_KEY_SIZE], lease_key[ETCD_KEY_SIZE];
	struct json_object *txn;
	int64_t lease_revision; /* 0: we have none */
	unsigned attempts;
	struct etcd_answer answer;
};

static int writing_begin(struct writing *writing, struct store *store,
			 const char *kind, const char *name, struct error *err)
{
	int r = name_check(kind, name, err);

	*writing = (struct writing){
		.etcd = etcd_of(store), .kind = kind, .name = name};
	if (r < 0)
		return r;
	etcd_key(writing->etcd->api, "records", kind, name, writing->key);
	writing->txn = etcd_txn_new();
	etcd_txn_else_get(writing->txn, writing->key);
	r = etcd_lease_fence(&writing->etcd->leases, kind, name, writing->txn,
			     writing->lease_key, &writing->lease_revision, err);
	if (r < 0)
		json_object_put(writing->txn);
	return r;
}

/*
 * Ask. 0: done, or -EAGAIN: a condition was not true, but that of the lease.
 *
 * @ret_item  the record that is there; NULL: none
 */
static int writing_ask(struct writing *writing,
		       const struct etcd_item **ret_item, struct error *err)
{
	const struct etcd_item *lease;
	int r = etcd_call(writing->etcd->api, "/v3/kv/txn", writing->txn, 0,
			  &writing->attempts, &writing->answer, err);

	*ret_item = NULL;
	if (r < 0 || writing->answer.succeeded)
		return r;
	*ret_item = etcd_answer_item(&writing->answer, writing->key);
	lease = writing->lease_revision
			? etcd_answer_item(&writing->answer, writing->lease_key)
			: NULL;
	if (writing->lease_revision &&
	    (!lease || lease->mod_revision != writing->lease_revision))
		return error_set(err, ESTALE,
				 "the lease on '%s' was lost: it could not be "
				 "renewed within %d s, or was removed; repeat "
				 "the command",
				 writing->name, LEASE_S);
	return -EAGAIN;
}

static int put_result(struct writing *writing, const char *version,
		      const struct etcd_item *item, struct error *err)
{
	if (!version && item)
		return error_set(err, EEXIST, "%s '%s' is there already",
				 writing->kind, writing->name);
	if (!version)
		return error_set(err, EHOSTUNREACH,
				 "%s '%s' was there and is gone; repeat the "
				 "command",
				 writing->kind, writing->name);
	if (!item)
		return error_set(err, ENOENT, "there is no %s '%s'",
				 writing->kind, writing->name);
	return error_set(err, ESTALE,
			 "%s '%s' was changed by another process (version "
			 "%" PRId64 ", not %s)",
			 writing->kind, writing->name, item->mod_revision,
			 version);
}

/* @version NULL: there is no such record yet. */
static int record_put(struct store *store, const char *kind, const char *name,
		      const char *version, const char *json, char *ret_version,
		      struct error *err)
{
	char write[UUID_TEXT_SIZE], *value;
	const struct etcd_item *item;
	struct writing writing;
	int r = writing_begin(&writing, store, kind, name, err);

	if (r < 0)
		return r;
	value = value_make(json, uuid_make(write));
	if (!value) {
		json_object_put(writing.txn);
		return error_set(err, ENOMEM, "out of memory");
	}
	etcd_txn_if_revision(writing.txn, writing.key,
			     version ? version_revision(version) : 0);
	etcd_txn_put(writing.txn, writing.key, value, 0);
	free(value);
	r = writing_ask(&writing, &item, err);
	if ((r == -EAGAIN || r == -ESTALE) && item && value_is_of(item, write))
		r = 0; /* by the first request of two */
	else if (r == -EAGAIN)
		r = put_result(&writing, version, item, err);
	if (r == 0 && ret_version)
		(void)snprintf(ret_version, RECORD_VERSION_SIZE, "%" PRId64,
			       item ? item->mod_revision
				    : writing.answer.revision);
	etcd_answer_done(&writing.answer);
	return r;
}

static int etcd_store_create(struct store *store, const char *kind,
			     const char *name, const char *json,
			     char *ret_version, struct error *err)
{
	return record_put(store, kind, name, NULL, json, ret_version, err);
}

static int etcd_store_remove(struct store *store, const char *kind,
			     const char *name, const char *version,
			     struct error *err)
{
	const struct etcd_item *item;
	struct writing writing;
	int r = writing_begin(&writing, store, kind, name, err);

	if (r < 0)
		return r;
	if (version)
		etcd_txn_if_revision(writing.txn, writing.key,
				     version_revision(version));
	else
		etcd_txn_if_there(writing.txn, writing.key);
	etcd_txn_delete(writing.txn, writing.key);
	r = writing_ask(&writing, &item, err);
	if (r == -EAGAIN && !item && writing.attempts > 1)
		r = 0; /* by the first request of two, or by another */
	else if (r == -EAGAIN)
		r = put_result(&writing, version ? version : "any", item, err);
	etcd_answer_done(&writing.answer);
	return r;
}

/* ---- leases ---- */

static int etcd_store_lease(struct store *store, const char *kind,
			    const char *name, const char *doing,
			    struct error *err)
{
	char full[LEASE_NAME_SIZE];
	int r = etcd_lease_name(kind, name, full, err);

	return r < 0 ? r
		     : lease_table_take(etcd_of(store)->leases.table, full,
					name, doing, err);
}

static int etcd_store_holds(struct store *store, const char *kind,
			    const char *name, struct error *err)
{
	char full[LEASE_NAME_SIZE];
	int r = etcd_lease_name(kind, name, full, err);

	return r < 0 ? r
		     : lease_table_holds(etcd_of(store)->leases.table, full,
					 name, err);
}

static void etcd_store_release(struct store *store, const char *kind,
			       const char *name)
{
	char full[LEASE_NAME_SIZE];

	if (etcd_lease_name(kind, name, full, NULL) == 0)
		lease_table_release(etcd_of(store)->leases.table, full);
}

static int etcd_store_beat(struct store *store, const char *name,
			   struct error *err)
{
	return etcd_beat_send(&etcd_of(store)->beats, name, err);
}

static int etcd_store_beat_end(struct store *store, const char *name,
			       struct error *err)
{
	return etcd_beat_end(&etcd_of(store)->beats, name, err);
}

static int etcd_store_beats(struct store *store, struct store_beat **ret,
			    size_t *ret_count, struct error *err)
{
	return etcd_beat_list(&etcd_of(store)->beats, ret, ret_count, err);
}

/* ---- watching ---- */

static int etcd_store_watch(struct store *store, const char *kind, int stop_fd,
			    store_watcher watcher, void *context,
			    struct error *err)
{
	struct etcd *etcd = etcd_of(store);
	char key[ETCD_KEY_SIZE];

	etcd_key(etcd->api, "records", kind, "", key);
	return etcd_watch(etcd->api, key, etcd_record_read, stop_fd, watcher,
			  context, err);
}

/* ---- open and close ---- */

static void etcd_close(struct store *store)
{
	struct etcd *etcd = etcd_of(store);

	etcd_beats_done(&etcd->beats);
	etcd_leases_done(&etcd->leases);
	etcd_api_free(etcd->api);
	free(etcd);
}

/* Asks no member: they may be down now and up later. */
static int etcd_open(const char *where, struct store **ret, struct error *err)
{
	struct etcd_config config;
	struct etcd *etcd;
	int r = etcd_config_parse(where, &config, err);

	if (r < 0)
		return r;
	etcd = calloc(1, sizeof(*etcd));
	if (!etcd) {
		etcd_config_done(&config);
		return error_set(err, ENOMEM, "out of memory");
	}
	etcd->store.ops = &store_etcd_ops;
	r = etcd_api_new(&config, &etcd->api, err);
	if (r == 0)
		r = etcd_leases_init(&etcd->leases, etcd->api, err);
	if (r == 0)
		r = etcd_beats_init(&etcd->beats, etcd->api, err);
	if (r < 0) {
		etcd_close(&etcd->store);
		return r;
	}
	*ret = &etcd->store;
	return 0;
}

const struct store_ops store_etcd_ops = {
	.name = "etcd",
	.open = etcd_open,
	.close = etcd_close,
	.create = etcd_store_create,
	.get = etcd_store_get,
	.list = etcd_store_list,
	.compare_and_swap = record_put,
	.remove = etcd_store_remove,
	.lease = etcd_store_lease,
	.holds = etcd_store_holds,
	.release = etcd_store_release,
	.beat = etcd_store_beat,
	.beat_end = etcd_store_beat_end,
	.beats = etcd_store_beats,
	.watch = etcd_store_watch,
};
