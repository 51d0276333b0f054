/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings, file handles, the file system as a whole. The order of a listing
 * and its offsets differ by right: said is only whether the rules are kept.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

#define NAMES_MAX 256
#define CHANGES   12 /* names that come and go meanwhile: "changing-N" */

struct name_filter {
	unsigned count;
	char items[NAMES_MAX][NAME_MAX + 1];
	long after[NAMES_MAX]; /* the offset that follows it */
};

static void add_name(struct name_filter *names, const char *name, long after)
{
	if (names->count == NAMES_MAX)
		return;
	(void)snprintf(names->items[names->count], NAME_MAX + 1, "%s", name);
	names->after[names->count++] = after;
}

static void read_names(DIR *dir, unsigned max, struct name_filter *ret)
{
	const struct dirent *entry;

	while (max-- && (entry = readdir(dir)))
		add_name(ret, entry->d_name, telldir(dir));
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Check that an entry has the type and inode of a stat of it. */
static void check_entry(int fd, const struct dirent *entry)
{
	struct stat st;

	if (strcmp(entry->d_name, "..") == 0 ||
	    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (st.st_ino != entry->d_ino)
		say(" '%s' is listed as another inode", entry->d_name);
	if (entry->d_type != DT_UNKNOWN &&
	    DTTOIF(entry->d_type) != (int)(st.st_mode & S_IFMT))
		say(" '%s' is listed as another type", entry->d_name);
}

static void list_dir(const char *path)
{
	static struct name_filter names;
	const struct dirent *entry;
	DIR *dir = opendir(path);
	unsigned i;

	say_result(dir ? 0 : -1);
	if (!dir)
		return;
	names.count = 0;
	while ((errno = 0, entry = readdir(dir))) {
		add_name(&names, entry->d_name, 0);
		check_entry(dirfd(dir), entry);
	}
	if (errno)
		say_result(-1); /* it is not all of them */
	(void)closedir(dir);
	qsort(names.items, names.count, sizeof(names.items[0]),
	      compare_entries);
	for (i = 0; i < names.count; i++)
		say(" %s", names.items[i]);
}

static unsigned count_of(const struct name_filter *names, const char *name)
{
	unsigned i, n = 0;

	for (i = 0; i < names->count; i++)
		n += strcmp(names->items[i], name) == 0;
	return n;
}

static bool comes_and_goes(const char *name)
{
	return strncmp(name, "changing-", 9) == 0;
}

/* Every name of @all that stayed is in @got once, nothing is twice. */
static void check_got(const struct name_filter *all,
		      const struct name_filter *got)
{
	unsigned i;

	for (i = 0; i < all->count; i++)
		if (!comes_and_goes(all->items[i]) &&
		    count_of(got, all->items[i]) != 1)
			say(" '%s' %u times", all->items[i],
			    count_of(got, all->items[i]));
	for (i = 0; i < got->count; i++)
		if (count_of(got, got->items[i]) != 1)
			say(" '%s' more than once", got->items[i]);
}

static void touch_names(int fd, unsigned from, unsigned to, bool there)
{
	char name[32];

	for (; from < to; from++) {
		(void)snprintf(name, sizeof(name), "changing-%u", from);
		if (there)
			fd_close(openat(fd, name, O_CREAT | O_WRONLY, 0600));
		else
			(void)unlinkat(fd, name, 0);
	}
}

/*
 * Check that a list from the offset after name @at on has just the names after
 * it.
 */
static void check_seek(DIR *dir, const struct name_filter *all, unsigned at)
{
	static struct name_filter got;
	unsigned i;

	got.count = 0;
	seekdir(dir, all->after[at]);
	read_names(dir, NAMES_MAX, &got);
	for (i = 0; i < all->count; i++)
		if (!comes_and_goes(all->items[i]) &&
		    count_of(&got, all->items[i]) != (i > at))
			say(" after %u of %u: '%s' %u times", at, all->count,
			    all->items[i], count_of(&got, all->items[i]));
}

static void do_list_changing(const struct op *op, const char *path)
{
	static struct name_filter all, got;
	DIR *dir = opendir(path);

	if (!dir) {
		say_result(-1);
		return;
	}
	touch_names(dirfd(dir), 0, CHANGES, true);
	all.count = got.count = 0;
	rewinddir(dir);
	read_names(dir, NAMES_MAX, &all);
	rewinddir(dir);
	read_names(dir, (unsigned)op->way + 1, &got);
	touch_names(dirfd(dir), CHANGES, CHANGES + 5, true);
	touch_names(dirfd(dir), 0, CHANGES / 2, false);
	read_names(dir, NAMES_MAX, &got);
	check_got(&all, &got);
	if (all.count)
		check_seek(dir, &all, (unsigned)(op->seed % all.count));
	touch_names(dirfd(dir), 0, CHANGES + 5, false);
	(void)closedir(dir);
	say(" listed");
}

static void do_statfs(const char *path)
{
	struct statvfs st;
	int r = statvfs(path, &st);

	say_result(r);
	if (r == 0)
		say(" name=%lu block=%lu", st.f_namemax, st.f_bsize);
}

/*
 * Check that a handle opens the file that it was made of, or says that this is
 * no more.
 */
static void do_handle(const struct op *op, const char *path, const char *path2)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
	auto_close int mount = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = -1;
	struct stat a, b = {0};
	int id, r = name_to_handle_at(AT_FDCWD, path, &u.handle, &id, 0);

	say_result(r);
	if (r < 0 || lstat(path, &a) < 0)
		return;
	if (op->way % 3 == 0)
		say_result(rename(path, path2));
	else if (op->way % 3 == 1)
		say_result(unlink(path));
	fd = open_by_handle_at(mount, &u.handle,
			       O_PATH | O_CLOEXEC | O_NOFOLLOW);
	/* While its last close is under way it can be opened still. */
	if (fd >= 0 && fstat(fd, &b) == 0 && !b.st_nlink) {
		fd_close(take_fd(&fd));
		errno = ESTALE;
	}
	say_result(fd < 0 ? -1 : 0);
	if (fd >= 0)
		say(" %s", a.st_ino == b.st_ino && a.st_dev == b.st_dev
				   ? "same"
				   : "another");
}

void op_do_dir(const struct op *op, int *fds)
{
	char buf[OP_FULL_PATH_MAX], buf2[OP_FULL_PATH_MAX];
	const char *path = op_path(op->path, buf);

	(void)fds;
	switch (op->kind) {
	case OP_LIST: list_dir(path); break;
	case OP_LIST_CHANGING: do_list_changing(op, path); break;
	case OP_STATFS: do_statfs(path); break;
	default: do_handle(op, path, op_path(op->path2, buf2)); break;
	}
}
