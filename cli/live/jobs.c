/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/jobs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/text/json.h"
#include "cli/text/table.h"

/* Append a job without a measure; borrowed until the next. */
static struct job *job_add(struct job_list *list, const char *kind,
			   const char *name, const char *doing, const char *fmt,
			   ...) __attribute__((format(printf, 5, 6)));

static struct job *job_add(struct job_list *list, const char *kind,
			   const char *name, const char *doing, const char *fmt,
			   ...)
{
	struct job *jobs = reallocarray(list->jobs, list->n + 1, sizeof(*jobs));
	struct job *job;
	va_list ap;

	if (!jobs)
		abort();
	list->jobs = jobs;
	job = &jobs[list->n++];
	*job = (struct job){0};
	(void)snprintf(job->object, sizeof(job->object), "%s %.63s", kind,
		       name);
	(void)snprintf(job->doing, sizeof(job->doing), "%s", doing);
	va_start(ap, fmt);
	(void)vsnprintf(job->detail, sizeof(job->detail), fmt, ap);
	va_end(ap);
	return job;
}

static void job_measure(struct job *job, uint64_t done, uint64_t total,
			bool bytes)
{
	job->done = done;
	job->total = total;
	job->bytes = bytes;
}

/* ---- volumes ---- */

static uint64_t splits_in(const struct volume_record *record,
			  enum split_state state)
{
	uint64_t n = 0;

	for (size_t i = 0; i < record->n_splits; i++)
		n += record->splits[i].state == state;
	return n;
}

static void job_of_phase(struct job_list *list,
			 const struct volume_record *record)
{
	const uint64_t all = record->n_splits;

	if (record->phase == VOLUME_CREATING)
		job_measure(job_add(list, "volume", record->name, "creating",
				    "extents that are made"),
			    all - splits_in(record, SPLIT_PLANNED) -
				    splits_in(record, SPLIT_DELETED),
			    all, false);
	else if (record->phase == VOLUME_DELETING)
		job_measure(job_add(list, "volume", record->name, "deleting",
				    "extents that are gone"),
			    splits_in(record, SPLIT_DELETED), all, false);
	else if (record->phase == VOLUME_REVERTING)
		(void)job_add(list, "volume", record->name, "reverting",
			      "to snapshot %s", record->reverted);
}

static void job_of_move(struct job_list *list,
			const struct volume_record *record,
			const struct volume_split *split)
{
	const struct split_move *move = &split->move;

	if (move->left)
		(void)job_add(list, "volume", record->name, "deleting",
			      "extent %s of node %s, which split %u has left",
			      move->extent, move->node, split->index);
	else if (split->lost)
		(void)job_add(list, "volume", record->name, "repairing",
			      "split %u anew in pool %s of node %s",
			      split->index, move->pool, move->node);
	else
		job_measure(job_add(list, "volume", record->name, "moving",
				    "split %u from node %s to pool %s of node "
				    "%s",
				    split->index, split->node, move->pool,
				    move->node),
			    move->copied, split->size, true);
}

static void job_of_split(struct job_list *list,
			 const struct volume_record *record,
			 const struct volume_split *split)
{
	if (split->move.node[0])
		job_of_move(list, record, split);
	if (split->copying)
		job_measure(job_add(list, "volume", record->name, "copying",
				    "split %u from node %s to node %s",
				    split->index, split->source_node,
				    split->node),
			    split->pulled, split->size, true);
	if (split->grow_to)
		(void)job_add(list, "volume", record->name, "growing",
			      "split %u on node %s", split->index, split->node);
	if (record->phase == VOLUME_READY && split->state == SPLIT_PLANNED)
		(void)job_add(list, "volume", record->name, "growing",
			      "by split %u on node %s", split->index,
			      split->node);
}

void jobs_of_volume(struct job_list *list, const struct volume_record *record)
{
	job_of_phase(list, record);
	for (size_t i = 0; i < record->n_splits; i++)
		job_of_split(list, record, &record->splits[i]);
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state == ATTACHMENT_ATTACHING ||
		    a->state == ATTACHMENT_DETACHING)
			(void)job_add(list, "volume", record->name,
				      a->state == ATTACHMENT_ATTACHING
					      ? "attaching"
					      : "detaching",
				      "on node %s", a->node);
	}
}

void jobs_of_snapshot(struct job_list *list,
		      const struct snapshot_record *record)
{
	if (record->phase == SNAPSHOT_CREATING)
		(void)job_add(list, "snapshot", record->name, "creating",
			      "of volume %s", record->volume);
	else if (record->phase == SNAPSHOT_DELETING)
		(void)job_add(list, "snapshot", record->name, "deleting",
			      "of volume %s", record->volume);
	else if (record->phase == SNAPSHOT_COPYING)
		job_measure(job_add(list, "snapshot", record->name, "copying",
				    "of volume %s", record->volume),
			    snapshot_record_copied(record),
			    record->spec.capacity, true);
}

/* ---- shown ---- */

static void done_cell(struct table *table, const struct job *job)
{
	char done[SIZE_TEXT_MAX], total[SIZE_TEXT_MAX];

	if (job->total == 0)
		table_cell(table, "-");
	else if (job->bytes)
		table_cell(table, "%s of %s", size_format(done, job->done),
			   size_format(total, job->total));
	else
		table_cell(table, "%" PRIu64 " of %" PRIu64, job->done,
			   job->total);
}

void jobs_print(const struct job_list *list, FILE *out)
{
	struct table *table;

	if (list->n == 0)
		return;
	table = table_new("JOB OF", "DOING", "DONE", "WHAT", NULL);
	for (size_t i = 0; i < list->n; i++) {
		table_cell(table, "%s", list->jobs[i].object);
		table_cell(table, "%s", list->jobs[i].doing);
		done_cell(table, &list->jobs[i]);
		table_cell(table, "%s", list->jobs[i].detail);
	}
	table_print(table, out);
}

struct json_object *jobs_json(const struct job_list *list)
{
	struct json_object *all = json_object_new_array();

	for (size_t i = 0; i < list->n; i++) {
		const struct job *job = &list->jobs[i];
		struct json_object *one = json_object_new_object();

		json_put_text(one, "of", job->object);
		json_put_text(one, "doing", job->doing);
		if (job->total) {
			json_put_number(one, "done", job->done);
			json_put_number(one, "total", job->total);
			json_put_text(one, "unit",
				      job->bytes ? "bytes" : "extents");
		}
		json_put_text(one, "what", job->detail);
		json_object_array_add(all, one);
	}
	return all;
}
