/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/erring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "tests/union/images.h"
#include "tests/union/tree.h"

#define PATIENCE_MS 300000
#define KEPT        (FS_IMMUTABLE_FL | FS_APPEND_FL)
#define ONE_OF      6 /* of so many names, one errs */

/* fs/ext4/ext4.h of Linux 6.17: what i_block begins with. */
#define EXTENTS_AT   0x28
#define EXTENTS_SIZE 12

/* Of a copy that a union would take for one: no link leads to it. */
static bool copy_stat(const char *root, const char *path, struct stat *ret)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS};
	auto_close int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = (int)syscall(SYS_openat2, top, path, &how,
					 sizeof(how));

	return fd >= 0 && fstat(fd, ret) == 0;
}

/* ---- making them ---- */

static void keep(const char *root, const char *path, int flag)
{
	char whole[PATH_MAX];
	auto_close int fd = -1;
	int flags;

	tree_path(whole, root, path);
	fd = open(whole, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		abort();
	flags |= flag;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0)
		abort();
}

/*
 * Count the branches that have @path with the type of @mode, and return one of
 * them.
 */
static unsigned count_copies(struct erring *e, const char *path, mode_t mode,
			     unsigned *ret)
{
	struct stat st;
	unsigned i, count = 0;

	for (i = 0; i < e->count; i++)
		if (copy_stat(e->branches[i], path, &st) &&
		    S_ISDIR(st.st_mode) == S_ISDIR(mode) &&
		    dice_roll(&e->dice, ++count) == 0)
			*ret = i;
	return count;
}

