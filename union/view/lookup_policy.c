/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/lookup_policy.h"

#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "union/branch/dir_fd.h"
#include "union/view/branch_stats.h"

bool lookup_policy_is_lowest(const struct unionfs *fs)
{
	enum policy_choice choice =
		policy_of(&fs->policies, POLICY_GETATTR)->choice;

	return choice == POLICY_FIRST || choice == POLICY_ALL;
}

static bool is_known_inode(struct unionfs *fs, const struct hit *hit,
			   const char *name)
{
	struct node *node = NULL;
	struct handle handle;

	if (handle_get(hit->fd->fd, name, &handle) == 0)
		node = node_hold(&fs->nodes, hit->dir->branch, &handle);
	if (node)
		node_let_go(&fs->nodes, node);
	return node != NULL;
}

/* The files among @hits, for a policy. Returns how many. */
static unsigned survey_files(struct unionfs *fs, const struct hit *hits,
			     int count, struct policy_branch *ret)
{
	int64_t now_ms = clock_ms();
	unsigned n = 0;
	int i;

	for (i = 0; i < count; i++) {
		const struct timespec *time = &hits[i].st.st_mtim;

		if (S_ISDIR(hits[i].st.st_mode))
			continue;
		branch_stats_branch(fs, branch_of(fs, hits[i].dir), now_ms,
				    &ret[n]);
		ret[n].has_parent = true;
		ret[n].changed_ns = time->tv_sec * INT64_C(1000000000) +
				    time->tv_nsec;
		ret[n++].min_free = 0; /* nothing is to be made there */
	}
	return n;
}

static int hit_on(const struct hit *hits, unsigned branch)
{
	int i = 0;

	while (hits[i].dir->branch != branch)
		i++;
	return i;
}

static int pick(struct unionfs *fs, const struct hit *hits, int count,
		const char *known)
{
	const struct policy *policy = policy_of(&fs->policies, POLICY_GETATTR);
	struct policy_branch files[BRANCH_MAX];
	unsigned i, n = survey_files(fs, hits, count, files);
	int first = -1, at;

	for (i = 0; i < n; i++) {
		policy_next(policy, files + i, n - i, branch_stats_random());
		at = hit_on(hits, files[i].id);
		if (!known || is_known_inode(fs, &hits[at], known))
			return at;
		if (first < 0)
			first = at;
	}
	return first;
}

void lookup_policy_order(struct unionfs *fs, struct hit *hits, int count,
			 const char *known)
{
	struct hit seen;
	int at;

	if (count < 2 || lookup_policy_is_lowest(fs) ||
	    S_ISDIR(hits[0].st.st_mode))
		return;
	at = pick(fs, hits, count, known);
	seen = hits[at];
	memmove(hits + 1, hits, (size_t)at * sizeof(*hits));
	hits[0] = seen;
}
