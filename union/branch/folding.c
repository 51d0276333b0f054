/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/folding.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/submount.h"
#include "union/sys/named.h"

#define ROOT_NAMES 16 /* of the root are tried, at most */

/* File systems that fold with any mount option, by their type in statfs(2). */
static const struct {
	long type;
	const char *name;
} kinds[] = {
	{0x4d44, "FAT"},       /* linux/magic.h: MSDOS_SUPER_MAGIC */
	{0x2011bab0, "exFAT"}, /* the same: EXFAT_SUPER_MAGIC */
	{0x7366746e, "NTFS"},  /* fs/ntfs3/super.c */
	{0x5346544e, "NTFS"},  /* fs/ntfs: NTFS_SB_MAGIC */
	{0x4244, "HFS"},       /* fs/hfs: HFS_SUPER_MAGIC */
	{0x482b, "HFS+"},      /* fs/hfsplus: HFSPLUS_SUPER_MAGIC */
	{0xf995e849, "HPFS"},  /* linux/magic.h: HPFS_SUPER_MAGIC */
	{0xadff, "AFFS"},      /* the same: AFFS_SUPER_MAGIC */
};

/* A name, and names that may be taken for it. */
#define MADE BRANCH_WORK_CLONE "fold-\xc3\x84"
static const char *const others[] = {
	BRANCH_WORK_CLONE "FOLD-\xc3\x84",
	BRANCH_WORK_CLONE "fold-\xc3\xa4",  /* in small */
	BRANCH_WORK_CLONE "fold-A\xcc\x88", /* composed of two */
	MADE ".",
	MADE " ",
};

static int refuse(const struct branch *branch, const char *what,
		  struct error *err)
{
	/* The branch is left as it was, unless BRANCH_WORK_DIR is in use. */
	if (!(branch->flags & BRANCH_RO))
		(void)unlinkat(branch->root_fd, BRANCH_WORK_DIR, AT_REMOVEDIR);
	return error_set(err, EINVAL,
			 "branch '%s': %s takes names for one that differ in "
			 "case or the like; use ext4, XFS, Btrfs or tmpfs, "
			 "made and mounted without that",
			 branch->path, what);
}

static const char *file_system_kind(int root)
{
	struct statfs fs;

	for (size_t i = 0; fstatfs(root, &fs) == 0 && i < array_size(kinds);
	     i++)
		if ((unsigned long)fs.f_type == (unsigned long)kinds[i].type)
			return kinds[i].name;
	return NULL;
}

static bool has_flag(int fd)
{
	auto_close int again = -1;
	int flags = 0;
	int r = ioctl(fd, FS_IOC_GETFLAGS, &flags);

	if (r < 0 && errno == EBADF) { /* O_PATH */
		again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = ioctl(again, FS_IOC_GETFLAGS, &flags);
	}
	return r == 0 && flags & FS_CASEFOLD_FL;
}

/* Change the case of the first letter; false: there is none. */
static bool change_case(char *name)
{
	for (; *name; name++)
		if (isascii(*name) && isalpha(*name)) {
			*name ^= 'a' ^ 'A';
			return true;
		}
	return false;
}

/* Is @name, which is there, found by another name? Not as a hard link. */
static bool is_found_changed(int dirfd, const char *name)
{
	char other[NAME_MAX + 1];
	struct stat st, found;

	if (strlen(name) > NAME_MAX)
		return false;
	memcpy(other, name, strlen(name) + 1);
	return change_case(other) &&
	       fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(dirfd, other, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == found.st_dev && st.st_ino == found.st_ino &&
	       (S_ISDIR(st.st_mode) || st.st_nlink == 1) &&
	       !submount_is_on(dirfd, name) && !submount_is_on(dirfd, other);
}

/* Does the root fold, as its names show? */
static bool root_folds(int root)
{
	DIR *dir = fdopendir(openat(
		root, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC));
	const struct dirent *entry = NULL;
	bool folds = is_found_changed(root, BRANCH_WORK_DIR);
	unsigned n = 0;

	while (dir && !folds && n++ < ROOT_NAMES && (entry = readdir(dir)))
		folds = is_found_changed(root, entry->d_name);
	if (dir)
		(void)closedir(dir);
	return folds;
}

/* Does a name made here fold? A name that cannot be made tells nothing. */
static bool work_dir_folds(const struct branch *branch)
{
	auto_close int work = branch_work_dir(branch);
	bool folds = false;
	struct stat st;

	if (work < 0 || (mkdirat(work, MADE, 0700) < 0 && errno != EEXIST))
		return false;
	for (size_t i = 0; i < array_size(others) && !folds; i++)
		folds = fstatat(work, others[i], &st, AT_SYMLINK_NOFOLLOW) == 0;
	(void)unlinkat(work, MADE, AT_REMOVEDIR); /* clone_dir_sweep() will */
	return folds;
}

int folding_check(const struct branch *branch, struct error *err)
{
	const char *kind = file_system_kind(branch->root_fd);

	if (kind)
		return refuse(branch, kind, err);
	if (has_flag(branch->root_fd))
		return refuse(branch, "its directory", err);
	if (root_folds(branch->root_fd) ||
	    (!(branch->flags & BRANCH_RO) && work_dir_folds(branch)))
		return refuse(branch, "its file system", err);
	return 0;
}

/*
 * The flag is asked for a directory that is not empty, so it is refused. The
 * error tells whether the file system knows it.
 */
void folding_look(struct branch *branch)
{
	int flags = 0;

	if (ioctl(branch->root_fd, FS_IOC_GETFLAGS, &flags) < 0) {
		branch->never_folds = errno == ENOTTY || errno == EOPNOTSUPP;
		return;
	}
	if (branch->flags & BRANCH_RO || atomic_load(&branch->lock) == 0)
		return; /* is not touched; or may be empty */
	flags |= FS_CASEFOLD_FL;
	branch->never_folds = ioctl(branch->root_fd, FS_IOC_SETFLAGS, &flags) <
				      0 &&
			      errno == EOPNOTSUPP;
}

int folding_ask_dir(int fd)
{
	static struct named named = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct handle handle;
	char path[PATH_MAX];

	if (!has_flag(fd))
		return 0;
	if (handle_get(fd, "", &handle) == 0 && !named_before(&named, &handle))
		log_warning("directory '%s' is refused: it takes names for one "
			    "that differ in case (chattr +F)",
			    named_path(fd, path));
	return -EOPNOTSUPP;
}
