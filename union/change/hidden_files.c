/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/hidden_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/view/preserve_mtime.h"

/* Make a name that is new in this server. A long @name is cut. */
static void kept_name(char ret[NAME_MAX + 1], const char *name)
{
	static atomic_uint serial;

	(void)snprintf(ret, NAME_MAX + 1, "hidden-%llx%04x-%.200s",
		       (unsigned long long)clock_wall_s(),
		       atomic_fetch_add(&serial, 1) & 0xffff, name); /* fits */
}

int hidden_files_put(const struct branch *branch, int dirfd, const char *name)
{
	auto_close int work = branch_work_dir(branch);
	char kept[NAME_MAX + 1], quoted[NAME_MAX + 3];
	int r;

	if (work < 0)
		return work;
	do { /* a server that was killed this second used the same names */
		kept_name(kept, name);
		r = renameat2(dirfd, name, work, kept, RENAME_NOREPLACE) < 0
			    ? -errno
			    : 0;
	} while (r == -EEXIST);
	if (r < 0)
		return r;
	log_warning("branch '%s': a directory replaces a hidden file; the file "
		    "is kept as " BRANCH_WORK_DIR "/%s",
		    branch->path,
		    log_quote(quoted, sizeof(quoted), kept, strlen(kept)));
	return 0;
}

int hidden_files_put_preserving(struct unionfs *fs, const struct branch *branch,
				int dirfd, const char *name)
{
	struct preserve_mtime quietly;
	int r = preserve_mtime_begin(fs, branch->id, dirfd, &quietly);

	if (r < 0)
		return r;
	r = hidden_files_put(branch, dirfd, name);
	preserve_mtime_end(fs, dirfd, &quietly);
	return r;
}

int hidden_files_put_all(struct unionfs *fs, const struct hit *hits, int count,
			 const char *name)
{
	int i, r = 0;

	for (i = 0; i < count && r == 0; i++)
		if (!S_ISDIR(hits[i].st.st_mode))
			r = hidden_files_put(branch_of(fs, hits[i].dir),
					     hits[i].fd->fd, name);
	return r;
}
