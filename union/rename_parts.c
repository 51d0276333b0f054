/* SPDX-License-Identifier: Apache-2.0 */
#include "union/rename_parts.h"

#include <errno.h>
#include <stdio.h>

#include "union/intent.h"

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

int rename_parts_do(struct rename_part *parts, int count)
{
	uint64_t id = intent_new_id();
	int i, r;

	for (i = 0; i < count; i++)
		parts[i].done = false;
	if (count == 1)
		return rename_all(parts, count);
	r = write_down(parts, count, id);
	if (r == 0)
		r = rename_all(parts, count);
	for (i = 0; i < count && r == 0; i++)
		r = intent_sync_dir(parts[i].to_fd);
	for (i = 0; i < count; i++)
		intent_end(parts[i].branch, id);
	return r;
}
