/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/orphan_begin.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"

void orphan_begin(struct unionfs *fs, const struct hit *hit, const char *name,
		  struct orphan *ret)
{
	auto_close int fd = -1;

	ret->branch = hit->dir->branch;
	ret->orphan = (struct orphan_fd){.fd = -1};
	if (S_ISDIR(hit->st.st_mode) || hit->st.st_nlink > 1)
		return;
	fd = openat(hit->fd->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && handle_get(fd, "", &ret->handle) == 0)
		ret->orphan = orphan_inode_open(&fs->nodes, take_fd(&fd));
}

void orphan_end(struct unionfs *fs, struct orphan *orphan, bool removed)
{
	if (removed && orphan->orphan.fd >= 0) {
		ino_preserve_end(&fs->branches, orphan->branch,
				 orphan->orphan.fd);
		orphan_inode_add(&fs->nodes, orphan->branch, &orphan->handle,
				 &orphan->orphan);
	}
	orphan_inode_done(&orphan->orphan);
}
