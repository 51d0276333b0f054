/* SPDX-License-Identifier: Apache-2.0 */
/* volume_walk(), and volume_list() of volume.h. */
#include "volume/op/volume_walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/context.h"

struct record_walk {
	volume_each each;
	void *context;
	char *problem; /* NULL: nobody asks */
	/* of volume_list() */
	struct volume_record **records; /* owned */
	size_t count, room;
};

/* NULL: it cannot be read, which is said. */
static struct volume_record *walk_decode(const struct record_walk *walk,
					 const struct store_object *object)
{
	struct volume_record *record = NULL;
	struct error why = {0};

	if (volume_record_decode(object->json, object->length, &record, &why) ==
	    0)
		memcpy(record->resource_version, object->version,
		       RECORD_VERSION_SIZE);
	else if (walk->problem)
		(void)snprintf(walk->problem, RECORD_TEXT_SIZE,
			       "the record of volume '%s' cannot be read: "
			       "%.150s",
			       object->name, why.msg);
	return record;
}

static int walk_tell(void *walk_, const struct store_object *object,
		     struct error *err)
{
	struct record_walk *walk = walk_;
	struct volume_record *record = walk_decode(walk, object);
	int r = record ? walk->each(walk->context, record, err) : 0;

	volume_record_free(record);
	return r;
}

int volume_walk(struct volume_context *ctx, struct record_place *place,
		volume_each each, void *context, char *ret_problem,
		struct error *err)
{
	struct record_walk walk = {
		.each = each, .context = context, .problem = ret_problem};

	if (ret_problem)
		ret_problem[0] = '\0';
	return store_walk(ctx->store, RECORD_KIND_VOLUME, place, walk_tell,
			  &walk, err);
}

static int walk_keep(void *walk_, const struct store_object *object,
		     struct error *err)
{
	struct record_walk *walk = walk_;
	struct volume_record *record = walk_decode(walk, object), **more;

	if (record && walk->count == walk->room) {
		walk->room = walk->room ? 2 * walk->room : 16;
		more = reallocarray(walk->records, walk->room, sizeof(*more));
		if (!more) {
			volume_record_free(record);
			return error_set(err, ENOMEM, "out of memory");
		}
		walk->records = more;
	}
	if (record)
		walk->records[walk->count++] = record;
	return 0;
}

int volume_list(struct volume_context *ctx, struct volume_record ***ret,
		size_t *ret_count, char *ret_problem, struct error *err)
{
	struct record_walk walk = {.problem = ret_problem};
	int r;

	if (ret_problem)
		ret_problem[0] = '\0';
	r = store_walk(ctx->store, RECORD_KIND_VOLUME, NULL, walk_keep, &walk,
		       err);
	if (r < 0) {
		volume_records_free(walk.records, walk.count);
		return r;
	}
	*ret = walk.records;
	*ret_count = walk.count;
	return 0;
}

void volume_records_free(struct volume_record **records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		volume_record_free(records[i]);
	free(records);
}
