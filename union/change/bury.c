/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/bury.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/branch/number_keep.h"

void bury_begin(struct unionfs *fs, const struct hit *hit, const char *name,
		struct bury *ret)
{
	auto_close int fd = -1;

	ret->branch = hit->dir->branch;
	ret->buried = (struct buried){.fd = -1};
	if (S_ISDIR(hit->st.st_mode) || hit->st.st_nlink > 1)
		return;
	fd = openat(hit->fd->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && handle_get(fd, "", &ret->handle) == 0)
		ret->buried = node_buried(&fs->nodes, take_fd(&fd));
}

void bury_end(struct unionfs *fs, struct bury *bury, bool removed)
{
	if (removed && bury->buried.fd >= 0) {
		number_keep_end(&fs->branches, bury->branch, bury->buried.fd);
		node_bury(&fs->nodes, bury->branch, &bury->handle,
			  &bury->buried);
	}
	node_buried_done(&bury->buried);
}
