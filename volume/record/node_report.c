/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/node_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/record/node.h"

#define CONDITIONS_MAX 16 /* deploy/crd */

static const char *const ready_names[] = {
	[NODE_READY_UNKNOWN] = "Unknown",
	[NODE_READY_FALSE] = "False",
	[NODE_READY_TRUE] = "True",
};

const char *node_ready_name(enum node_ready ready)
{
	return ready_names[ready];
}

void node_report_free(struct node_report *report)
{
	if (report)
		free(report->pools);
	free(report);
}

static void report_set(struct node_report *report, enum node_ready ready,
		       const char *reason, const char *message)
{
	report->ready = ready;
	(void)snprintf(report->reason, sizeof(report->reason), "%s", reason);
	(void)snprintf(report->message, sizeof(report->message), "%s", message);
}

static void pool_report(const struct node_pool *pool,
			struct node_pool_report *ret)
{
	memcpy(ret->name, pool->name, sizeof(ret->name));
	memcpy(ret->kind, pool->kind, sizeof(ret->kind));
	memcpy(ret->state, pool->state, sizeof(ret->state));
	ret->capacity = pool->capacity;
	ret->available = pool->available;
}

struct node_report *node_report_of(const struct node_state *state)
{
	struct node_report *report = calloc(1, sizeof(*report));
	size_t n = state->n_pools < NODE_REPORT_POOLS_MAX
			   ? state->n_pools
			   : NODE_REPORT_POOLS_MAX;

	if (!report)
		return NULL;
	report->pools = calloc(n + 1, sizeof(*report->pools));
	if (!report->pools) {
		free(report);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		pool_report(&state->pools[i], &report->pools[i]);
	report->n_pools = n;
	report->since_s = clock_wall_s();
	memcpy(report->version, state->version, sizeof(report->version));
	memcpy(report->boot_id, state->boot_id, sizeof(report->boot_id));
	report_set(report, NODE_READY_TRUE, NODE_REASON_READY, "");
	return report;
}

struct node_report *node_report_with(const struct node_report *report,
				     enum node_ready ready, const char *reason,
				     const char *message)
{
	struct node_report *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *report;
	copy->pools = calloc(report->n_pools + 1, sizeof(*copy->pools));
	if (!copy->pools) {
		free(copy);
		return NULL;
	}
	if (report->n_pools > 0)
		memcpy(copy->pools, report->pools,
		       report->n_pools * sizeof(*copy->pools));
	if (ready != report->ready)
		copy->since_s = clock_wall_s();
	report_set(copy, ready, reason, message);
	return copy;
}

/* ---- two of them ---- */

static bool report_same_but_pools(const struct node_report *a,
				  const struct node_report *b)
{
	if (a->ready != b->ready || strcmp(a->reason, b->reason) != 0 ||
	    strcmp(a->version, b->version) != 0 ||
	    strcmp(a->boot_id, b->boot_id) != 0 ||
	    a->n_transports != b->n_transports || a->n_pools != b->n_pools)
		return false;
	for (size_t i = 0; i < a->n_transports; i++) {
		if (strcmp(a->transports[i], b->transports[i]) != 0)
			return false;
	}
	return true;
}

static bool pool_same_but_room(const struct node_pool_report *a,
			       const struct node_pool_report *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0 &&
	       strcmp(a->state, b->state) == 0 && a->capacity == b->capacity;
}

bool node_report_equal(const struct node_report *a, const struct node_report *b)
{
	if (!report_same_but_pools(a, b))
		return false;
	for (size_t i = 0; i < a->n_pools; i++) {
		if (!pool_same_but_room(&a->pools[i], &b->pools[i]) ||
		    a->pools[i].available != b->pools[i].available)
			return false;
	}
	return true;
}

/* A pool that has become full, or has room again, always weighs. */
static bool room_weighs(const struct node_pool_report *a,
			const struct node_pool_report *b)
{
	uint64_t apart = a->available > b->available
				 ? a->available - b->available
				 : b->available - a->available;

	return (a->available == 0) != (b->available == 0) ||
	       apart > a->capacity / NODE_REPORT_ROOM_PARTS;
}

bool node_report_weighs(const struct node_report *written,
			const struct node_report *now)
{
	if (!written || !report_same_but_pools(written, now))
		return true;
	for (size_t i = 0; i < now->n_pools; i++) {
		if (!pool_same_but_room(&written->pools[i], &now->pools[i]) ||
		    room_weighs(&written->pools[i], &now->pools[i]))
			return true;
	}
	return false;
}

/* ---- versions ---- */

static bool version_read(const char *text, unsigned *major, unsigned *minor)
{
	return sscanf(text, "%5u.%5u", major, minor) == 2;
}

bool node_version_is_newer(const char *version, const char *own)
{
	unsigned major, minor, own_major, own_minor;

	if (!version_read(version, &major, &minor) ||
	    !version_read(own, &own_major, &own_minor))
		return false;
	return major > own_major ||
	       (major == own_major && minor > own_minor + 1);
}

/* ---- as JSON ---- */

static struct json_object *condition_to_json(const struct node_report *report)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "type", "Ready");
	json_add_text(object, "status", ready_names[report->ready]);
	json_add_text(object, "reason", report->reason);
	json_add_text(object, "message", report->message);
	json_add(object, "lastTransitionTime", json_from_time(report->since_s));
	return object;
}

