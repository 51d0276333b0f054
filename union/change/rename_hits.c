/* SPDX-License-Identifier: Apache-2.0 */
/* The hits found at the two names of a rename. */
#include <stdio.h>
#include <sys/stat.h>

#include "union/branch/dir_fd.h"
#include "union/change/rename.h"
#include "union/view/name_filter.h"

bool rename_is_seen(const struct hit *hits, int i)
{
	return i == 0 ||
	       (S_ISDIR(hits[0].st.st_mode) && S_ISDIR(hits[i].st.st_mode));
}

void rename_note_names(const struct rename_args *m)
{
	int i;

	for (i = 0; i < m->from_count; i++)
		if (rename_is_seen(m->from, i))
			name_filter_add(m->to_dir, m->to_name,
					m->from[i].dir->branch);
	if (!(m->flags & RENAME_EXCHANGE))
		return;
	for (i = 0; i < m->to_count; i++)
		if (rename_is_seen(m->to, i))
			name_filter_add(m->from_dir, m->from_name,
					m->to[i].dir->branch);
}

void rename_add_hidden(struct unionfs *fs, const struct hit *hits, int count,
		       const char *name, struct rename_gone *gone,
		       int *gone_count)
{
	int i;

	for (i = count - 1; i >= 1; i--)
		if (!S_ISDIR(hits[i].st.st_mode))
			gone[(*gone_count)++] = (struct rename_gone){
				.branch = branch_of(fs, hits[i].dir),
				.dir_fd = hits[i].fd->fd,
				.name = name,
			};
}

const struct hit *rename_hit_on(const struct hit *hits, int count,
				unsigned branch)
{
	int i;

	for (i = 0; i < count; i++)
		if (hits[i].dir->branch == branch)
			return &hits[i];
	return NULL;
}
