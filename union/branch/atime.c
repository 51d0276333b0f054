/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/atime.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_failed.h"

#define TOUCH_SIZE 4096 /* bytes of a list, which is not used */

static int change(int mount_fd, uint64_t said, uint64_t set)
{
	struct mount_attr attr = {.attr_set = set & said,
				  .attr_clr = said & ~set};

	/* An access time is one of several, which are set as a whole. */
	if (said & MOUNT_ATTR__ATIME)
		attr.attr_clr |= MOUNT_ATTR__ATIME;
	return mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) <
			       0
		       ? -errno
		       : 0;
}

/* Put @fd where @at is open, or keep it there. */
static void put_fd(atomic_int *at, int fd)
{
	int there = atomic_load(at) - 1;

	if (there >= 0) {
		(void)dup3(fd, there, O_CLOEXEC); /* of a valid one */
		fd_close(fd);
	} else {
		atomic_store(at, fd + 1);
	}
}

static int make_mount(struct branch *branch, uint64_t said, uint64_t set)
{
	auto_close int mount = open_tree(branch->root_fd, "",
					 AT_EMPTY_PATH | OPEN_TREE_CLONE |
						 OPEN_TREE_CLOEXEC);
	auto_close int root = -1;
	int r = mount < 0 ? -errno : change(mount, said, set);

	if (r < 0)
		return r;
	root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	put_fd(&branch->own_mount, take_fd(&mount));
	put_fd(&branch->own_root, take_fd(&root));
	return 0;
}

int atime_begin(const struct branch_table *table, struct branch *branch)
{
	return table->atime_said
		       ? make_mount(branch, table->atime_said, table->atime_set)
		       : 0;
}

/* The numbers of the descriptors stay taken: they may be in use. */
void atime_let_go(struct branch *branch)
{
	if (!atime_is_own(branch))
		return;
	(void)dup3(branch->root_fd, atomic_load(&branch->own_root) - 1,
		   O_CLOEXEC); /* at worst the old one stays */
	(void)dup3(branch->root_fd, atomic_load(&branch->own_mount) - 1,
		   O_CLOEXEC);
}

void atime_end(struct branch *branch)
{
	fd_close(atomic_exchange(&branch->own_root, 0) - 1);
	fd_close(atomic_exchange(&branch->own_mount, 0) - 1);
}

int atime_set(struct branch_table *table, uint64_t said, uint64_t set)
{
	struct branch *branch;
	unsigned i;
	int one, r = 0;

	if (said == table->atime_said && (set & said) == table->atime_set)
		return 0;
	table->atime_said = said;
	table->atime_set = set & said;
	for (i = 0; i < table->count; i++) {
		branch = table->items[i];
		if (branch->flags & BRANCH_GONE || !branch_usable(i))
			continue;
		one = atime_is_own(branch)
			      ? change(atomic_load(&branch->own_mount) - 1,
				       said, set)
			      : make_mount(branch, said, set);
		r = one < 0 ? one : r;
	}
	return r;
}

int atime_open(const struct branch *branch, const struct handle *handle,
	       int flags)
{
	int own = atomic_load(&branch->own_root) - 1;

	return handle_open(own < 0 ? branch->root_fd : own, handle, flags);
}

void atime_touch_dir(const struct branch *branch, const struct handle *handle)
{
	char list[TOUCH_SIZE];
	auto_close int fd = -1;

	if (!atime_is_own(branch))
		return;
	fd = atime_open(branch, handle, O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		(void)syscall(SYS_getdents64, fd, list, sizeof(list));
}
