/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/branch_stats.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/dir_fd.h"

/* A generator of this thread: splitmix64, Steele, Lea and Flood 2014. */
uint64_t branch_stats_random(void)
{
	static _Thread_local uint64_t state;
	uint64_t z;

	if (!state)
		/* Without entropy the clock will do. */
		if (getrandom(&state, sizeof(state), GRND_NONBLOCK) < 0)
			state = (uint64_t)clock_ns();
	z = state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static int64_t changed_ns(struct unionfs *fs, struct copy *copy)
{
	struct stat st;

	if (unionfs_stat_copy(fs, copy, &st) < 0)
		return INT64_MIN;
	return st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
}

void branch_stats_branch(const struct unionfs *fs, struct branch *branch,
			 int64_t now_ms, struct policy_branch *ret)
{
	uint64_t min_free = atomic_load(&branch->min_free);
	struct branch_space space;

	branch_space(branch, now_ms, &space);
	*ret = (struct policy_branch){
		.id = branch->id,
		.flags = atomic_load(&branch->flags) |
			 (branch_is_well(branch) ? 0 : BRANCH_RO),
		.changed_ns = INT64_MIN,
		.available = space.available,
		.used = space.used,
		.min_free = min_free == BRANCH_MIN_FREE_UNION
				    ? atomic_load(&fs->min_free)
				    : min_free,
	};
}

void branch_stats_begin(struct branch_stats *stats, struct unionfs *fs,
			const struct node *parent, const struct policy *policy)
{
	unsigned i, count = fs->branches.count;
	int64_t now_ms = clock_ms();
	struct copy *copy;

	stats->policy = policy;
	stats->rest = stats->branches;
	stats->count = count;
	stats->filtered = false;
	stats->shared_known = false;
	for (i = 0; i < count; i++)
		branch_stats_branch(fs, fs->branches.items[i], now_ms,
				    &stats->branches[i]);
	for (copy = node_first(parent); copy; copy = copy_next(copy)) {
		if (copy->branch >= count)
			break; /* was added just now */
		stats->branches[copy->branch].has_parent = true;
		stats->branches[copy->branch].shared = UINT_MAX;
		if (policy->choice == POLICY_NEWEST)
			stats->branches[copy->branch].changed_ns = changed_ns(
				fs, copy);
	}
}

/* Count the leading names of @path that are directories on the branch. */
static unsigned count_shared(const struct branch *branch, const char *path)
{
	char part[PATH_MAX];
	struct stat st;
	unsigned n = 0;
	char *end;

	(void)snprintf(part, sizeof(part), "%s", path); /* it fits */
	for (end = strrchr(part, '/'); end; end = strrchr(part, '/')) {
		*end = '\0';
		if (fstatat(branch->root_fd, part, &st, AT_SYMLINK_NOFOLLOW) <
			    0 ||
		    !S_ISDIR(st.st_mode))
			continue;
		for (n = 1, end = part; (end = strchr(end, '/')); end++)
			n++;
		break;
	}
	return n;
}

/* A parent whose path cannot be told shares nothing with other branches. */
static void learn_shared(struct branch_stats *stats, struct unionfs *fs,
			 const struct node *parent)
{
	struct copy *copy = node_first(parent);
	auto_dir_fd struct dir_fd *dir = NULL;
	char path[PATH_MAX];
	unsigned i;

	stats->shared_known = true;
	if (!copy || unionfs_dir_fd(fs, copy, &dir) < 0 ||
	    branch_path_of(branch_of(fs, copy), dir->fd, path) < 0)
		return;
	for (i = 0; i < stats->count; i++)
		if (!stats->rest[i].has_parent)
			stats->rest[i].shared = count_shared(
				fs->branches.items[stats->rest[i].id], path);
}

/* Is no branch left that has the directory itself, and room? */
static bool needs_shared(const struct branch_stats *stats)
{
	unsigned i;

	if (stats->policy->scope != POLICY_SHARED || stats->shared_known)
		return false;
	for (i = 0; i < stats->count; i++)
		if (stats->rest[i].has_parent &&
		    policy_has_room(&stats->rest[i]))
			return false;
	return true;
}

const struct policy_branch *branch_stats_next(struct branch_stats *stats,
					      struct unionfs *fs,
					      const struct node *parent)
{
	if (!stats->filtered)
		stats->count = policy_filter(stats->rest, stats->count);
	stats->filtered = true;
	if (!stats->count)
		return NULL;
	if (needs_shared(stats))
		learn_shared(stats, fs, parent);
	policy_next(stats->policy, stats->rest, stats->count,
		    branch_stats_random());
	stats->count--;
	return stats->rest++;
}
