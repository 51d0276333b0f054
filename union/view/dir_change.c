/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/dir_change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/sys/attrs.h"
#include "union/sys/immutable.h"
#include "union/sys/proc_path.h"

/* A copy that is about to be changed, or was. */
struct dir_change_copy {
	struct copy *copy;
	struct stat before;
	char *value;   /* of the attribute; owned; NULL: it had none */
	size_t length; /* bytes, of */
};

/* Count the copies that can be changed; -EPERM: one of them cannot. */
static int count_copies(struct unionfs *fs, const struct node *node, bool now)
{
	struct copy *copy;
	int n = 0, r;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (unionfs_writable(fs, copy) < 0)
			continue;
		n++;
		/* The change itself reports other errors. */
		if (unionfs_dir_fd(fs, copy, &dir) < 0)
			continue;
		r = immutable_check(dir->fd, now);
		if (r < 0)
			return r;
	}
	return n;
}

int dir_change_begin(struct dir_change *change, struct unionfs *fs,
		     const struct node *node, const char *xattr, bool now)
{
	struct copy *first = node_first(node);
	int n;

	*change = (struct dir_change){.fs = fs, .xattr = xattr};
	/* The change of a single copy fails by itself. */
	if (!S_ISDIR(node->type) || !first || !copy_next(first))
		return 0;
	n = count_copies(fs, node, now);
	if (n < 0)
		return n;
	/* A copy may come meanwhile: see note(). */
	change->copies = calloc(BRANCH_MAX, sizeof(*change->copies));
	return change->copies ? 0 : -ENOMEM;
}

static int note_value(struct dir_change_copy *noted, const char *path,
		      const char *name)
{
	ssize_t size = getxattr(path, name, NULL, 0);

	if (size < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	noted->value = malloc((size_t)size + 1);
	if (!noted->value)
		return -ENOMEM;
	/* No other request changes it: see dir_attr_lock.h. */
	size = getxattr(path, name, noted->value, (size_t)size);
	if (size < 0)
		return -errno;
	noted->length = (size_t)size;
	return 0;
}

int dir_change_note(struct dir_change *change, struct copy *copy, int fd)
{
	struct dir_change_copy *noted;
	char path[PROC_PATH_MAX];

	if (!change->copies || change->count == BRANCH_MAX)
		return 0;
	noted = &change->copies[change->count];
	if (fstat(fd, &noted->before) < 0)
		return -errno;
	noted->copy = copy;
	change->count++;
	return change->xattr ? note_value(noted, proc_path(path, fd, ""),
					  change->xattr)
			     : 0;
}

/* Is the attribute as before? */
static bool is_same_value(const char *path, const char *name,
			  const struct dir_change_copy *noted)
{
	auto_free char *value = malloc(noted->length + 1);
	ssize_t size = value ? getxattr(path, name, value, noted->length + 1)
			     : -1;

	if (size < 0)
		return !noted->value && errno == ENODATA;
	return noted->value && (size_t)size == noted->length &&
	       memcmp(value, noted->value, noted->length) == 0;
}

static void undo_value(const char *path, const char *name,
		       const struct dir_change_copy *noted)
{
	if (is_same_value(path, name, noted))
		return;
	if (noted->value)
		(void)setxattr(path, name, noted->value, noted->length, 0);
	else
		(void)removexattr(path, name);
}

/*
 * Undo the change as far as possible: an error now has its own reason. A copy
 * that is as before is left alone, or its change time would show.
 */
static void undo(const struct dir_change *change,
		 const struct dir_change_copy *noted)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	const struct stat *st = &noted->before;
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	char path[PROC_PATH_MAX];
	struct stat now;

	if (unionfs_dir_fd(change->fs, noted->copy, &dir) < 0)
		return;
	proc_path(path, dir->fd, "");
	if (change->xattr)
		undo_value(path, change->xattr, noted);
	if (fstat(dir->fd, &now) < 0)
		return;
	if (now.st_uid != st->st_uid || now.st_gid != st->st_gid)
		(void)fchownat(dir->fd, "", st->st_uid, st->st_gid,
			       AT_EMPTY_PATH);
	/* An ACL, or another owner, has changed the mode, too. */
	if (fstat(dir->fd, &now) == 0 && now.st_mode != st->st_mode)
		(void)chmod(path, st->st_mode & 07777);
	if (!time_equal(&now.st_mtim, &st->st_mtim) ||
	    !time_equal(&now.st_atim, &st->st_atim))
		(void)utimensat(dir->fd, "", times, AT_EMPTY_PATH);
}

void dir_change_end(struct dir_change *change, int r)
{
	while (change->count) {
		change->count--;
		if (r < 0)
			undo(change, &change->copies[change->count]);
		free(change->copies[change->count].value);
	}
	free(take_ptr(change->copies));
}