struct json_object *node_report_to_json(const struct node_report *report)
{
	struct json_object *object, *conditions, *transports, *pools;

	if (!report)
		return NULL;
	object = json_object_new_object();
	conditions = json_object_new_array();
	transports = json_object_new_array();
	pools = json_object_new_array();
	(void)json_object_array_add(conditions, condition_to_json(report));
	json_add(object, "conditions", conditions);
	json_add_text(object, "version", report->version);
	json_add_text(object, "bootID", report->boot_id);
	if (report->epoch)
		json_add_number(object, "epoch", report->epoch);
	for (size_t i = 0; i < report->n_transports; i++)
		(void)json_object_array_add(
			transports,
			json_object_new_string(report->transports[i]));
	json_add(object, "transports", transports);
	for (size_t i = 0; i < report->n_pools; i++) {
		const struct node_pool_report *pool = &report->pools[i];
		struct json_object *item = json_object_new_object();

		json_add_text(item, "name", pool->name);
		json_add_text(item, "kind", pool->kind);
		json_add_text(item, "state", pool->state);
		json_add_number(item, "capacity", pool->capacity);
		json_add_number(item, "available", pool->available);
		(void)json_object_array_add(pools, item);
	}
	json_add(object, "pools", pools);
	return object;
}

static struct json_object *condition_find(struct json_scan *scan,
					  struct json_object *status)
{
	struct json_object *all = json_scan_array(scan, status, "conditions",
						  CONDITIONS_MAX, false);
	size_t n = all ? json_object_array_length(all) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *item = json_object_array_get_idx(all, i);
		struct json_object *type = NULL;

		if (json_object_is_type(item, json_type_object) &&
		    json_object_object_get_ex(item, "type", &type) &&
		    json_object_is_type(type, json_type_string) &&
		    strcmp(json_object_get_string(type), "Ready") == 0)
			return item;
	}
	return NULL;
}

static void scan_pool(struct json_scan *scan, struct json_object *item,
		      struct node_pool_report *pool)
{
	if (!json_object_is_type(item, json_type_object)) {
		json_scan_fail(scan, "pools", "has a member that is no pool");
		return;
	}
	json_scan_text(scan, item, "name", pool->name, sizeof(pool->name),
		       true);
	json_scan_text(scan, item, "kind", pool->kind, sizeof(pool->kind),
		       false);
	json_scan_text(scan, item, "state", pool->state, sizeof(pool->state),
		       false);
	pool->capacity = json_scan_number(scan, item, "capacity", 0, INT64_MAX,
					  false);
	pool->available = json_scan_number(scan, item, "available", 0,
					   INT64_MAX, false);
}

static void scan_pools(struct json_scan *scan, struct json_object *status,
		       struct node_report *report)
{
	struct json_object *all = json_scan_array(scan, status, "pools",
						  NODE_REPORT_POOLS_MAX, false);
	size_t n = all ? json_object_array_length(all) : 0;

	report->pools = calloc(n + 1, sizeof(*report->pools));
	if (!report->pools) {
		json_scan_fail(scan, "pools", "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++)
		scan_pool(scan, json_object_array_get_idx(all, i),
			  &report->pools[i]);
	report->n_pools = n;
}

static void scan_transports(struct json_scan *scan, struct json_object *status,
			    struct node_report *report)
{
	struct json_object *all = json_scan_array(
		scan, status, "transports", NODE_REPORT_TRANSPORTS_MAX, false);
	size_t n = all ? json_object_array_length(all) : 0;

	for (size_t i = 0; i < n; i++) {
		struct json_object *item = json_object_array_get_idx(all, i);

		if (!json_object_is_type(item, json_type_string) ||
		    (size_t)json_object_get_string_len(item) >=
			    sizeof(report->transports[i])) {
			json_scan_fail(scan, "transports",
				       "has a member that is no transport");
			return;
		}
		strcpy(report->transports[i], json_object_get_string(item));
		report->n_transports++;
	}
}

void node_report_scan(struct json_scan *scan, struct json_object *status,
		      struct node_report **ret)
{
	struct json_object *condition;
	struct node_report *report;

	json_scan_at(scan, "status");
	condition = condition_find(scan, status);
	if (!condition)
		return;
	report = calloc(1, sizeof(*report));
	if (!report) {
		json_scan_fail(scan, "conditions", "out of memory");
		return;
	}
	json_scan_text(scan, status, "version", report->version,
		       sizeof(report->version), false);
	json_scan_text(scan, status, "bootID", report->boot_id,
		       sizeof(report->boot_id), false);
	report->epoch = json_scan_number(scan, status, "epoch", 0, INT64_MAX,
					 false);
	scan_transports(scan, status, report);
	scan_pools(scan, status, report);
	json_scan_at(scan, "status.conditions");
	report->ready = (enum node_ready)json_scan_enum(
		scan, condition, "status", ready_names,
		array_size(ready_names));
	json_scan_text(scan, condition, "reason", report->reason,
		       sizeof(report->reason), false);
	json_scan_text(scan, condition, "message", report->message,
		       sizeof(report->message), false);
	report->since_s = json_scan_time(scan, condition, "lastTransitionTime");
	*ret = report;
}
