/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/snapshot_record.h"

#include <stdlib.h>
#include <string.h>

#include "volume/record/record_json.h"

struct snapshot_record *snapshot_record_new(void)
{
	return calloc(1, sizeof(struct snapshot_record));
}

void snapshot_record_free(struct snapshot_record *record)
{
	if (!record)
		return;
	labels_done(&record->labels);
	volume_spec_done(&record->spec);
	free(record->splits);
	free(record->conditions);
	free(record);
}

void snapshot_records_free(struct snapshot_record **records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snapshot_record_free(records[i]);
	free(records);
}

bool snapshot_record_is_cut(const struct snapshot_record *record)
{
	return record->phase == SNAPSHOT_COPYING ||
	       record->phase == SNAPSHOT_READY;
}

uint64_t snapshot_record_copied(const struct snapshot_record *record)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct snapshot_split *split = &record->splits[i];

		if (split->state == SNAPSHOT_SPLIT_READY)
			sum += split->size;
		else if (split->state == SNAPSHOT_SPLIT_COPYING)
			sum += split->copied;
	}
	return sum;
}

size_t snapshot_record_lost(const struct snapshot_record *record)
{
	size_t n = 0;

	for (size_t i = 0; i < record->n_splits; i++)
		n += record->splits[i].lost;
	return n;
}

bool snapshot_record_gave_up(const struct snapshot_record *record,
			     const char *id)
{
	for (size_t i = 0; i < record->n_splits; i++)
		if (strcmp(record->splits[i].extent_id, id) == 0)
			return record->splits[i].lost;
	return false;
}

size_t snapshot_record_lose(struct snapshot_record *record, const char *node)
{
	size_t n = 0;

	for (size_t i = 0; i < record->n_splits; i++) {
		struct snapshot_split *split = &record->splits[i];

		if (strcmp(split->node, node) != 0 || split->lost ||
		    split->state == SNAPSHOT_SPLIT_DELETED)
			continue;
		split->lost = true;
		/* Nobody waits for the rest of its copy. */
		if (split->state == SNAPSHOT_SPLIT_COPYING)
			split->state = SNAPSHOT_SPLIT_READY;
		split->copied = 0;
		n++;
	}
	return n;
}

int snapshot_record_condition(struct snapshot_record *record, const char *type,
			      bool status, const char *reason,
			      const char *message)
{
	return record_condition_set(&record->conditions, &record->n_conditions,
				    type, status, reason, message);
}

struct group_record *group_record_new(void)
{
	return calloc(1, sizeof(struct group_record));
}

void group_record_free(struct group_record *record)
{
	if (!record)
		return;
	labels_done(&record->labels);
	labels_done(&record->parameters);
	free(record->members);
	free(record->conditions);
	free(record);
}

void group_records_free(struct group_record **records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		group_record_free(records[i]);
	free(records);
}

int group_record_condition(struct group_record *record, const char *type,
			   bool status, const char *reason, const char *message)
{
	return record_condition_set(&record->conditions, &record->n_conditions,
				    type, status, reason, message);
}
