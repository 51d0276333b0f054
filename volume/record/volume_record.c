/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/volume_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "volume/record/record_json.h"

struct volume_record *volume_record_new(void)
{
	return calloc(1, sizeof(struct volume_record));
}

void volume_record_free(struct volume_record *record)
{
	if (!record)
		return;
	labels_done(&record->labels);
	volume_spec_done(&record->spec);
	free(record->splits);
	free(record->given_up);
	free(record->attachments);
	free(record->conditions);
	free(record);
}

struct volume_split *volume_record_leaving(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct split_move *move = &record->splits[i].move;

		if (move->node[0] && !move->left &&
		    move->way == SPLIT_MOVE_UNION)
			return &record->splits[i];
	}
	return NULL;
}

struct volume_split *volume_record_successor(const struct volume_record *record)
{
	return volume_record_leaving(record)
		       ? &record->splits[record->n_splits - 1]
		       : NULL;
}

uint64_t volume_record_target(const struct volume_record *record)
{
	const struct volume_split *successor = volume_record_successor(record);
	uint64_t sum = 0;

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];

		if (split == successor)
			continue;
		sum += split->grow_to ? split->grow_to : split->size;
	}
	return sum;
}

size_t volume_record_made(const struct volume_record *record)
{
	size_t n = 0;

	if (record->phase != VOLUME_READY)
		return record->n_splits;
	while (n < record->n_splits && record->splits[n].state != SPLIT_PLANNED)
		n++;
	return n;
}

size_t volume_record_attached(const struct volume_record *record,
			      bool read_only)
{
	const struct volume_split *leaving = volume_record_leaving(record);
	size_t made = volume_record_made(record), n = made;

	if (leaving && !leaving->move.joined)
		n = --made;
	while (read_only && n > 0 && record->splits[n - 1].state != SPLIT_READY)
		n--;
	return n > 0 ? n : made;
}

bool volume_record_fs_behind(const struct volume_record *record)
{
	size_t made = volume_record_attached(record, false), formatted = 0;

	for (size_t i = 0; i < made; i++) {
		if (record->splits[i].fs_behind)
			return true;
		formatted += record->splits[i].state == SPLIT_READY &&
			     !record->splits[i].lost;
	}
	/* A volume that never was attached is formatted in any case. */
	return formatted > 0 && formatted + volume_record_lost(record) < made;
}

size_t volume_record_lost(const struct volume_record *record)
{
	size_t n = 0;

	for (size_t i = 0; i < record->n_splits; i++)
		n += record->splits[i].lost;
	return n;
}

static void split_lose(struct volume_split *split)
{
	split->lost = true;
	split->fs_behind = false;
	split->suspect = false;
	split->grow_to = 0;
	/* A copy that was being made is not whole. */
	split->move.copied = 0;
	split->move.left = split->move.extent_id[0];
	if (!split->move.left)
		split->move = (struct split_move){0};
}

void volume_record_give_up(struct volume_record *record, const char *node,
			   const char *extent, const char *id)
{
	struct volume_given_up *list;

	if (!id[0])
		return;
	if (record->n_given_up == VOLUME_GIVEN_UP_MAX) {
		record->n_given_up--;
		memmove(record->given_up, record->given_up + 1,
			record->n_given_up * sizeof(*record->given_up));
	}
	list = reallocarray(record->given_up, record->n_given_up + 1,
			    sizeof(*list));
	if (!list)
		return;
	record->given_up = list;
	list += record->n_given_up++;
	*list = (struct volume_given_up){0};
	(void)snprintf(list->node, sizeof(list->node), "%s", node);
	(void)snprintf(list->extent, sizeof(list->extent), "%s", extent);
	(void)snprintf(list->extent_id, sizeof(list->extent_id), "%s", id);
}

bool volume_record_gave_up(const struct volume_record *record, const char *id)
{
	bool yes = false;

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];

		if (strcmp(split->move.extent_id, id) == 0)
			return false;
		if (strcmp(split->extent_id, id) != 0)
			continue;
		if (!split->lost)
			return false;
		yes = true;
	}
	for (size_t i = 0; i < record->n_given_up; i++)
		yes |= strcmp(record->given_up[i].extent_id, id) == 0;
	return yes;
}

