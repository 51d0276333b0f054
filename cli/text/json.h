/* SPDX-License-Identifier: Apache-2.0 */
/* What --json prints. Sizes are bytes; every object is returned owned. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <json-c/json.h>

#include "volume/snapshot/snapshot.h"
#include "volume/volume.h"

struct json_object *json_error(int r, const char *message);
struct json_object *json_node(const struct node_state *node);
struct json_object *json_pool(const struct node_pool *pool);
struct json_object *json_extent(const struct node_extent *extent);
struct json_object *json_extents(const struct node_extent *extents, size_t n);
struct json_object *json_device(const struct initiator_device *device);
struct json_object *json_orphan(const struct orphan *orphan);
/* The record as it is stored; NULL when it cannot be encoded. */
struct json_object *json_record(const struct volume_record *record);
struct json_object *json_snapshot(const struct snapshot_record *record);
struct json_object *json_group(const struct group_record *record);
struct json_object *json_snapshot_status(const struct snapshot_status *status);
struct json_object *json_volume_status(const struct volume_status *status);

/* Shorthands: add a member. */
void json_put_text(struct json_object *object, const char *key,
		   const char *text);
void json_put_number(struct json_object *object, const char *key,
		     uint64_t value);
void json_put_flag(struct json_object *object, const char *key, bool value);

#endif
