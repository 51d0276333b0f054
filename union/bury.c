/* SPDX-License-Identifier: Apache-2.0 */
#include "union/bury.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/dir_fd.h"

void bury_begin(const struct hit *hit, const char *name, struct bury *ret)
{
	ret->branch = hit->dir->branch;
	ret->fd = -1;
	if (S_ISDIR(hit->st.st_mode) || hit->st.st_nlink > 1)
		return;
	ret->fd = openat(hit->fd->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd >= 0 && handle_get(ret->fd, "", &ret->handle) < 0)
		fd_close(take_fd(&ret->fd));
}

void bury_end(struct unionfs *fs, struct bury *bury, bool removed)
{
	if (removed && bury->fd >= 0)
		node_bury(&fs->nodes, bury->branch, &bury->handle,
			  take_fd(&bury->fd));
	fd_close(bury->fd);
}