/*
 * The node of a split that is leaving, or of its successor, is lost. While
 * files are in both, the lost one is so, and the other one stays: a repair ends
 * the move. Before, there is nothing of the volume in the successor. True:
 * @record was changed.
 */
static bool lose_of_two(struct volume_record *record, const char *node)
{
	struct volume_split *leaving = volume_record_leaving(record);
	struct volume_split *successor = volume_record_successor(record);
	const bool here = leaving && strcmp(leaving->node, node) == 0;
	const bool there = successor && strcmp(successor->node, node) == 0;

	if (!here && !there)
		return false;
	if (leaving->move.joined) {
		leaving->lost = leaving->lost || here;
		successor->lost = successor->lost || there;
		return true;
	}
	if (there)
		volume_record_give_up(record, node, successor->extent,
				      successor->extent_id);
	leaving->move.way = SPLIT_MOVE_COPY;
	leaving->move.left = !there && leaving->move.extent_id[0];
	if (!leaving->move.left)
		leaving->move = (struct split_move){0};
	if (here)
		split_lose(leaving);
	record->n_splits--;
	record->phase = VOLUME_READY;
	return true;
}

bool volume_record_end_lost(struct volume_record *record)
{
	struct volume_split *leaving = volume_record_leaving(record);
	struct volume_split *successor = volume_record_successor(record);
	const struct volume_split *ends;
	unsigned index;

	if (!leaving || (!leaving->lost && !successor->lost))
		return false;
	ends = successor->lost ? successor : leaving;
	index = leaving->index;
	volume_record_give_up(record, ends->node, ends->extent,
			      ends->extent_id);
	if (ends == leaving)
		*leaving = *successor;
	leaving->index = index;
	leaving->move = (struct split_move){0};
	record->n_splits--;
	record->phase = VOLUME_READY;
	return true;
}

size_t volume_record_lose(struct volume_record *record, const char *node)
{
	size_t n = 0;

	if (record->phase == VOLUME_CREATING)
		return 0;
	n += lose_of_two(record, node);
	for (size_t i = 0; i < record->n_splits; i++) {
		struct volume_split *split = &record->splits[i];
		const bool there = strcmp(split->move.node, node) == 0 &&
				   split != volume_record_leaving(record);
		const bool lost = strcmp(split->node, node) == 0 &&
				  !split->lost &&
				  split->state != SPLIT_PLANNED &&
				  split->state != SPLIT_DELETED;

		if (record->phase == VOLUME_MOVING && (there || lost) &&
		    split->move.node[0] && !split->move.left)
			record->phase = VOLUME_READY;
		if (there) {
			volume_record_give_up(record, split->move.node,
					      split->move.extent,
					      split->move.extent_id);
			split->move = (struct split_move){0};
		}
		if (lost)
			split_lose(split);
		n += there || lost;
	}
	return n;
}

/*
 * Tell whether a split may become larger: in a device, what lies behind it
 * would move.
 */
static bool split_may_grow(const struct volume_record *record,
			   const struct volume_split *split)
{
	if (!volume_spec_is_device(&record->spec))
		return true;
	return !volume_spec_stripe(&record->spec) &&
	       split->index + 1 == volume_record_made(record);
}

int volume_record_grown(struct volume_record *record,
			struct volume_split *split, uint64_t size)
{
	uint64_t capacity;

	if (size < split->size || size % RECORD_SIZE_UNIT ||
	    (size > split->size && !split_may_grow(record, split)) ||
	    __builtin_add_overflow(record->spec.capacity, size - split->size,
				   &capacity) ||
	    capacity > VOLUME_CAPACITY_MAX)
		return -ERANGE;
	if (size > split->size) {
		record->spec.capacity = capacity;
		split->size = size;
		/*
		 * A split that is not formatted yet is made as large at once.
		 */
		split->fs_behind = split->state == SPLIT_READY;
	}
	if (split->grow_to <= size)
		split->grow_to = 0;
	return 0;
}

