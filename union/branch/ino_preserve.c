/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/ino_preserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/branch/intent.h"
#include "union/sys/empty_dir.h"
#include "union/sys/inode_number.h"

#define MARK "numbers"

void ino_preserve_look(struct branch *branch)
{
	struct stat st;

	atomic_store(&branch->has_numbers,
		     fstatat(branch->root_fd, BRANCH_WORK_DIR "/" MARK, &st,
			     AT_SYMLINK_NOFOLLOW) == 0);
}

int ino_preserve_mark(struct branch *branch)
{
	auto_close int work = -1, fd = -1;
	int r;

	if (atomic_load(&branch->has_numbers))
		return 0;
	work = branch_work_dir(branch);
	if (work < 0)
		return work;
	fd = openat(work, MARK, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = fd < 0 ? -errno : intent_sync_dir(work);
	if (r == 0)
		atomic_store(&branch->has_numbers, true);
	return r;
}

int ino_preserve_ask(const struct branch *branch, int dirfd, const char *name,
		     uint64_t ino, uint64_t *ret)
{
	int r = inode_number_read(dirfd, name, ret);

	if (r != -ENODATA)
		return r;
	*ret = inode_number(branch->id, ino);
	return 0;
}

void ino_preserve_name(uint64_t number, char *ret)
{
	(void)snprintf(ret, INO_PRESERVE_NAME_MAX, "moved-%016llx",
		       (unsigned long long)number); /* fits */
}

bool ino_preserve_is_stub(const struct branch *branch, uint64_t number,
			  const struct handle *handle)
{
	auto_close int work = branch_work_dir(branch);
	char stub[INO_PRESERVE_NAME_MAX];
	struct handle found;

	ino_preserve_name(number, stub);
	return work >= 0 && handle_get(work, stub, &found) == 0 &&
	       handle_equal(&found, handle);
}

/* Remove the stub that keeps @number, if its branch can be asked. */
static void remove_stub(const struct branch_table *table, uint64_t number,
			int flags)
{
	unsigned first = inode_number_branch(number);
	auto_close int work = -1;
	char name[INO_PRESERVE_NAME_MAX];

	if (first >= table->count || !branch_usable(first) ||
	    table->items[first]->flags & (BRANCH_RO | BRANCH_GONE))
		return;
	ino_preserve_name(number, name);
	work = branch_work_dir(table->items[first]);
	/* A stub that stays only keeps a number that nobody uses. */
	if (work >= 0)
		(void)unlinkat(work, name, flags);
}

void ino_preserve_end(const struct branch_table *table, unsigned branch, int fd)
{
	uint64_t number;

	if (atomic_load(&table->items[branch]->has_numbers) &&
	    inode_number_read(fd, "", &number) == 0)
		remove_stub(table, number, 0);
}

void ino_preserve_end_dir(const struct branch_table *table, int fd)
{
	uint64_t number;

	if (inode_number_read(fd, "", &number) == 0)
		remove_stub(table, number, AT_REMOVEDIR);
}

/* Look into it before and after: others may change the branch, too. */
static int make_stub(const struct branch *branch, int dirfd, const char *name,
		     uint64_t number)
{
	auto_close int work = branch_work_dir(branch);
	char kept[INO_PRESERVE_NAME_MAX];
	int r = work < 0 ? work : empty_dir_check(dirfd, name);

	if (r < 0)
		return r;
	ino_preserve_name(number, kept);
	if (renameat2(dirfd, name, work, kept, RENAME_NOREPLACE) < 0)
		return -errno;
	r = empty_dir_check(work, kept);
	if (r < 0 && renameat2(work, kept, dirfd, name, RENAME_NOREPLACE) < 0)
		return -errno;
	return r;
}

int ino_preserve_remove_copy(const struct branch *branch, int dirfd,
			     const char *name, uint64_t number)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* Without a stub the number may be given again, no more. */
	if (inode_number(branch->id, st.st_ino) == number &&
	    make_stub(branch, dirfd, name, number) == 0)
		return 0;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		return errno == EEXIST ? -ENOTEMPTY : -errno;
	return 0;
}
