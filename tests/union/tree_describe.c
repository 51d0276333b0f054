/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"
#include "tests/union/tree.h"

#define PIECE     (64 << 10)
#define LINKS_MAX 512

struct describing {
	FILE *out;
	bool numbers;
	unsigned count; /* files of several links met so far */
	struct {
		ino_t ino;
		char first[256]; /* name */
	} links[LINKS_MAX];
};

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	if (ftw->level == 0)
		return 0;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* So that it can be removed. */
static int let_change(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	auto_close int fd = -1;
	int flags;

	(void)ftw;
	if (type == FTW_NS || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)))
		return 0;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ||
	    !(flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)))
		return 0;
	flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
	return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

int tree_clear(const char *path)
{
	if (nftw(path, let_change, 64, FTW_PHYS) < 0)
		return -errno;
	return nftw(path, remove_one, 64, FTW_DEPTH | FTW_PHYS) < 0 ? -errno
								    : 0;
}

/* Pages that are not all zero, and where they are: a hole is zero. */
static uint64_t content(int dirfd, const char *name)
{
	static const char zero[4096];
	static char data[PIECE];
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	uint64_t sum = 0;
	off_t at = fd < 0 ? -1 : lseek(fd, 0, SEEK_DATA);
	ssize_t n, i;

	while (at >= 0) {
		at &= ~(off_t)4095;
		n = pread(fd, data, sizeof(data), at);
		if (n <= 0)
			break;
		for (i = 0; i < n; i += 4096) {
			size_t size = n - i < 4096 ? (size_t)(n - i) : 4096;

			if (memcmp(data + i, zero, size) != 0)
				sum = sum * 31 + op_sum(data + i, size) +
				      (uint64_t)(at + i);
		}
		at = lseek(fd, at + n, SEEK_DATA);
	}
	return sum;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void describe_xattrs(struct describing *d, const char *path)
{
	static char list[1 << 16], value[1 << 16];
	ssize_t at, n = llistxattr(path, list, sizeof(list));
	char *names[256] = {NULL};
	size_t i, count = 0;

	for (at = 0; at < n && count < array_size(names);
	     at += (ssize_t)strlen(list + at) + 1)
		names[count++] = list + at;
	qsort(names, count, sizeof(names[0]), compare);
	for (i = 0; i < count; i++) {
		n = lgetxattr(path, names[i], value, sizeof(value));
		fprintf(d->out, " %s=%zd:%llx", names[i], n,
			n > 0 ? (unsigned long long)op_sum(value, (size_t)n)
			      : 0);
	}
}

static void describe_times(struct describing *d, const struct stat *st)
{
	if (st->st_mtim.tv_sec < 1500000000)
		fprintf(d->out, " mtime=%lld.%ld",
			(long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	if (st->st_atim.tv_sec < 1500000000)
		fprintf(d->out, " atime=%lld.%ld",
			(long long)st->st_atim.tv_sec, st->st_atim.tv_nsec);
}

/* Of a file with several names: which of them came first. */
static void describe_links(struct describing *d, const char *name,
			   const struct stat *st)
{
	unsigned i;

	for (i = 0; i < d->count && d->links[i].ino != st->st_ino; i++)
		;
	if (i < d->count) {
		fprintf(d->out, " is=%s", d->links[i].first);
	} else if (i < LINKS_MAX) {
		d->links[i].ino = st->st_ino;
		(void)snprintf(d->links[i].first, 256, "%.255s", name);
		d->count++;
	}
}

static void describe_one(struct describing *d, int dirfd, const char *path,
			 const char *name, const struct stat *st)
{
	char target[PATH_MAX + 1];
	ssize_t n;

	fprintf(d->out, "%s mode=%o links=%lu owner=%u:%u", path, st->st_mode,
		op_links(st->st_mode, st->st_nlink), st->st_uid, st->st_gid);
	if (d->numbers)
		fprintf(d->out, " ino=%llx", (unsigned long long)st->st_ino);
	if (S_ISREG(st->st_mode))
		fprintf(d->out, " size=%lld data=%llx", (long long)st->st_size,
			(unsigned long long)content(dirfd, name));
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		fprintf(d->out, " device=%u:%u", major(st->st_rdev),
			minor(st->st_rdev));
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dirfd, name, target, sizeof(target));
		fprintf(d->out, " to=%zd:%llx", n,
			n > 0 ? (unsigned long long)op_sum(target, (size_t)n)
			      : 0);
	}
	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1)
		describe_links(d, path, st);
	describe_times(d, st);
	describe_xattrs(d, path);
	fputc('\n', d->out);
}

static void describe_dir(struct describing *d, const char *path);

static void describe_entry(struct describing *d, int fd, const char *path,
			   const char *name, ino_t listed)
{
	auto_free char *below = NULL;
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		fprintf(d->out, "%s/%s: %s\n", path, name,
			strerrorname_np(errno));
		return;
	}
	if (asprintf(&below, "%s/%s", path, name) < 0)
		abort();
	describe_one(d, fd, below, name, &st);
	if (listed != st.st_ino)
		fprintf(d->out, "%s is listed as another inode\n", below);
	if (S_ISDIR(st.st_mode))
		describe_dir(d, below);
}

static void describe_dir(struct describing *d, const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **entries;
	int i, n = scandir(path, &entries, NULL, alphasort);

	if (n < 0)
		fprintf(d->out, "%s: %s\n", path, strerrorname_np(errno));
	for (i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			describe_entry(d, fd, path, name, entries[i]->d_ino);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

char *tree_describe(const char *path, bool numbers)
{
	struct describing *d = calloc(1, sizeof(*d));
	char *text = NULL;
	size_t size;
	struct stat st;
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!d || here < 0 || chdir(path) < 0 || stat(".", &st) < 0)
		abort();
	d->numbers = numbers;
	d->out = open_memstream(&text, &size);
	describe_one(d, AT_FDCWD, ".", ".", &st);
	describe_dir(d, ".");
	(void)fclose(d->out); /* memory */
	free(d);
	if (fchdir(here) < 0)
		abort();
	fd_close(here);
	return text;
}

void tree_difference(const char *a, const char *b, char *buf, size_t size)
{
	size_t at = 0, i;

	for (i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '\n')
			at = i + 1;
	(void)snprintf(buf, size, "plain: %.*s\nunion: %.*s",
		       (int)strcspn(a + at, "\n"), a + at,
		       (int)strcspn(b + at, "\n"), b + at);
}
