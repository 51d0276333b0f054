/* SPDX-License-Identifier: Apache-2.0 */
#include "union/rename_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/intent.h"

#define AWAY_PREFIX "gone-"

static void copy_name(char *to, const char *from)
{
	(void)snprintf(to, NAME_MAX + 1, "%s", from); /* the kernel's limit */
}

static enum intent_kind kind_of(const struct rename_part *part, bool first)
{
	if (part->flags & RENAME_EXCHANGE)
		return first ? INTENT_SWAP_ALL : INTENT_SWAP;
	return first ? INTENT_MOVE_ALL : INTENT_MOVE;
}

static int describe(const struct rename_part *part, bool first,
		    struct intent *ret)
{
	int r;

	ret->kind = kind_of(part, first);
	copy_name(ret->from_name, part->from_name);
	copy_name(ret->to_name, part->to_name);
	r = handle_get(part->from_fd, part->from_name, &ret->moved);
	if (r == 0)
		r = handle_get(part->from_fd, "", &ret->from_dir);
	return r < 0 ? r : handle_get(part->to_fd, "", &ret->to_dir);
}

/* Write every part down; the first, which makes it count, last. */
static int write_down(const struct rename_part *parts, int count, uint64_t id)
{
	int i, r = 0;

	for (i = count - 1; i >= 0 && r == 0; i--) {
		struct intent intent = {0};

		r = describe(&parts[i], i == 0, &intent);
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
	/* XFS says EEXIST of a directory that is not empty. */
	return errno == EEXIST && !(part->flags & RENAME_NOREPLACE) ? -ENOTEMPTY
								    : -errno;
}

static void take_back(struct rename_part *parts, int count)
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
		take_back(parts, count);
	return r;
}

static bool has_part(const struct rename_part *parts, int count,
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

/* @replaced: those that a part takes the place of; or else the others. */
static int put_all_away(struct rename_gone *gone, int gone_count,
			const struct rename_part *parts, int count,
			bool replaced)
{
	int i, r = 0;

	for (i = 0; i < gone_count && r == 0; i++)
		if ((gone[i].replaced &&
		     has_part(parts, count, gone[i].branch)) == replaced)
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
 * What the only part replaces goes with that. Of several, one may fail when
 * others are done: what they replace is to be there again. From when it is
 * written down a crash ends in all parts being done, so by then nothing may be
 * in their way.
 */
static int begin(struct rename_part *parts, int count, struct rename_gone *gone,
		 int gone_count, uint64_t id)
{
	int r = put_all_away(gone, gone_count, parts, count, false);

	if (r < 0 || count == 1)
		return r;
	r = write_down(parts, count, id);
	return r < 0 ? r : put_all_away(gone, gone_count, parts, count, true);
}

int rename_parts_do(struct rename_part *parts, int count,
		    struct rename_gone *gone, int gone_count)
{
	uint64_t id = intent_new_id();
	int i, r;

	for (i = 0; i < count; i++)
		parts[i].done = false;
	for (i = 0; i < gone_count; i++)
		gone[i].away[0] = '\0';
	r = begin(parts, count, gone, gone_count, id);
	if (r == 0)
		r = rename_all(parts, count);
	rename_gone_end(gone, gone_count, r < 0);
	if (count == 1)
		return r;
	for (i = 0; i < count && r == 0; i++)
		r = intent_sync_dir(parts[i].to_fd);
	for (i = 0; i < count; i++)
		intent_end(parts[i].branch, id);
	return r;
}

void rename_parts_sweep(const struct branch *branch)
{
	branch_work_sweep(branch, AWAY_PREFIX);
}
