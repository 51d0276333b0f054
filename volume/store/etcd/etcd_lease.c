/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/etcd/etcd_lease.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/record/json_scan.h"

#define TTL_S        (LEASE_S + 3) /* more than we count on */
#define IDENTITY_MAX 256           /* bytes with NUL; struct lease_who */
#define DOING_SIZE   64            /* bytes with NUL */
#define VALUE_MAX    1024          /* bytes of a lease's value */

int etcd_lease_name(const char *kind, const char *name, char *ret,
		    struct error *err)
{
	int r = name_check(kind, name, err);

	if (r == 0 && snprintf(ret, LEASE_NAME_SIZE, "%s/%s", kind, name) >=
			      LEASE_NAME_SIZE)
		r = error_set(err, EINVAL, "the %s name is too long", kind);
	return r;
}

static void lease_key(const struct etcd_leases *leases, const char *name,
		      char *ret)
{
	etcd_key(leases->api, "leases", name, NULL, ret);
}

/* ---- its value ---- */

static char *lease_value(const struct lease_who *us, const char *doing)
{
	struct json_object *object = json_object_new_object();
	char *text = NULL;

	json_add_text(object, "holder", us->identity);
	json_add_text(object, "doing", doing);
	json_add_number(object, "since", (uint64_t)clock_wall_s());
	(void)json_finish(object, VALUE_MAX, &text, NULL);
	return text;
}

/*
 * Check the lease that is there. 0: it is ours, as an answer was lost, or of a
 * process that is no more; another may have it.
 */
static int lease_free_check(const struct lease_who *us,
			    const struct etcd_item *item, const char *what,
			    struct error *err)
{
	struct json_scan scan = {0};
	struct json_object *object = NULL;
	char holder[IDENTITY_MAX] = "", doing[DOING_SIZE] = "";
	int64_t for_s;

	(void)json_scan_parse(item->value, item->length, VALUE_MAX, &object,
			      NULL);
	json_scan_text(&scan, object, "holder", holder, sizeof(holder), true);
	json_scan_text(&scan, object, "doing", doing, sizeof(doing), false);
	for_s = clock_wall_s() - (int64_t)json_scan_number(&scan, object,
							   "since", 0,
							   INT64_MAX, false);
	json_object_put(object);
	if (scan.r < 0) /* it ends, like any */
		return error_set(err, EAGAIN,
				 "busy: the lease on '%s' is not of ours; try "
				 "again later",
				 what);
	if (strcmp(holder, us->identity) == 0 || lease_who_died(us, holder))
		return 0;
	return lease_who_busy(holder, doing, what, for_s > 0 ? for_s : 0, err);
}

/* ---- the table's ---- */

static struct json_object *token_new(int64_t lease, int64_t revision)
{
	struct json_object *token = json_object_new_object();

	json_object_object_add(token, "lease", json_object_new_int64(lease));
	json_object_object_add(token, "revision",
			       json_object_new_int64(revision));
	return token;
}

static int64_t token_number(struct json_object *token, const char *key)
{
	struct json_object *found = NULL;

	(void)json_object_object_get_ex(token, key, &found);
	return json_object_get_int64(found);
}

/* The revision of the lease that may be taken; 0: there is none. */
static int lease_look(struct etcd_leases *leases, const char *key,
		      const char *what, int64_t *ret_revision,
		      struct error *err)
{
	struct etcd_answer answer = {0};
	int r = etcd_get(leases->api, key, 0, &answer, err);

	*ret_revision = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	*ret_revision = answer.items[0].mod_revision;
	r = lease_free_check(&leases->us, &answer.items[0], what, err);
	etcd_answer_done(&answer);
	return r;
}

static int etcd_lease_take(void *leases_, const char *name, const char *what,
			   const char *doing, struct json_object **ret,
			   struct error *err)
{
	struct etcd_leases *leases = leases_;
	auto_free char *value = lease_value(&leases->us, doing);
	struct json_object *txn;
	struct etcd_answer answer = {0};
	char key[ETCD_KEY_SIZE];
	int64_t lease, revision;
	int r;

	if (!value)
		return error_set(err, ENOMEM, "out of memory");
	lease_key(leases, name, key);
	r = lease_look(leases, key, what, &revision, err);
	if (r == 0)
		r = etcd_grant(leases->api, TTL_S, &lease, err);
	if (r < 0)
		return r;
	txn = etcd_txn_new();
	etcd_txn_if_revision(txn, key, revision);
	etcd_txn_put(txn, key, value, lease);
	r = etcd_call(leases->api, "/v3/kv/txn", txn, 0, NULL, &answer, err);
	if (r == 0 && answer.succeeded)
		*ret = token_new(lease, answer.revision);
	else if (r == 0 || r == -ENOENT)
		r = error_set(err, ESTALE, "another was faster");
	etcd_answer_done(&answer);
	/* Then a request that comes late does nothing. */
	if (r < 0)
		(void)etcd_revoke(leases->api, lease, LEASE_RENEW_MS, NULL);
	return r;
}

static int etcd_lease_renew(void *leases_, const char *name,
			    struct json_object *token, struct json_object **ret)
{
	struct etcd_leases *leases = leases_;
	struct etcd_answer answer = {0};
	char key[ETCD_KEY_SIZE];
	int r;

	lease_key(leases, name, key);
	*ret = token;
	r = etcd_keep_alive(leases->api, token_number(token, "lease"),
			    LEASE_RENEW_MS, NULL);
	/* Its key may have been removed all the same. */
	if (r == 0)
		r = etcd_get(leases->api, key, LEASE_RENEW_MS, &answer, NULL);
	if (r == 0) {
		if (answer.items[0].mod_revision !=
		    token_number(token, "revision"))
			r = -ESTALE;
		etcd_answer_done(&answer);
	}
	if (r < 0)
		json_object_put(token);
	return r;
}

static void etcd_lease_give(void *leases_, const char *name,
			    struct json_object *token)
{
	struct etcd_leases *leases = leases_;

	(void)name;
	/* A lease that cannot be given back expires. */
	(void)etcd_revoke(leases->api, token_number(token, "lease"),
			  LEASE_RENEW_MS, NULL);
}

static const struct lease_ops etcd_lease_ops = {
	.take = etcd_lease_take,
	.renew = etcd_lease_renew,
	.give = etcd_lease_give,
};

int etcd_lease_fence(struct etcd_leases *leases, const char *kind,
		     const char *name, struct json_object *txn, char *ret_key,
		     int64_t *ret_revision, struct error *err)
{
	char full[LEASE_NAME_SIZE];
	struct json_object *token;
	int r = etcd_lease_name(kind, name, full, err);

	*ret_revision = 0;
	if (r == 0)
		r = lease_table_check(leases->table, full, name, err);
	if (r < 0)
		return r;
	lease_key(leases, full, ret_key);
	token = lease_table_token(leases->table, full);
	if (token) {
		*ret_revision = token_number(token, "revision");
		etcd_txn_if_revision(txn, ret_key, *ret_revision);
		etcd_txn_else_get(txn, ret_key);
	}
	json_object_put(token);
	return 0;
}

int etcd_leases_init(struct etcd_leases *leases, struct etcd_api *api,
		     struct error *err)
{
	int r = lease_who_make(&leases->us, err);

	leases->api = api;
	return r < 0 ? r
		     : lease_table_new(&etcd_lease_ops, leases, &leases->table,
				       err);
}

void etcd_leases_done(struct etcd_leases *leases)
{
	lease_table_free(leases->table);
}
