/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/rename_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/branch/intent.h"

#define AWAY_PREFIX "gone-"

/*
 * Renames that are done, but perhaps not durable on all of their branches:
 * their records stay. The caller guards the list, as all of a rename.
 */
struct unsure {
	struct unsure *next;
	uint64_t id;
	int count;
	const struct branch *branches[];
};

static struct unsure *unsure_first;

static enum intent_kind part_kind(const struct rename_part *part, bool first)
{
	if (part->flags & RENAME_EXCHANGE)
		return first ? INTENT_SWAP_ALL : INTENT_SWAP;
	return first ? INTENT_MOVE_ALL : INTENT_MOVE;
}

/* Write the record of a part; @at, @name: where its file is now */
static int describe_part(const struct rename_part *part, bool first, int at,
			 const char *name, struct intent *ret)
{
	int r;

	ret->kind = part_kind(part, first);
	intent_copy_name(ret->from_name, part->from_name);
	intent_copy_name(ret->to_name, part->to_name);
	r = handle_get(at, name, &ret->moved);
	if (r == 0)
		r = handle_get(part->from_fd, "", &ret->from_dir);
	return r < 0 ? r : handle_get(part->to_fd, "", &ret->to_dir);
}

/* Write every part down; the first, which makes all count, comes last. */
static int write_down(const struct rename_part *parts, int count, uint64_t id)
{
	int i, r = 0;

	for (i = count - 1; i >= 0 && r == 0; i--) {
		struct intent intent = {0};

		r = describe_part(&parts[i], i == 0, parts[i].from_fd,
				  parts[i].from_name, &intent);
		if (r == 0)
			r = intent_begin(parts[i].branch, id, &intent, true);
	}
	return r;
}

static int rename_one(const struct rename_part *part)
{
	if (renameat2(part->from_fd, part->from_name, part->to_fd,
		      part->to_name, part->flags) == 0)
		return 0;
	/* XFS returns EEXIST for a directory that is not empty. */
	return errno == EEXIST && !(part->flags & RENAME_NOREPLACE) ? -ENOTEMPTY
								    : -errno;
}

static void take_back_parts(struct rename_part *parts, int count)
{
	int i;

	for (i = count - 1; i >= 0; i--)
		if (parts[i].done)
			(void)renameat2(parts[i].to_fd, parts[i].to_name,
					parts[i].from_fd, parts[i].from_name,
					parts[i].flags & RENAME_EXCHANGE);
}

static int rename_all(struct rename_part *parts, int count)
{
	int i, r = 0;

	for (i = 0; i < count && r == 0; i++) {
		r = rename_one(&parts[i]);
		parts[i].done = r == 0;
	}
	if (r < 0)
		take_back_parts(parts, count);
	return r;
}

static bool has_part_on(const struct rename_part *parts, int count,
			const struct branch *branch)
{
	int i;

	for (i = 0; i < count; i++)
		if (parts[i].branch == branch)
			return true;
	return false;
}

int rename_gone_put(struct rename_gone *gone)
{
	auto_close int work = branch_work_dir(gone->branch);

	if (work < 0)
		return work;
	(void)snprintf(gone->away, sizeof(gone->away), AWAY_PREFIX "%llu",
		       (unsigned long long)intent_new_id()); /* fits */
	if (renameat2(gone->dir_fd, gone->name, work, gone->away,
		      RENAME_NOREPLACE) == 0)
		return 0;
	gone->away[0] = '\0';
	return -errno;
}

/* Put away those that a part replaces (@replaced), or else the others. */
static int put_all_away(struct rename_gone *gone, int gone_count,
			const struct rename_part *parts, int count,
			bool replaced)
{
	int i, r = 0;

	for (i = 0; i < gone_count && r == 0; i++)
		if ((gone[i].replaced &&
		     has_part_on(parts, count, gone[i].branch)) == replaced)
			r = rename_gone_put(&gone[i]);
	return r;
}

void rename_gone_end(struct rename_gone *gone, int count, bool back)
{
	int i;

	for (i = 0; i < count; i++) {
		auto_close int work = gone[i].away[0]
					      ? branch_work_dir(gone[i].branch)
					      : -1;

		if (work < 0)
			continue;
		if (back)
			(void)renameat2(work, gone[i].away, gone[i].dir_fd,
					gone[i].name, RENAME_NOREPLACE);
		else if (unlinkat(work, gone[i].away, 0) < 0)
			(void)unlinkat(work, gone[i].away,
				       AT_REMOVEDIR); /* a sweep will */
	}
}

/*
 * Does the rename need records? A single part needs none, unless a file on
 * another branch is to go with it.
 */
static bool is_gone_noted(const struct rename_part *parts, int count,
			  const struct rename_gone *gone, int gone_count)
{
	bool noted = count > 1;
	int i;

	for (i = 0; i < gone_count && !noted; i++)
		noted = !gone[i].replaced ||
			!has_part_on(parts, count, gone[i].branch);
	return noted;
}

