/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"
#include "tests/union/tree.h"

#define TRIES 10 /* for each branch */

struct population {
	struct dice dice;
	char *const *branches;
	unsigned count;
	struct { /* of files with several names, on @plain */
		dev_t device;
		ino_t ino;
		char path[PATH_MAX];
	} linked[TREE_BRANCHES_MAX * 4];
	unsigned linked_count;
};

void tree_path(char *buf, const char *dir, const char *name)
{
	if (snprintf(buf, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		abort();
}

static unsigned roll(struct population *p, unsigned below)
{
	return dice_roll(&p->dice, below);
}

static void dress(struct population *p, const char *path, bool link)
{
	static const unsigned modes[] = {0755, 0777, 0700, 01777, 02775, 0711};
	static const uid_t users[] = {0, 1000, 2000};
	struct timespec times[2] = {{.tv_sec = 1000000000},
				    {.tv_sec = 1000000000}};

	times[1].tv_sec += roll(p, 1000);
	(void)lchown(path, users[roll(p, 3)], users[roll(p, 3)]);
	if (!link)
		(void)chmod(path, modes[roll(p, 6)]);
	if (roll(p, 4) == 0)
		(void)lsetxattr(path, "trusted.was", "there", 5, 0);
	(void)utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

static void make_file(struct population *p, const char *path)
{
	char data[9000];
	size_t length = roll(p, sizeof(data));
	auto_close int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);

	op_fill(p->dice.state, data, length);
	if (fd < 0 || write(fd, data, length) < 0)
		abort();
}

static void make_thing(struct population *p, const char *path)
{
	switch (roll(p, 5)) {
	case 0: (void)symlink("a/b", path); break;
	case 1: (void)mkfifo(path, 0644); break;
	default: make_file(p, path); break;
	}
	dress(p, path, true);
}

/*
 * Tell whether a lower branch has a file at @path, or at a directory above it.
 */
static bool is_hidden(const struct population *p, unsigned branch,
		      const char *path)
{
	char part[PATH_MAX], whole[PATH_MAX];
	struct stat st;
	unsigned i;
	char *slash;

	for (i = 0; i < branch; i++) {
		(void)snprintf(part, sizeof(part), "%s", path);
		for (;;) {
			tree_path(whole, p->branches[i], part);
			if (lstat(whole, &st) == 0 && !S_ISDIR(st.st_mode))
				return true;
			slash = strrchr(part, '/');
			if (!slash)
				break;
			*slash = '\0';
		}
	}
	return false;
}

/* The directories above @path; false: a file is among them. */
static bool make_parents(struct population *p, unsigned branch, char *path)
{
	char whole[PATH_MAX];
	struct stat st;
	char *slash;

	for (slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		tree_path(whole, p->branches[branch], path);
		if (lstat(whole, &st) < 0 && !is_hidden(p, branch, path)) {
			if (mkdir(whole, 0755) == 0)
				dress(p, whole, false);
		}
		*slash = '/';
		if (lstat(whole, &st) < 0 || !S_ISDIR(st.st_mode))
			return false;
	}
	return true;
}

static void add_one(struct population *p, unsigned branch)
{
	char path[OP_PATH_MAX], whole[PATH_MAX], link_path[PATH_MAX];
	struct stat st;

	op_random_path(&p->dice, path);
	if (*path == OP_LONG_NAME || *path == 'h' || strchr(path, '.') ||
	    strstr(path, "/h") || !*path || path[strlen(path) - 1] == '/')
		return;
	if (!make_parents(p, branch, path))
		return;
	tree_path(whole, p->branches[branch], path);
	if (lstat(whole, &st) == 0)
		return;
	if (roll(p, 3) == 0 && !is_hidden(p, branch, path)) {
		if (mkdir(whole, 0755) == 0)
			dress(p, whole, false);
		return;
	}
	make_thing(p, whole);
	/* A second name, on the first branch only: a hidden file that has one
	 * would count a link that is not seen. */
	tree_path(link_path, p->branches[branch], "h0");
	if (branch == 0 && lstat(link_path, &st) < 0)
		(void)link(whole, link_path);
}

static void copy_xattr(const char *from, const char *to)
{
	char value[64];
	ssize_t n = lgetxattr(from, "trusted.was", value, sizeof(value));

	if (n > 0)
		(void)lsetxattr(to, "trusted.was", value, (size_t)n, 0);
}

static void copy_content(const char *from, const char *to)
{
	char data[16384];
	auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int out = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
				  0600);
	ssize_t n = read(in, data, sizeof(data));

	if (out < 0 || n < 0 || write(out, data, (size_t)n) != n)
		abort();
}

static bool make_linked(struct population *p, const struct stat *st,
			const char *to)
{
	unsigned i;

	if (st->st_nlink < 2)
		return false;
	for (i = 0; i < p->linked_count; i++)
		if (p->linked[i].device == st->st_dev &&
		    p->linked[i].ino == st->st_ino)
			return link(p->linked[i].path, to) == 0;
	p->linked[i].device = st->st_dev;
	p->linked[i].ino = st->st_ino;
	(void)snprintf(p->linked[i].path, PATH_MAX, "%s", to);
	p->linked_count++;
	return false;
}

static void copy_attributes(const char *from, const char *to,
			    const struct stat *st)
{
	(void)lchown(to, st->st_uid, st->st_gid);
	if (!S_ISLNK(st->st_mode))
		(void)chmod(to, st->st_mode & 07777);
	copy_xattr(from, to);
}

static void copy_thing(struct population *p, const char *from, const char *to,
		       const struct stat *st)
{
	char target[PATH_MAX] = "";

	if (make_linked(p, st, to))
		return;
	if (S_ISREG(st->st_mode)) {
		copy_content(from, to);
	} else if (S_ISLNK(st->st_mode)) {
		if (readlink(from, target, sizeof(target) - 1) < 0 ||
		    symlink(target, to) < 0)
			abort();
	} else if (mknod(to, st->st_mode, st->st_rdev) < 0) {
		abort();
	}
	copy_attributes(from, to, st);
	(void)utimensat(AT_FDCWD, to,
			(struct timespec[]){st->st_atim, st->st_mtim},
			AT_SYMLINK_NOFOLLOW);
}

static void merge_dirs(struct population *p, const char *below,
		       const char *plain);

/* The name @below, which branch @from is the first to have. */
static void merge_name(struct population *p, unsigned from, const char *below,
		       const char *plain)
{
	char source[PATH_MAX], target[PATH_MAX];
	struct stat st;

	tree_path(source, p->branches[from], below);
	tree_path(target, plain, below);
	if (lstat(source, &st) < 0)
		abort();
	if (!S_ISDIR(st.st_mode)) {
		copy_thing(p, source, target, &st);
		return;
	}
	if (mkdir(target, 0755) < 0)
		abort();
	copy_attributes(source, target, &st);
	merge_dirs(p, below, plain);
}

/* The times that a merged directory shows are the latest. */
static void set_times(const struct population *p, const char *below,
		      const char *plain)
{
	struct timespec times[2] = {{0}, {0}};
	char path[PATH_MAX];
	struct stat st;
	unsigned i;

	for (i = 0; i < p->count; i++) {
		tree_path(path, p->branches[i], below);
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (st.st_mtim.tv_sec > times[1].tv_sec)
			times[1] = st.st_mtim;
		if (st.st_atim.tv_sec > times[0].tv_sec)
			times[0] = st.st_atim;
	}
	tree_path(path, plain, below);
	(void)utimensat(AT_FDCWD, path, times, 0);
}

static void merge_dirs(struct population *p, const char *below,
		       const char *plain)
{
	char path[PATH_MAX], next[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	unsigned i;
	DIR *dir;

	for (i = 0; i < p->count; i++) {
		tree_path(path, p->branches[i], below);
		dir = lstat(path, &st) == 0 && S_ISDIR(st.st_mode)
			      ? opendir(path)
			      : NULL;
		while (dir && (entry = readdir(dir))) {
			if (strcmp(entry->d_name, ".") == 0 ||
			    strcmp(entry->d_name, "..") == 0)
				continue;
			tree_path(next, below, entry->d_name);
			tree_path(path, plain, next);
			if (lstat(path, &st) < 0)
				merge_name(p, i, next, plain);
		}
		if (dir)
			(void)closedir(dir);
	}
	set_times(p, below, plain);
}

int tree_populate(uint64_t seed, char *const *branches, unsigned count,
		  unsigned lanes, const char *plain)
{
	static struct population p;
	char path[PATH_MAX], name[16];
	unsigned i, j;

	memset(&p, 0, sizeof(p));
	dice_init(&p.dice, seed);
	p.branches = branches;
	p.count = count;
	for (i = 0; i < lanes; i++) {
		(void)snprintf(name, sizeof(name), "lane%u", i);
		tree_path(path, branches[0], name);
		if (mkdir(path, 0777) < 0 || chmod(path, 0777) < 0)
			return -errno;
	}
	for (i = 0; i < count; i++) {
		if (chmod(branches[i], i ? 0700 : 0777) < 0)
			return -errno;
		for (j = 0; j < TRIES; j++)
			add_one(&p, i);
	}
	if (chmod(plain, 0777) < 0)
		return -errno;
	merge_dirs(&p, ".", plain);
	return 0;
}
