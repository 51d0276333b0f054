/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/node_scrub.h"

#include <stdlib.h>
#include <string.h>

#include "volume/record/record_json.h"

void node_scrub_free(struct node_scrub *scrub)
{
	if (scrub)
		free(scrub->ages);
	free(scrub);
}

int64_t node_scrub_since(const struct node_scrub *scrub, const char *id)
{
	for (size_t i = 0; scrub && i < scrub->n_ages; i++)
		if (strcmp(scrub->ages[i].extent_id, id) == 0)
			return scrub->ages[i].since_s;
	return 0;
}

struct json_object *node_scrub_to_json(const struct node_scrub *scrub)
{
	struct json_object *object, *ages;

	if (!scrub)
		return NULL;
	object = json_object_new_object();
	ages = json_object_new_array();
	json_add(object, "time", json_from_time(scrub->at_s));
	json_add_number(object, "orphans", scrub->orphans);
	json_add_number(object, "orphanBytes", scrub->orphan_bytes);
	json_add_number(object, "missing", scrub->missing);
	for (size_t i = 0; i < scrub->n_ages; i++) {
		struct json_object *one = json_object_new_object();

		json_add_text(one, "extent", scrub->ages[i].extent);
		json_add_text(one, "extentID", scrub->ages[i].extent_id);
		json_add(one, "since", json_from_time(scrub->ages[i].since_s));
		(void)json_object_array_add(ages, one);
	}
	json_add(object, "ages", ages);
	return object;
}

static void scan_ages(struct json_scan *scan, struct json_object *in,
		      struct node_scrub *scrub)
{
	struct json_object *all = json_scan_array(scan, in, "ages",
						  NODE_SCRUB_AGES_MAX, false);

	scrub->ages = record_scan_room(scan, all, sizeof(*scrub->ages),
				       &scrub->n_ages);
	for (size_t i = 0; i < scrub->n_ages; i++) {
		struct json_object *one = json_object_array_get_idx(all, i);
		struct node_orphan_age *age = &scrub->ages[i];

		json_scan_at(scan, "status.scrub.ages[%zu]", i);
		record_scan_name(scan, one, "extent", age->extent);
		record_scan_uuid(scan, one, "extentID", age->extent_id, true);
		age->since_s = json_scan_time(scan, one, "since");
	}
}

void node_scrub_scan(struct json_scan *scan, struct json_object *status,
		     struct node_scrub **ret)
{
	struct json_object *in;
	struct node_scrub *scrub;

	json_scan_at(scan, "status");
	in = json_scan_object(scan, status, "scrub", false);
	if (!in)
		return;
	scrub = calloc(1, sizeof(*scrub));
	if (!scrub) {
		json_scan_fail(scan, "scrub", "out of memory");
		return;
	}
	json_scan_at(scan, "status.scrub");
	scrub->at_s = json_scan_time(scan, in, "time");
	scrub->orphans = json_scan_number(scan, in, "orphans", 0, INT64_MAX,
					  false);
	scrub->orphan_bytes = json_scan_number(scan, in, "orphanBytes", 0,
					       INT64_MAX, false);
	scrub->missing = json_scan_number(scan, in, "missing", 0, INT64_MAX,
					  false);
	scan_ages(scan, in, scrub);
	*ret = scrub;
}
