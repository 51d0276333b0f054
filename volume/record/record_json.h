/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parts of the JSON of all our records. json_scan.h says how
 * scanning goes; a scanned object may be NULL.
 */
#ifndef VOLUME_RECORD_JSON_H
#define VOLUME_RECORD_JSON_H

#include "volume/record/json_scan.h"
#include "volume/record/snapshot_record.h"
#include "volume/record/volume_record.h"

/* Places of a record's metadata; borrowed. */
struct record_metadata {
	char *name;             /* RECORD_NAME_SIZE */
	char *uid;              /* UUID_TEXT_SIZE */
	char *resource_version; /* RECORD_VERSION_SIZE */
	int64_t *created_s;
	bool *deleting; /* only read */
	struct labels *labels;
};

/* Of a struct that has them under their usual names. */
#define RECORD_METADATA(record)                                               \
	(struct record_metadata)                                              \
	{                                                                     \
		.name = (record)->name, .uid = (record)->uid,                 \
		.resource_version = (record)->resource_version,               \
		.created_s = &(record)->created_s,                            \
		.deleting = &(record)->deleting, .labels = &(record)->labels, \
	}

struct json_object *record_json_metadata(const char *name, const char *uid,
					 const char *resource_version,
					 int64_t created_s,
					 const struct labels *labels);
struct json_object *record_json_spec(const struct volume_spec *spec);
struct json_object *record_json_names(const struct name_list *list);
struct json_object *record_json_given_up(const struct volume_record *record);
struct json_object *record_json_move(const struct split_move *move);
struct json_object *record_json_conditions(
	const struct volume_condition *conditions, size_t n);

/* Member "metadata" of @in. */
void record_scan_metadata(struct json_scan *scan, struct json_object *in,
			  const struct record_metadata *ret);
void record_scan_spec(struct json_scan *scan, struct json_object *object,
		      struct volume_spec *spec);
/* Member "givenUp" of @status. */
void record_scan_given_up(struct json_scan *scan, struct json_object *status,
			  struct volume_record *record);
/* Member "move" of @object, the split number @index. */
void record_scan_move(struct json_scan *scan, struct json_object *object,
		      unsigned index, struct volume_split *split);
/* Member "conditions" of @status. */
void record_scan_conditions(struct json_scan *scan, struct json_object *status,
			    struct volume_condition **ret, size_t *ret_count);
/* At most @max of them. */
void record_scan_names(struct json_scan *scan, struct json_object *in,
		       const char *key, size_t max, struct name_list *ret);
/* A name by name_check(); RECORD_NAME_SIZE bytes. */
void record_scan_name(struct json_scan *scan, struct json_object *in,
		      const char *key, char *ret);
void record_scan_uuid(struct json_scan *scan, struct json_object *in,
		      const char *key, char *ret, bool required);
/* By name, as in the records. */
enum split_state split_state_scan(struct json_scan *scan,
				  struct json_object *in, const char *key);
enum snapshot_phase snapshot_phase_scan(struct json_scan *scan,
					struct json_object *in,
					const char *key);
/* Room for the items of an array: zeroed; NULL when it is empty. */
void *record_scan_room(struct json_scan *scan, struct json_object *array,
		       size_t size, size_t *ret_count);

/* volume_record_condition(), of any record. */
int record_condition_set(struct volume_condition **conditions, size_t *n,
			 const char *type, bool status, const char *reason,
			 const char *message);

#endif
