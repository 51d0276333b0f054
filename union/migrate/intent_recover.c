/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/intent.h"
#include "union/change/hidden_files.h"
#include "union/migrate/relocate.h"
#include "union/sys/handle.h"

/* A record as found. */
struct record {
	struct branch *branch;
	uint64_t id;
	struct intent intent;
	bool done;
	bool stays; /* it is not done, or counts for one that is not */
};

struct records {
	struct record *items;
	size_t count, size;
	bool all; /* else there are branches that cannot be asked */
};

static int add_record(struct records *records, struct branch *branch,
		      uint64_t id, const struct intent *intent)
{
	size_t size = records->size ? records->size * 2 : 16;
	struct record *bigger;

	if (records->count == records->size) {
		bigger = reallocarray(records->items, size, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		records->items = bigger;
		records->size = size;
	}
	records->items[records->count++] = (struct record){
		.branch = branch, .id = id, .intent = *intent};
	return 0;
}

static int read_record(struct records *records, struct branch *branch, int work,
		       const char *name)
{
	char text[INTENT_TEXT_MAX + 1];
	unsigned long long id;
	struct intent intent;
	ssize_t n;

	if (sscanf(name, "rename-%llu", &id) != 1)
		return 0;
	n = readlinkat(work, name, text, sizeof(text) - 1);
	if (n < 0) /* not a record */
		return errno == EINVAL || errno == ENOENT ? 0 : -errno;
	text[n] = '\0';
	if (intent_decode(text, &intent) < 0)
		return 0;
	return add_record(records, branch, id, &intent);
}

/* Read the next entry, or NULL; with *@r, an error. */
static const struct dirent *next_entry(DIR *dir, int *r)
{
	const struct dirent *entry;

	errno = 0;
	entry = readdir(dir);
	if (!entry)
		*r = -errno;
	return entry;
}

/* Read the records of @branch; after an error none of them counts. */
static int read_branch(struct records *records, struct branch *branch)
{
	int work = openat(branch->root_fd, BRANCH_WORK_DIR,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = work < 0 ? NULL : fdopendir(work);
	const struct dirent *entry;
	size_t before = records->count;
	int r = 0;

	if (!dir) {
		r = work < 0 && errno == ENOENT ? 0 : -errno;
		fd_close(work);
		return r;
	}
	while (r == 0 && (entry = next_entry(dir, &r)))
		r = read_record(records, branch, work, entry->d_name);
	(void)closedir(dir);
	if (r < 0)
		records->count = before;
	return r;
}

/* Open it. A descriptor, or -errno: no such inode, or a failed branch. */
static int open_recorded_dir(struct branch *branch, const struct handle *handle)
{
	return branch_report(branch, handle_open(branch->root_fd, handle,
						 O_RDONLY | O_DIRECTORY));
}

/* Map the result of open_recorded_dir() for a directory that may have gone
 * since. */
static int unless_gone(const struct branch *branch, int r)
{
	return branch_is_failure(r) || (r < 0 && !branch_usable(branch->id))
		       ? r
		       : 0;
}

/* Remove the old file, if the new one is in place. */
static int finish_replace(const struct branch_table *table,
			  const struct record *record)
{
	const struct intent *intent = &record->intent;
	auto_close int to = open_recorded_dir(record->branch, &intent->to_dir);
	auto_close int other = -1;
	struct branch *branch;
	int r;

	if (to < 0 || !handle_is_at(to, intent->to_name, &intent->moved) ||
	    intent->other >= table->count)
		return unless_gone(record->branch, to);
	r = branch_report(record->branch, intent_sync_dir(to));
	if (r < 0)
		return r;
	branch = table->items[intent->other];
	other = open_recorded_dir(branch, &intent->other_dir);
	if (other < 0)
		return unless_gone(branch, other);
	/* The removal may not be durable: the record stays until it is. */
	if ((handle_is_at(other, intent->to_name, &intent->replaced) &&
	     unlinkat(other, intent->to_name, 0) < 0) ||
	    fsync(other) < 0)
		return branch_report(branch, -errno);
	return 0;
}

static bool counts(enum intent_kind kind)
{
	return kind == INTENT_MOVE_ALL || kind == INTENT_SWAP_ALL ||
	       kind == INTENT_SETTLED || kind == INTENT_RELOCATE_ALL;
}

/* Rename a part. 0 or -errno; also 0 when the file there is to stay. */
static int rename_part(const struct record *record, int from, int to)
{
	const struct intent *intent = &record->intent;
	bool swaps = intent->kind == INTENT_SWAP ||
		     intent->kind == INTENT_SWAP_ALL;
	int r;

	if (renameat2(from, intent->from_name, to, intent->to_name,
		      swaps ? RENAME_EXCHANGE : 0) == 0 ||
	    errno == ENOTEMPTY || errno == EEXIST)
		return 0;
	if (errno != ENOTDIR)
		return -errno;
	/* A file that the directory hides. */
	r = hidden_files_put(record->branch, to, intent->to_name);
	if (r == 0 &&
	    renameat(from, intent->from_name, to, intent->to_name) < 0)
		r = -errno;
	return r;
}

static int finish_move(const struct record *record)
{
	const struct intent *intent = &record->intent;
	auto_close int from = open_recorded_dir(record->branch,
						&intent->from_dir);
	auto_close int to = open_recorded_dir(record->branch, &intent->to_dir);
	int r = 0;

	if (from < 0 || to < 0)
		return unless_gone(record->branch, from < 0 ? from : to);
	if (handle_is_at(from, intent->from_name, &intent->moved))
		r = rename_part(record, from, to);
	/*
	 * Sync also a part that was done, perhaps by a server killed before
	 * this.
	 */
	if (r == 0)
		r = intent_sync_rename(record->branch, from, to);
	return branch_report(record->branch, r);
}

static bool is_relocation_record(const struct record *record)
{
	return record->intent.kind == INTENT_RELOCATE ||
	       record->intent.kind == INTENT_RELOCATE_ALL;
}

/* Are both of the same rename, or of the same file that moves? */
static bool belong_together(const struct record *a, const struct record *b)
{
	if (is_relocation_record(a) != is_relocation_record(b))
		return false;
	if (!is_relocation_record(a))
		return a->id == b->id;
	return a->branch == b->branch &&
	       strcmp(a->intent.from_name, b->intent.from_name) == 0;
}

static bool is_decided(const struct records *records,
		       const struct record *record)
{
	size_t i;

	for (i = 0; i < records->count; i++)
		if (counts(records->items[i].intent.kind) &&
		    belong_together(&records->items[i], record))
			return true;
	return false;
}

static int finish_relocation(const struct branch_table *table,
			     const struct record *record,
			     const struct intent_watcher *watcher)
{
	const struct intent *intent = &record->intent;
	int r = relocate_finish(table, record->branch, intent);

	if (r > 0) {
		log_warning("branch '%s': '%s' stays where it was: it was "
			    "written to after it was copied here",
			    record->branch->path, intent->to_name);
		return 0;
	}
	/* The copy is whole, even if the branch it came from fails. */
	if ((r == 0 || branch_is_well(record->branch)) && watcher &&
	    counts(intent->kind))
		watcher->moved(watcher->context, intent->other,
			       &intent->replaced, record->branch->id,
			       &intent->moved);
	return r;
}

static int finish(const struct branch_table *table,
		  const struct records *records, struct record *record,
		  const struct intent_watcher *watcher)
{
	int r;

	if (record->intent.kind == INTENT_REPLACE)
		return finish_replace(table, record);
	if (!is_decided(records, record))
		return 0;
	if (is_relocation_record(record))
		return finish_relocation(table, record, watcher);
	r = record->intent.kind == INTENT_SETTLED ? 0 : finish_move(record);
	record->done = r == 0;
	return r;
}

static bool is_part(const struct record *record)
{
	return record->intent.kind != INTENT_REPLACE &&
	       !is_relocation_record(record);
}

/*
 * Leave records that a server without a branch cannot finish. The parts of a
 * rename stay until all can be done. A part that is done goes, or is settled: a
 * file that gets its old name meanwhile is not to be renamed once more.
 *
 * Of other kinds only records on that branch stay. A file that was replaced, or
 * moved from there, may be in use again by then, and is not removed.
 */
static void leave_records(const struct records *records)
{
	struct record *record;
	size_t i;

	for (i = 0; i < records->count; i++) {
		record = &records->items[i];
		if (is_part(record))
			record->stays = record->stays ||
					(!records->all &&
					 (!record->done ||
					  counts(record->intent.kind)));
		else if (branch_is_well(record->branch))
			record->stays = false;
	}
}

static bool must_stay(const struct records *records,
		      const struct record *record)
{
	bool stays = record->stays;
	size_t i;

	for (i = 0; i < records->count && !stays && counts(record->intent.kind);
	     i++)
		stays = records->items[i].stays &&
			belong_together(&records->items[i], record);
	return stays;
}

/* Settle records that stay, and are not to be done once more. */
static void settle_records(const struct records *records)
{
	const struct record *record;
	size_t i;
	int r;

	for (i = 0; i < records->count; i++) {
		record = &records->items[i];
		if (!record->done || !must_stay(records, record) ||
		    record->intent.kind == INTENT_SETTLED)
			continue;
		r = intent_settle(record->branch, record->id, &record->intent);
		if (r < 0)
			log_warning(
				"branch '%s': an interrupted rename was finished, but may "
				"be repeated: %s",
				record->branch->path, strerror(-r));
	}
}

/* Strike out the records; the one that decides goes last. */
static void strike_records_out(const struct records *records)
{
	const struct record *record;
	size_t i;
	int last;

	for (last = 0; last <= 1; last++)
		for (i = 0; i < records->count; i++) {
			record = &records->items[i];
			if (counts(record->intent.kind) == last &&
			    !must_stay(records, record))
				(void)intent_end(
					record->branch, record->id,
					!intent_in_order(record->branch));
		}
}

static int finish_all(const struct branch_table *table, struct records *records,
		      const struct intent_watcher *watcher)
{
	struct record *record;
	size_t i;
	int r;

	for (i = 0; i < records->count; i++) {
		record = &records->items[i];
		r = finish(table, records, record, watcher);
		if (r == 0)
			continue;
		/* A damaged file must not keep the rest from being used. */
		if (!watcher &&
		    !(branch_is_failure(r) && branch_is_well(record->branch)))
			return r;
		log_warning("branch '%s': an interrupted rename or move is not "
			    "finished: %s",
			    record->branch->path, strerror(-r));
		record->stays = true;
	}
	leave_records(records);
	settle_records(records);
	strike_records_out(records);
	return (int)records->count;
}

int intent_pending(struct branch *branch)
{
	struct records records = {0};
	int r = read_branch(&records, branch);

	free(records.items);
	return r < 0 ? r : (int)records.count;
}

int intent_recover(const struct branch_table *table, struct error *err)
{
	return intent_recover_watched(table, NULL, err);
}

/* Read the records of all branches that can be changed. */
static int read_all(struct records *records, const struct branch_table *table,
		    bool goes_on, struct error *err)
{
	struct branch *branch;
	unsigned i;
	int r;

	records->all = true;
	for (i = 0; i < table->count; i++) {
		branch = table->items[i];
		if (branch->flags & BRANCH_RO)
			continue;
		r = branch_is_well(branch) ? read_branch(records, branch)
					   : -EIO;
		if (r == 0)
			continue;
		if (!goes_on)
			return error_set(err, -r, "branch '%s': read '%s': %s",
					 branch->path, BRANCH_WORK_DIR,
					 strerror(-r));
		if (branch_is_well(branch)) {
			log_warning(
				"branch '%s': interrupted renames are not finished: %s",
				branch->path, strerror(-r));
			(void)branch_report(branch, r);
		}
		records->all = false;
	}
	return 0;
}

int intent_recover_watched(const struct branch_table *table,
			   const struct intent_watcher *watcher,
			   struct error *err)
{
	struct records records = {0};
	struct branch *branch;
	unsigned i;
	int r = read_all(&records, table, watcher != NULL, err);

	if (r == 0) {
		r = finish_all(table, &records, watcher);
		if (r < 0)
			error_set(err, -r,
				  "finish renames that were interrupted: %s",
				  strerror(-r));
	}
	for (i = 0; i < table->count && r >= 0; i++) {
		branch = table->items[i];
		if (branch->flags & BRANCH_RO || !branch_is_well(branch))
			continue;
		relocate_sweep(branch);
		intent_sweep(branch);
	}
	free(records.items);
	return r;
}