static void keep_all(struct erring *e, const char *path, unsigned copies,
		     bool is_directory, int flag)
{
	struct stat st;
	unsigned i;

	for (i = 0; i < e->count; i++)
		if (copy_stat(e->branches[i], path, &st) &&
		    (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
			keep(e->branches[i], path, flag);
	/* On a branch without the directory it can be made. */
	if (copies == e->count || !is_directory)
		keep(e->plain, path, flag);
	else
		e->single = true;
	e->flagged++;
}

static void damage_later(struct erring *e, const char *name, const char *root,
			 const char *path, bool whole)
{
	struct erring_damage *damage = &e->damages[e->damaged];
	char file[PATH_MAX];
	struct stat st;
	unsigned i;

	tree_path(file, root, path);
	if (lstat(file, &st) < 0)
		abort();
	for (i = 0; i < e->damaged; i++)
		if (strcmp(e->damages[i].name, name) == 0 &&
		    e->damages[i].ino == st.st_ino)
			return; /* by another name */
	(void)snprintf(damage->name, sizeof(damage->name), "%s", name);
	damage->ino = st.st_ino;
	damage->whole = whole;
	damage->at = -1;
	e->damaged++;
}

static void damage_both(struct erring *e, const char *path, unsigned branch,
			bool has_extents)
{
	bool whole = !has_extents || dice_roll(&e->dice, 2);
	char name[16];

	if (e->damaged + 2 > ERRING_DAMAGED_MAX)
		return;
	(void)snprintf(name, sizeof(name), "fs%u", branch % e->file_systems);
	damage_later(e, name, e->branches[branch], path, whole);
	damage_later(e, "plain", e->plain, path, whole);
}

/* False: it cannot be read any more. */
static bool choose_object(struct erring *e, const char *path,
			  const struct stat *st)
{
	mode_t mode = st->st_mode;
	bool has_flags = S_ISREG(mode) || S_ISDIR(mode);
	unsigned branch = 0, copies = count_copies(e, path, mode, &branch);
	int flag = dice_roll(&e->dice, 3) ? FS_IMMUTABLE_FL : FS_APPEND_FL;

	if (!copies || dice_roll(&e->dice, ONE_OF))
		return true;
	switch (dice_roll(&e->dice, 3)) {
	case 0:
		/*
		 * A file that @path, or another name of it, hides would be
		 * seen.
		 */
		if (copies > 1 ||
		    count_copies(e, path, S_ISDIR(mode) ? S_IFREG : S_IFDIR,
				 &branch) ||
		    (!S_ISDIR(mode) && st->st_nlink > 1))
			return true;
		damage_both(e, path, branch, has_flags);
		return false;
	case 1:
		if (!S_ISDIR(mode))
			return true;
		e->single = true;
		e->flagged++;
		keep(e->branches[branch], path, flag);
		return true;
	default:
		if (has_flags)
			keep_all(e, path, copies, S_ISDIR(mode), flag);
		return true;
	}
}

static void choose_below(struct erring *e, const char *below)
{
	char path[PATH_MAX], next[PATH_MAX];
	struct dirent **entries;
	struct stat st;
	int i, n;

	tree_path(path, e->plain, below);
	n = scandir(path, &entries, NULL, alphasort);
	for (i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;

		if (*below)
			tree_path(next, below, name);
		else
			(void)snprintf(next, sizeof(next), "%s", name);
		tree_path(path, e->plain, next);
		/* Lanes have a directory each for themselves. */
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    strncmp(name, "lane", 4) != 0 && lstat(path, &st) == 0 &&
		    choose_object(e, next, &st) && S_ISDIR(st.st_mode))
			choose_below(e, next);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

/* ---- images ---- */

static int locate(const char *image, uint64_t ino, unsigned block_size,
		  int64_t *ret)
{
	char request[64];
	const char *const argv[] = {"debugfs", "-R", request, image, NULL};
	struct process_result result = {0};
	unsigned long long block, offset;
	const char *at;
	int r;

	(void)snprintf(request, sizeof(request), "imap <%llu>",
		       (unsigned long long)ino);
	r = process_run(argv, NULL, PATIENCE_MS, -1, &result, NULL);
	if (r < 0)
		return r;
	at = strstr(result.out, "located at block");
	if (!at || sscanf(at, "located at block %llu, offset %llx", &block,
			  &offset) != 2)
		r = -EPROTO;
	else
		*ret = (int64_t)(block * block_size + offset);
	process_result_done(&result);
	return r;
}

/* Damage an image, or @back: put back its old bytes. */
static int change_image(const struct erring *e, struct erring_damage *damage,
			bool back, struct error *err)
{
	uint8_t data[ERRING_INODE];
	char image[PATH_MAX];
	auto_close int fd = -1;
	uint8_t log_block_size = 0;
	int r;

	(void)snprintf(image, sizeof(image), "%s/%s.img", e->dir, damage->name);
	fd = open(image, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, &log_block_size, 1, 1024 + 24) != 1)
		return error_set(err, errno, "open '%s'", image);
	if (damage->at < 0) {
		r = locate(image, damage->ino, 1024U << log_block_size,
			   &damage->at);
		if (r < 0)
			return error_set(err, -r, "find an inode in '%s'",
					 image);
	}
	if (!back && pread(fd, damage->was, sizeof(damage->was), damage->at) !=
			     sizeof(damage->was))
		return error_set(err, errno, "read '%s'", image);
	memcpy(data, damage->was, sizeof(data));
	if (!back && damage->whole)
		memset(data, 0, sizeof(data));
	else if (!back)
		memset(data + EXTENTS_AT, 0, EXTENTS_SIZE);
	if (pwrite(fd, data, sizeof(data), damage->at) != sizeof(data))
		return error_set(err, errno, "write '%s'", image);
	return 0;
}

static int change_images(struct erring *e, bool back, struct error *err)
{
	char name[16];
	unsigned i, j;
	int r = 0;

	for (i = 0; i <= e->file_systems && r == 0 && e->damaged; i++) {
		(void)snprintf(name, sizeof(name),
			       i < e->file_systems ? "fs%u" : "plain", i);
		r = image_unmount(e->dir, name, err);
		for (j = 0; j < e->damaged && r == 0; j++)
			if (strcmp(e->damages[j].name, name) == 0)
				r = change_image(e, &e->damages[j], back, err);
		if (r == 0)
			r = image_mount(e->dir, name, err);
	}
	return r;
}

int erring_begin(struct erring *e, uint64_t seed, struct error *err)
{
	dice_init(&e->dice, seed ^ 0xe77);
	e->single = false;
	e->flagged = e->damaged = 0;
	choose_below(e, "");
	return change_images(e, false, err);
}

int erring_end(struct erring *e, struct error *err)
{
	int r = change_images(e, true, err);

	e->damaged = 0;
	return r;
}

/* ---- judging ---- */

bool erring_leaves_out(const struct erring *e, const struct op *op)
{
	return e->single && op->kind == OP_LIST_CHANGING; /* does several */
}

static int inode_flags_of(const char *root, const char *path)
{
	char whole[PATH_MAX];
	auto_close int fd = -1;
	int flags = 0;

	tree_path(whole, root, path);
	fd = open(whole, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ? 0
								: flags & KEPT;
}

/*
 * Tell whether a copy of @path has a flag, and that of the plain tree has none.
 */
static bool is_kept(const struct erring *e, const char *path)
{
	unsigned i;

	if (inode_flags_of(e->plain, path))
		return false;
	for (i = 0; i < e->count; i++)
		if (inode_flags_of(e->branches[i], path))
			return true;
	return false;
}

/* Make @path that of the directory it is in; false: it is the root. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!*path)
		return false;
	if (slash)
		*slash = '\0';
	else
		*path = '\0';
	return true;
}

/* @path of @op in a form that can be looked up; false: it leads elsewhere. */
static bool is_straight(const struct erring *e, const char *path, char *ret)
{
	char buf[OP_FULL_PATH_MAX], part[OP_FULL_PATH_MAX], whole[PATH_MAX];
	struct stat st;
	size_t n;

	(void)snprintf(part, sizeof(part), "%s", op_path(path, buf));
	if (strchr(part, '.') || strlen(part) > PATH_MAX / 2)
		return false;
	n = strlen(part);
	if (n && part[n - 1] == '/')
		part[n - 1] = '\0';
	strcpy(ret, part);
	while (go_up(part)) {
		tree_path(whole, e->plain, part);
		if (lstat(whole, &st) == 0 && S_ISLNK(st.st_mode))
			return false;
	}
	tree_path(whole, e->plain, ret);
	return lstat(whole, &st) < 0 || !S_ISLNK(st.st_mode);
}

/* Could branch @i take a new name in the directory @path? */
static bool may_take(const struct erring *e, unsigned i, const char *path)
{
	char part[OP_FULL_PATH_MAX], whole[PATH_MAX];
	struct stat st;

	if (e->closed[i])
		return false;
	(void)snprintf(part, sizeof(part), "%s", path);
	do {
		tree_path(whole, e->branches[i], part);
		if (lstat(whole, &st) == 0)
			return S_ISDIR(st.st_mode) &&
			       !inode_flags_of(e->branches[i], part);
	} while (go_up(part));
	return false;
}

/* A new name in the directory @path goes to a branch that can take it. */
static bool explains_new(const struct erring *e, const char *path)
{
	unsigned i;

	for (i = 0; i < e->count; i++)
		if (may_take(e, i, path))
			return false;
	return true;
}

/*
 * Tell whether the file at @path explains the error, or a directory of the @up
 * levels above it.
 */
static bool explains_path(const struct erring *e, const char *path, int up)
{
	char at[OP_FULL_PATH_MAX];

	if (!is_straight(e, path, at))
		return true;
	do
		if (is_kept(e, at))
			return true;
	while (up-- > 0 && go_up(at));
	return false;
}

bool erring_explains(const struct erring *e, const struct op *op)
{
	char at[OP_FULL_PATH_MAX];

	if (!e->single)
		return false;
	switch (op->kind) {
	case OP_OPEN:
	case OP_MKDIR:
	case OP_MKNOD:
	case OP_SYMLINK:
		if (!is_straight(e, op->path, at))
			return true;
		if (op->kind != OP_OPEN || (op->flags & O_TMPFILE) != O_TMPFILE)
			(void)go_up(at);
		return explains_new(e, at);
	case OP_RMDIR:
	case OP_UNLINK: return explains_path(e, op->path, 1);
	case OP_RENAME:
	case OP_LINK:
	case OP_HANDLE: /* a rename is part of it */
		if (explains_path(e, op->path, INT_MAX))
			return true;
		return explains_path(e, op->path2, INT_MAX);
	case OP_LINK_OPEN: return explains_path(e, op->path2, INT_MAX);
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
	case OP_SETXATTR:
	case OP_REMOVEXATTR:
		if (op->way % 4 == 0)
			return true; /* by descriptor */
		return explains_path(e, op->path, 0);
	case OP_ACL: return true; /* some by descriptor */
	default: return false;
	}
}

void erring_overlook(char *text)
{
	static const char *const names[] = {"EUCLEAN", "EBADMSG"};
	size_t i, n;
	char *at;

	for (i = 0; i < array_size(names); i++) {
		n = strlen(names[i]);
		while ((at = strstr(text, names[i]))) {
			memcpy(at, "EIO", 3);
			memmove(at + 3, at + n, strlen(at + n) + 1);
		}
	}
}

/* Tell whether the word @mine is an error where EPERM is another reason. */
static bool is_reason(const char *mine, size_t length)
{
	static const char *const reasons[] = {"EACCES", "ENOTDIR", "EISDIR",
					      "ENOTEMPTY", "EEXIST"};
	size_t i;

	for (i = 0; i < array_size(reasons); i++)
		if (strlen(reasons[i]) == length &&
		    memcmp(mine, reasons[i], length) == 0)
			return true;
	return false;
}

bool erring_alike(const struct op *op, const char *plain, const char *mine)
{
	size_t a, b;

	/* The kernel does not ask a union, and knows of no flags. */
	if (op->kind == OP_ACCESS && strcmp(plain, " EPERM") == 0 &&
	    strcmp(mine, " 0") == 0)
		return true;
	while (*plain && *mine) {
		a = strcspn(plain, " ");
		b = strcspn(mine, " ");
		if ((a != b || memcmp(plain, mine, a) != 0) &&
		    (a != 5 || memcmp(plain, "EPERM", 5) != 0 ||
		     !is_reason(mine, b)))
			return false;
		plain += a + (plain[a] == ' ');
		mine += b + (mine[b] == ' ');
	}
	return *plain == *mine;
}