/* At place @at, where the last one goes if there is no room. */
static void grant_insert(struct volume_record *record, size_t at,
			 const char *grant)
{
	if (record->n_grants < VOLUME_GRANTS_MAX)
		record->n_grants++;
	for (size_t i = record->n_grants - 1; i > at; i--)
		memcpy(record->grants[i], record->grants[i - 1],
		       sizeof(record->grants[i]));
	(void)snprintf(record->grants[at], sizeof(record->grants[at]), "%s",
		       grant);
}

int volume_record_raise(struct volume_record *record, uint64_t above,
			struct error *err)
{
	char grant[UUID_TEXT_SIZE];

	if (above < record->epoch)
		above = record->epoch;
	if (above >= VOLUME_EPOCH_MAX)
		return error_set(err, ERANGE, "there is no epoch left");
	record->epoch = above + 1;
	grant_insert(record, 0, uuid_make(grant));
	return 0;
}

const char *volume_record_grant(const struct volume_record *record)
{
	return record->n_grants ? record->grants[0] : "";
}

bool volume_record_knows(const struct volume_record *record, const char *grant)
{
	for (size_t i = 0; i < record->n_grants; i++) {
		if (strcmp(record->grants[i], grant) == 0)
			return true;
	}
	return false;
}

void volume_record_learn(struct volume_record *record, const char *grant)
{
	/* The first is that of the epoch. */
	if (!volume_record_knows(record, grant))
		grant_insert(record, record->n_grants > 0, grant);
}

void volume_record_granted(struct volume_record *record)
{
	if (record->n_grants > 1)
		record->n_grants = 1;
}

struct volume_attachment *volume_record_attachment(
	const struct volume_record *record, const char *node)
{
	for (size_t i = 0; i < record->n_attachments; i++) {
		if (strcmp(record->attachments[i].node, node) == 0)
			return &record->attachments[i];
	}
	return NULL;
}

int volume_record_attach(struct volume_record *record, const char *node,
			 struct volume_attachment **ret, struct error *err)
{
	struct volume_attachment *a = volume_record_attachment(record, node);

	if (!a) {
		if (record->n_attachments >= VOLUME_ATTACHMENTS_MAX)
			return error_set(
				err, E2BIG,
				"the volume has %d attachments already",
				VOLUME_ATTACHMENTS_MAX);
		a = reallocarray(record->attachments, record->n_attachments + 1,
				 sizeof(*a));
		if (!a)
			return error_set(err, ENOMEM, "out of memory");
		record->attachments = a;
		a += record->n_attachments++;
		*a = (struct volume_attachment){.since_s = clock_wall_s()};
		(void)snprintf(a->node, sizeof(a->node), "%s", node);
	}
	*ret = a;
	return 0;
}

void volume_record_unattach(struct volume_record *record, const char *node)
{
	struct volume_attachment *a = volume_record_attachment(record, node);
	size_t at;

	if (!a)
		return;
	at = (size_t)(a - record->attachments);
	record->n_attachments--;
	memmove(a, a + 1, (record->n_attachments - at) * sizeof(*a));
}

int volume_record_condition(struct volume_record *record, const char *type,
			    bool status, const char *reason,
			    const char *message)
{
	return record_condition_set(&record->conditions, &record->n_conditions,
				    type, status, reason, message);
}

int record_condition_set(struct volume_condition **conditions, size_t *n,
			 const char *type, bool status, const char *reason,
			 const char *message)
{
	struct volume_condition *c = NULL;

	for (size_t i = 0; i < *n; i++) {
		if (strcmp((*conditions)[i].type, type) == 0)
			c = &(*conditions)[i];
	}
	if (!c) {
		if (*n >= VOLUME_CONDITIONS_MAX)
			return -E2BIG;
		c = reallocarray((*conditions), *n + 1, sizeof(*c));
		if (!c)
			return -ENOMEM;
		(*conditions) = c;
		c += (*n)++;
		*c = (struct volume_condition){.since_s = clock_wall_s()};
		(void)snprintf(c->type, sizeof(c->type), "%s", type);
	} else if (c->status != status) {
		c->since_s = clock_wall_s();
	}
	c->status = status;
	(void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
	(void)snprintf(c->message, sizeof(c->message), "%s", message);
	return 0;
}
