/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/joined_table.h"

#include "base/cleanup.h"

static int add_striped(struct mapper_table *table,
		       const struct segment *segment, const dev_t *devices)
{
	struct mapper_place places[SEGMENTS_WIDTH_MAX];

	for (unsigned i = 0; i < segment->width; i++)
		places[i] = (struct mapper_place){
			.device = devices[segment->first + i]};
	return mapper_table_add_striped(table, segment->length, segment->unit,
					places, segment->width);
}

int joined_table_make(const struct segments *segments, const dev_t *devices,
		      struct mapper_table *ret)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < segments->n; i++) {
		const struct segment *s = &segments->items[i];

		r = s->width > 1
			    ? add_striped(&table, s, devices)
			    : mapper_table_add_linear(&table, s->length,
						      devices[s->first], 0);
	}
	if (r < 0)
		return r;
	*ret = table;
	table = (struct mapper_table){.count = 0};
	return 0;
}

static bool places_equal(const struct mapper_place *a,
			 const struct mapper_place *b)
{
	return a->device == b->device && a->offset == b->offset;
}

static bool same_places(const struct mapper_segment *a,
			const struct mapper_segment *b)
{
	if (a->kind != b->kind || a->start != b->start)
		return false;
	if (a->kind == MAPPER_LINEAR)
		return places_equal(&a->place, &b->place);
	if (a->kind != MAPPER_STRIPED || a->chunk != b->chunk ||
	    a->stripes != b->stripes)
		return false;
	for (unsigned i = 0; i < a->stripes; i++)
		if (!places_equal(&a->places[i], &b->places[i]))
			return false;
	return true;
}

bool joined_table_grows(const struct mapper_table *now,
			const struct mapper_table *next)
{
	if (now->count == 0 || now->count > next->count)
		return false;
	for (size_t i = 0; i < now->count; i++) {
		const struct mapper_segment *a = &now->segments[i];
		const struct mapper_segment *b = &next->segments[i];
		bool may_grow = i == now->count - 1 && a->kind == MAPPER_LINEAR;

		if (!same_places(a, b) || b->length < a->length ||
		    (b->length > a->length && !may_grow))
			return false;
	}
	return true;
}
