/* SPDX-License-Identifier: Apache-2.0 */
/* The other place of a split, in the record of its volume. */
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/record/record_json.h"

static const char *const way_names[] = {
	[SPLIT_MOVE_COPY] = "Copy",
	[SPLIT_MOVE_UNION] = "Union",
	[SPLIT_MOVE_BLOCK] = "Block",
};

const char *split_move_way_name(enum split_move_way way)
{
	return way_names[way];
}

struct json_object *record_json_move(const struct split_move *move)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "node", move->node);
	json_add_text(object, "pool", move->pool);
	json_add_text(object, "extent", move->extent);
	json_add_text(object, "extentID", move->extent_id);
	if (move->way != SPLIT_MOVE_COPY) /* which older versions know */
		json_add_text(object, "way", way_names[move->way]);
	if (move->copied)
		json_add_number(object, "copied", move->copied);
	if (move->left)
		json_add(object, "left", json_object_new_boolean(true));
	if (move->joined)
		json_add(object, "joined", json_object_new_boolean(true));
	if (move->back)
		json_add(object, "back", json_object_new_boolean(true));
	return object;
}

void record_scan_move(struct json_scan *scan, struct json_object *object,
		      unsigned index, struct volume_split *split)
{
	struct json_object *in = json_scan_object(scan, object, "move", false);
	struct split_move *move = &split->move;

	if (!in)
		return;
	json_scan_at(scan, "status.splits[%u].move", index);
	record_scan_name(scan, in, "node", move->node);
	record_scan_name(scan, in, "pool", move->pool);
	record_scan_name(scan, in, "extent", move->extent);
	record_scan_uuid(scan, in, "extentID", move->extent_id, false);
	move->copied = json_scan_number(scan, in, "copied", 0, split->size,
					false);
	move->left = json_scan_flag(scan, in, "left");
	if (json_object_object_get_ex(in, "way", NULL))
		move->way = (enum split_move_way)json_scan_enum(
			scan, in, "way", way_names, array_size(way_names));
	move->joined = json_scan_flag(scan, in, "joined");
	move->back = json_scan_flag(scan, in, "back");
	if ((move->joined || move->back) &&
	    (move->way != SPLIT_MOVE_UNION || move->left))
		json_scan_fail(scan, "joined", "or back is of no such move");
	if (strcmp(move->node, split->node) == 0 &&
	    strcmp(move->extent, split->extent) == 0)
		json_scan_fail(scan, "extent", "is the split's own");
	if (!move->extent_id[0] && (move->copied || move->left))
		json_scan_fail(scan, "extentID", "is missing");
}
