/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch_health.h"
#include "union/intent.h"
#include "union/relocate.h"

/* A record as found. */
struct record {
	const struct branch *branch;
	uint64_t id;
	struct intent intent;
};

struct records {
	struct record *items;
	size_t count, size;
};

static int add_record(struct records *records, const struct branch *branch,
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
	records->items[records->count++] = (struct record){branch, id, *intent};
	return 0;
}

static int read_record(struct records *records, const struct branch *branch,
		       int work, const char *name)
{
	char text[INTENT_TEXT_MAX + 1];
	unsigned long long id;
	struct intent intent;
	ssize_t n;

	if (sscanf(name, "rename-%llu", &id) != 1)
		return 0;
	n = readlinkat(work, name, text, sizeof(text) - 1);
	if (n < 0)
		return 0; /* not a record */
	text[n] = '\0';
	if (intent_decode(text, &intent) < 0)
		return 0;
	return add_record(records, branch, id, &intent);
}

static int read_branch(struct records *records, const struct branch *branch)
{
	int work = openat(branch->root_fd, BRANCH_WORK_DIR,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = work < 0 ? NULL : fdopendir(work);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = work < 0 && errno == ENOENT ? 0 : -errno;
		fd_close(work);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)))
		r = read_record(records, branch, work, entry->d_name);
	(void)closedir(dir);
	return r;
}

/* Is the inode @handle what @name is in @dirfd? */
static bool is_at(int dirfd, const char *name, const struct handle *handle)
{
	struct handle found;

	return handle_get(dirfd, name, &found) == 0 &&
	       handle_equal(&found, handle);
}

static int open_dir(const struct branch *branch, const struct handle *handle)
{
	return handle_open(branch->root_fd, handle, O_RDONLY | O_DIRECTORY);
}

/* The new file is in place: so the old one goes. */
static int finish_replace(const struct branch_table *table,
			  const struct record *record)
{
	const struct intent *intent = &record->intent;
	auto_close int to = open_dir(record->branch, &intent->to_dir);
	auto_close int other = -1;

	if (to < 0 || !is_at(to, intent->to_name, &intent->moved) ||
	    intent->other >= table->count)
		return 0;
	other = open_dir(table->items[intent->other], &intent->other_dir);
	if (other < 0 || !is_at(other, intent->to_name, &intent->replaced))
		return 0;
	if (unlinkat(other, intent->to_name, 0) < 0 || fsync(other) < 0)
		return -errno;
	return 0;
}

static bool counts(enum intent_kind kind)
{
	return kind == INTENT_MOVE_ALL || kind == INTENT_SWAP_ALL ||
	       kind == INTENT_RELOCATE_ALL;
}

static int finish_move(const struct record *record)
{
	const struct intent *intent = &record->intent;
	auto_close int from = open_dir(record->branch, &intent->from_dir);
	auto_close int to = open_dir(record->branch, &intent->to_dir);
	bool swaps = intent->kind == INTENT_SWAP ||
		     intent->kind == INTENT_SWAP_ALL;

	if (from < 0 || to < 0 ||
	    !is_at(from, intent->from_name, &intent->moved))
		return 0;
	if (renameat2(from, intent->from_name, to, intent->to_name,
		      swaps ? RENAME_EXCHANGE : 0) < 0 &&
	    errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	return fsync(to) < 0 ? -errno : 0;
}

static bool is_relocation(const struct record *record)
{
	return record->intent.kind == INTENT_RELOCATE ||
	       record->intent.kind == INTENT_RELOCATE_ALL;
}

/* Do both speak of the same rename, or the same file that moves? */
static bool belong_together(const struct record *a, const struct record *b)
{
	if (is_relocation(a) != is_relocation(b))
		return false;
	if (!is_relocation(a))
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

	if (r == 0 && watcher && counts(intent->kind))
		watcher->moved(watcher->context, intent->other,
			       &intent->replaced, record->branch->id,
			       &intent->moved);
	return r;
}

static int finish_all(const struct branch_table *table,
		      const struct records *records,
		      const struct intent_watcher *watcher)
{
	const struct record *record;
	size_t i;
	int r = 0;

	for (i = 0; i < records->count && r == 0; i++) {
		record = &records->items[i];
		if (record->intent.kind == INTENT_REPLACE)
			r = finish_replace(table, record);
		else if (!is_decided(records, record))
			continue;
		else if (is_relocation(record))
			r = finish_relocation(table, record, watcher);
		else
			r = finish_move(record);
	}
	if (r < 0)
		return r;
	/* The record that decides goes last: the others are nothing then. */
	for (i = 0; i < records->count; i++)
		if (!counts(records->items[i].intent.kind))
			intent_end(records->items[i].branch,
				   records->items[i].id);
	for (i = 0; i < records->count; i++)
		if (counts(records->items[i].intent.kind))
			intent_end(records->items[i].branch,
				   records->items[i].id);
	return (int)records->count;
}

int intent_pending(const struct branch *branch)
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

int intent_recover_watched(const struct branch_table *table,
			   const struct intent_watcher *watcher,
			   struct error *err)
{
	struct records records = {0};
	const struct branch *branch;
	unsigned i;
	int r = 0;

	for (i = 0; i < table->count && r == 0; i++) {
		branch = table->items[i];
		if (branch->flags & BRANCH_RO || !branch_is_well(branch))
			continue;
		r = read_branch(&records, branch);
		if (r < 0)
			error_set(err, -r, "branch '%s': read '%s': %s",
				  branch->path, BRANCH_WORK_DIR, strerror(-r));
	}
	if (r == 0) {
		r = finish_all(table, &records, watcher);
		if (r < 0)
			error_set(err, -r,
				  "finish renames that were interrupted: %s",
				  strerror(-r));
	}
	for (i = 0; i < table->count && r >= 0; i++)
		if (!(table->items[i]->flags & BRANCH_RO))
			relocate_sweep(table->items[i]);
	free(records.items);
	return r;
}
