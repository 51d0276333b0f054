/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two names change places. The file or directory of each name stays on its
 * branches and gets the other name there. On a branch that has both the two are
 * exchanged. The kernel holds both directories meanwhile: nobody sees a part of
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "union/branch/dir_fd.h"
#include "union/change/clone_dir.h"
#include "union/change/hidden_files.h"
#include "union/change/rename.h"
#include "union/change/rename_parts.h"
#include "union/node/names_change.h"
#include "union/view/name_filter.h"
#include "union/view/subdirs.h"

struct exchange {
	const struct rename_args *m;
	struct rename_part parts[BRANCH_MAX];
	struct dir_fd *held[BRANCH_MAX]; /* for the parts */
	struct rename_gone gone[2 * BRANCH_MAX];
	int count, gone_count;
};

/* Would a directory that a file hides be in the way? */
static int check_hidden(const struct hit *hits, int count)
{
	int i;

	for (i = 1; i < count && !S_ISDIR(hits[0].st.st_mode); i++)
		if (S_ISDIR(hits[i].st.st_mode))
			return -EBUSY;
	return 0;
}

/* Clear hidden files, as when a name is renamed or replaced. */
static int clear_hidden(struct exchange *x, const struct hit *hits, int count,
			const char *name)
{
	if (S_ISDIR(hits[0].st.st_mode))
		return hidden_files_put_all(x->m->fs, hits, count, name);
	rename_add_hidden(x->m->fs, hits, count, name, x->gone, &x->gone_count);
	return 0;
}

static int add_exchange_part(struct exchange *x, const struct hit *from,
			     const char *from_name, struct node *to_dir,
			     const char *to_name, unsigned flags)
{
	struct dir_fd **into = &x->held[x->count];
	int r = clone_dir_locked(x->m->fs, to_dir, from->dir->branch, into);

	if (r < 0)
		return r;
	x->parts[x->count++] = (struct rename_part){
		.branch = branch_of(x->m->fs, from->dir),
		.from_fd = from->fd->fd,
		.from_name = from_name,
		.to_fd = (*into)->fd,
		.to_name = to_name,
		.flags = flags,
	};
	return 0;
}

static int add_parts(struct exchange *x)
{
	const struct rename_args *m = x->m;
	int i, r = 0;

	for (i = 0; i < m->from_count && r == 0; i++) {
		const struct hit *other = rename_hit_on(m->to, m->to_count,
							m->from[i].dir->branch);
		bool both = other &&
			    rename_is_seen(m->to, (int)(other - m->to));

		if (rename_is_seen(m->from, i))
			r = add_exchange_part(x, &m->from[i], m->from_name,
					      m->to_dir, m->to_name,
					      both ? RENAME_EXCHANGE
						   : RENAME_NOREPLACE);
	}
	for (i = 0; i < m->to_count && r == 0; i++) {
		const struct hit *other = rename_hit_on(m->from, m->from_count,
							m->to[i].dir->branch);

		if (rename_is_seen(m->to, i) &&
		    !(other && rename_is_seen(m->from, (int)(other - m->from))))
			r = add_exchange_part(x, &m->to[i], m->to_name,
					      m->from_dir, m->from_name,
					      RENAME_NOREPLACE);
	}
	return r;
}

/* Do all parts, seen as one change. 0 or -errno. */
static int do_exchange_parts(struct exchange *x)
{
	const struct rename_args *m = x->m;
	int is_dir = S_ISDIR(m->from[0].st.st_mode) != 0;
	int came = is_dir - (S_ISDIR(m->to[0].st.st_mode) != 0), r;

	subdirs_begin(m->fs, m->from_dir);
	subdirs_begin(m->fs, m->to_dir);
	names_change_begin(m->from_dir);
	names_change_begin(m->to_dir);
	r = rename_parts_do(x->parts, x->count, x->gone, x->gone_count);
	names_change_end(m->to_dir, r == 0);
	names_change_end(m->from_dir, r == 0);
	subdirs_end(m->fs, m->from_dir, r == 0 ? -came : 0);
	subdirs_end(m->fs, m->to_dir, r == 0 ? came : 0);
	return r;
}

/*
 * Forget @name in @dir: @hits, seen there, are at the other name now. (On a
 * branch that has both, @name was noted once more for the other.)
 */
static void forget_name(const struct hit *hits, int count,
			const struct node *dir, const char *name)
{
	int i;

	for (i = 0; i < count; i++)
		if (rename_is_seen(hits, i))
			name_filter_remove(dir, name, hits[i].dir->branch);
}

int rename_exchange(const struct rename_args *m)
{
	struct exchange x = {.m = m};
	int i, r;

	if (!m->to_count)
		return -ENOENT;
	r = check_hidden(m->from, m->from_count);
	if (r == 0)
		r = check_hidden(m->to, m->to_count);
	if (r == 0)
		r = add_parts(&x);
	if (r == 0)
		r = clear_hidden(&x, m->from, m->from_count, m->from_name);
	if (r == 0)
		r = clear_hidden(&x, m->to, m->to_count, m->to_name);
	rename_note_names(m);
	if (r == 0)
		r = do_exchange_parts(&x);
	for (i = 0; i < BRANCH_MAX; i++)
		dir_fd_put(x.held[i]);
	if (r < 0)
		return r;
	forget_name(m->from, m->from_count, m->from_dir, m->from_name);
	forget_name(m->to, m->to_count, m->to_dir, m->to_name);
	return 0;
}
