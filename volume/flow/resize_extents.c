/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New extents come first: they can be undone, an extent that has grown stays
 * so.
 */
#include "volume/flow/resize_extents.h"
#include "volume/plan/volume_plan.h"

#include <errno.h>
#include <string.h>

#include "volume/op/split.h"

/*
 * Make the extents of planned splits. They stay planned, and no part of the
 * volume, until all of them are there.
 */
static int make_planned(struct operation *op, struct error *err)
{
	struct volume_record *record = op->record;
	size_t made = volume_record_made(record);
	int r = 0;

	for (size_t i = made; r == 0 && i < record->n_splits; i++) {
		r = split_create(op, &record->splits[i], err);
		record->splits[i].state = SPLIT_PLANNED;
	}
	return r;
}

static int take_in(struct operation *op, struct error *err)
{
	struct volume_record *record = op->record;
	size_t made = volume_record_made(record);

	if (made == record->n_splits)
		return 0;
	for (size_t i = made; i < record->n_splits; i++) {
		record->splits[i].state = SPLIT_CREATED;
		record->spec.capacity += record->splits[i].size;
	}
	return operation_save(op, err);
}

int resize_extents(struct operation *op, struct error *err)
{
	size_t made = volume_record_made(op->record);
	int r = make_planned(op, err);

	for (size_t i = 0; r == 0 && i < made; i++) {
		if (op->record->splits[i].grow_to)
			r = split_grow(op, &op->record->splits[i], err);
	}
	return r == 0 ? take_in(op, err) : r;
}

/* Return the first problem, which is the one that is told. */
static int first_of(int r, int e, const struct error *why, struct error *err)
{
	if (e < 0 && r == 0 && err)
		*err = *why;
	return r ? r : e;
}

static int drop_planned(struct operation *op, struct error *err)
{
	struct volume_record *record = op->record;
	size_t made = volume_record_made(record);
	int r = 0;

	for (size_t i = made; i < record->n_splits; i++) {
		struct volume_split *split = &record->splits[i];
		struct error why = {0};
		int e = split_delete(op, split, &why);

		split->state = SPLIT_PLANNED;
		if (e == 0)
			split->extent_id[0] = '\0';
		r = first_of(r, e, &why, err);
	}
	if (r == 0)
		record->n_splits = made;
	return r;
}

int resize_settle(struct operation *op, struct error *err)
{
	size_t made = volume_record_made(op->record);
	struct error why = {0};
	int r = 0;

	if (!volume_plan_is_open(op->record))
		return 0;
	op->undoing = true;
	for (size_t i = 0; i < made; i++) {
		struct volume_split *split = &op->record->splits[i];
		int e = split->grow_to ? split_settle(op, split, &why) : 0;

		r = first_of(r, e, &why, err);
	}
	r = first_of(r, drop_planned(op, &why), &why, err);
	op->undoing = false;
	return first_of(r, operation_save(op, &why), &why, err);
}