/*
 * Put replaced files away and write the records. A single part replaces its
 * file itself. Of several parts one may fail when others are done; then the
 * replaced files come back.
 *
 * Once the records are there, a crash ends in all parts being done. So nothing
 * may be in their way by then: on a branch without a part, nobody would put it
 * away later.
 */
static int begin_parts(struct rename_part *parts, int count,
		       struct rename_gone *gone, int gone_count, uint64_t id)
{
	int r = put_all_away(gone, gone_count, parts, count, false);

	if (r == 0)
		r = write_down(parts, count, id);
	if (r == 0 && count > 1)
		r = put_all_away(gone, gone_count, parts, count, true);
	return r;
}

/*
 * Strike out the records, first the one that counts: without it the others mean
 * nothing. @sync: the others go only when that has surely gone, since it would
 * count alone.
 */
static void strike_parts_out(const struct branch *const *branches, int count,
			     uint64_t id, bool sync)
{
	int i, r = intent_end(branches[0], id, sync);

	for (i = 1; i < count && r == 0; i++)
		(void)intent_end(branches[i], id, false);
}

/*
 * Strike out records that may have been done: they are not to be done once
 * more. By now a branch is as its records would make it, or was changed since.
 * On a branch that takes no change the records stay, and nobody changes
 * anything else on it.
 */
static void forget_unsure(void)
{
	struct unsure *unsure;
	int i;

	while ((unsure = unsure_first)) {
		unsure_first = unsure->next;
		for (i = 0; i < unsure->count; i++)
			(void)syncfs(unsure->branches[i]->root_fd);
		strike_parts_out(unsure->branches, unsure->count, unsure->id,
				 true);
		free(unsure);
	}
}

static void remember_unsure(const struct branch *const *branches, int count,
			    uint64_t id)
{
	struct unsure *unsure = malloc(sizeof(*unsure) +
				       (size_t)count * sizeof(*branches));
	int i;

	if (!unsure)
		return; /* the next mount finds them */
	unsure->next = unsure_first;
	unsure->id = id;
	unsure->count = count;
	for (i = 0; i < count; i++)
		unsure->branches[i] = branches[i];
	unsure_first = unsure;
}

/* Settle the record whose own part is durable: it counts for the others. */
static void settle_part(const struct rename_part *part, uint64_t id)
{
	struct intent intent = {0};

	if (describe_part(part, true, part->to_fd, part->to_name, &intent) == 0)
		(void)intent_settle(part->branch, id, &intent); /* or it is
								 * done again */
}

/*
 * Make every part durable, even if another one fails. After a failure the
 * records stay, so that a crash ends in all being done.
 */
static void make_durable(struct rename_part *parts, int count, uint64_t id)
{
	const struct branch *branches[BRANCH_MAX] = {parts[0].branch};
	bool durable[BRANCH_MAX], all = true;
	int i;

	for (i = 0; i < count; i++) {
		branches[i] = parts[i].branch;
		durable[i] = branch_report(
				     parts[i].branch,
				     intent_sync_rename(parts[i].branch,
							parts[i].from_fd,
							parts[i].to_fd)) == 0;
		all = all && durable[i];
	}
	if (all) {
		strike_parts_out(branches, count, id,
				 !intent_in_order(parts[0].branch));
		return;
	}
	if (durable[0])
		settle_part(&parts[0], id);
	for (i = 1; i < count; i++)
		if (durable[i])
			(void)intent_end(branches[i], id, false);
	remember_unsure(branches, count, id);
}

/* Drop the records: no part is to be done after a crash, either. */
static void drop_records(struct rename_part *parts, int count, uint64_t id)
{
	const struct branch *branches[BRANCH_MAX] = {parts[0].branch};
	int i;

	for (i = 0; i < count; i++) {
		branches[i] = parts[i].branch;
		/* The part was taken back, unless its branch has failed. */
		if (parts[i].done)
			(void)intent_sync_rename(parts[i].branch,
						 parts[i].to_fd,
						 parts[i].from_fd);
	}
	strike_parts_out(branches, count, id, true);
}

int rename_parts_do(struct rename_part *parts, int count,
		    struct rename_gone *gone, int gone_count)
{
	bool noted = is_gone_noted(parts, count, gone, gone_count);
	uint64_t id = intent_new_id();
	int i, r = 0;

	forget_unsure();
	for (i = 0; i < count; i++)
		parts[i].done = false;
	for (i = 0; i < gone_count; i++)
		gone[i].away[0] = '\0';
	if (noted)
		r = begin_parts(parts, count, gone, gone_count, id);
	if (r == 0)
		r = rename_all(parts, count);
	rename_gone_end(gone, gone_count, r < 0);
	if (!noted)
		return r;
	if (r == 0)
		make_durable(parts, count, id);
	else
		drop_records(parts, count, id);
	return r;
}

void rename_parts_sweep(const struct branch *branch)
{
	branch_work_sweep(branch, AWAY_PREFIX);
}
