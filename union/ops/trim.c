/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/trim.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "union/branch/branch_health.h"

/*
 * Bytes a call: one that takes long looks like a branch that hangs, and this
 * much is done in milliseconds. Btrfs looks at all of its free space each time.
 */
#define STEP (UINT64_C(1) << 30)

#define BTRFS_MAGIC 0x9123683e /* linux/magic.h */

/* Trim @part of one branch of @size bytes; its len becomes what was trimmed. */
static int trim_branch(struct branch *branch, uint64_t size, bool in_steps,
		       struct fstrim_range *part)
{
	uint64_t end = part->start + part->len, trimmed = 0;
	int r = 0;

	for (uint64_t at = part->start; r == 0 && at < end; at += STEP) {
		bool last = !in_steps || end - at <= STEP;
		struct fstrim_range one = {.start = at,
					   .len = last ? end - at : STEP,
					   .minlen = part->minlen};

		/* The space that statfs() leaves out is behind what it tells
		 * of. */
		if (last && end == size)
			one.len = UINT64_MAX - at;
		if (ioctl(branch->root_fd, FITRIM, &one) < 0)
			r = branch_report(branch, -errno);
		else
			trimmed += one.len;
		if (last)
			break;
	}
	part->len = trimmed;
	return r;
}

int branch_table_trim(const struct branch_table *table,
		      struct fstrim_range *range)
{
	uint64_t before = 0, end, trimmed = 0;
	unsigned n = 0, able = 0;

	if (__builtin_add_overflow(range->start, range->len, &end))
		end = UINT64_MAX;
	for (unsigned i = 0; i < table->count; i++) {
		struct branch *branch = table->items[i];
		struct fstrim_range part = {.minlen = range->minlen};
		struct statfs fs;
		uint64_t size;

		if (!branch_counts(table, i) ||
		    fstatfs(branch->root_fd, &fs) < 0)
			continue;
		size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_frsize;
		if (range->start < before + size && end > before &&
		    !(branch->flags & BRANCH_RO)) {
			n++;
			if (range->start > before)
				part.start = range->start - before;
			part.len = (end - before < size ? end - before : size) -
				   part.start;
			if (trim_branch(branch, size, fs.f_type != BTRFS_MAGIC,
					&part) == 0) {
				able++;
				trimmed += part.len;
			}
		}
		before += size;
	}
	if (range->start >= before)
		return -EINVAL;
	if (n && !able)
		return -EOPNOTSUPP;
	range->len = trimmed;
	return 0;
}
