/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the last scrub (volume/scrub/scrub.h) found on a node: a part of the
 * status of its StorageNode. It keeps since when each orphan is known, because
 * no orphan is freed before its grace is over.
 */
#ifndef VOLUME_NODE_SCRUB_H
#define VOLUME_NODE_SCRUB_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid_name.h"
#include "volume/record/json_scan.h"
#include "volume/record/volume_record.h"

/*
 * Orphans of one node whose age is kept; 128 bytes of JSON each. The age of
 * more begins when some of these are gone.
 */
#define NODE_SCRUB_AGES_MAX 128

struct node_orphan_age {
	char extent[RECORD_NAME_SIZE];
	char extent_id[UUID_TEXT_SIZE];
	int64_t since_s; /* seconds since 1970, of the scrub that first saw it
			  */
};

struct node_scrub {
	int64_t at_s;          /* seconds since 1970 */
	uint64_t orphans;      /* extents on the node without a record */
	uint64_t orphan_bytes; /* their sizes */
	uint64_t missing; /* extents that records look for there, in vain */
	struct node_orphan_age *ages; /* owned */
	size_t n_ages;
};

void node_scrub_free(struct node_scrub *scrub); /* NULL is fine */

/* Return since when the orphan with this id is known; 0: it is not. */
int64_t node_scrub_since(const struct node_scrub *scrub, const char *id);

/* NULL for NULL. */
struct json_object *node_scrub_to_json(const struct node_scrub *scrub);
/* Member "scrub" of @status; *ret stays NULL when there is none. */
void node_scrub_scan(struct json_scan *scan, struct json_object *status,
		     struct node_scrub **ret);

#endif
