/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/hurting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/images.h"
#include "tests/union/mounting.h"
#include "tests/union/tree.h"
#include "union/branch/branch.h"

#define PATIENCE_MS 300000
#define STEP_MS     20

/* include/uapi/linux/fs.h of Linux 6.17; of ext4 and XFS before. */
#define SHUTDOWN       _IOR('X', 125, uint32_t)
#define SHUTDOWN_NOLOG 2 /* and what is in the log's memory is lost, too */

static bool is_lost(const struct hurting *h, unsigned branch)
{
	return branch % h->file_systems == h->lost;
}

static int say_of(char *said, const char *what, int error)
{
	(void)snprintf(said, HURTING_SAY_MAX, "%.300s: %s\n", what,
		       strerror(error));
	return -1;
}

void hurting_prepare(const struct hurting *h, const char *plain)
{
	char path[PATH_MAX], name[32];
	unsigned i, j;

	for (i = 0; i < h->count; i++) {
		(void)snprintf(name, sizeof(name), "probe-%u", i);
		for (j = 0; j < 2; j++) {
			tree_path(path, j ? plain : h->branches[i], name);
			fd_close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC,
				      0600));
		}
	}
}

static void hold(struct hurting *h, const char *path)
{
	if (h->fd_store_server_count == h->fd_store_server_room) {
		h->fd_store_server_room = h->fd_store_server_room * 2 + 100;
		h->held = reallocarray(h->held, h->fd_store_server_room,
				       sizeof(char *));
		if (!h->held)
			abort();
	}
	h->held[h->fd_store_server_count] = strdup(path);
	if (!h->held[h->fd_store_server_count++])
		abort();
}

/* All names below @below of the branch @root; "": of the branch. */
static void hold_all(struct hurting *h, const char *root, const char *below)
{
	char path[PATH_MAX], name[PATH_MAX];
	const struct dirent *entry;
	struct stat st;
	DIR *dir;

	tree_path(path, root, below);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 ||
		    strcmp(entry->d_name, "..") == 0 ||
		    strcmp(entry->d_name, BRANCH_WORK_DIR) == 0)
			continue;
		if (*below)
			tree_path(name, below, entry->d_name);
		else
			(void)snprintf(name, sizeof(name), "%s", entry->d_name);
		hold(h, name);
		tree_path(path, root, name);
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			hold_all(h, root, name);
	}
	if (dir)
		(void)closedir(dir);
}

static void let_go(struct hurting *h)
{
	while (h->fd_store_server_count)
		free(h->held[--h->fd_store_server_count]);
	free(h->held);
	h->held = NULL;
	h->fd_store_server_room = 0;
}

/* Each branch of it is met as lost. */
static int meet(const struct hurting *h, char *said)
{
	char path[PATH_MAX], name[32];
	unsigned i;
	int fd;

	for (i = 0; i < h->count; i++) {
		(void)snprintf(name, sizeof(name), "probe-%u", i);
		tree_path(path, h->mnt, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if ((fd < 0 ? errno : 0) != (is_lost(h, i) ? EIO : 0)) {
			(void)say_of(said, path, fd < 0 ? errno : 0);
			fd_close(fd);
			return -1;
		}
		fd_close(fd);
	}
	return 0;
}

int hurting_begin(struct hurting *h, char said[HURTING_SAY_MAX])
{
	char path[PATH_MAX];
	uint32_t how = SHUTDOWN_NOLOG;
	auto_close int fd = -1;
	unsigned i;

	/* Of the root it is known then what is not in it; others it made. */
	tree_path(path, h->mnt, "probe-none");
	if (access(path, F_OK) == 0)
		return say_of(said, path, EEXIST);
	for (i = 0; i < h->count; i++)
		if (is_lost(h, i))
			hold_all(h, h->branches[i], "");
	(void)snprintf(path, sizeof(path), "%s/fs%u", h->dir, h->lost);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0 || ioctl(fd, SHUTDOWN, &how) < 0)
		return say_of(said, path, errno);
	h->now = true;
	return meet(h, said);
}

static int remount(const struct hurting *h, char *said)
{
	char name[16];
	struct error err = {0};
	int r;

	(void)snprintf(name, sizeof(name), "fs%u", h->lost); /* fits */
	r = image_unmount(h->dir, name, &err);
	if (r == 0)
		r = image_mount(h->dir, name, &err);
	if (r < 0)
		(void)snprintf(said, HURTING_SAY_MAX, "%.300s\n", err.msg);
	return r < 0 ? -1 : 0;
}

int hurting_end(struct hurting *h, char said[HURTING_SAY_MAX])
{
	int i;

	if (remount(h, said) < 0)
		return -1;
	for (i = 0; !mounting_is_well(h->program, h->dir); i += STEP_MS) {
		if (i >= PATIENCE_MS)
			return say_of(said, "a branch is not back", ETIMEDOUT);
		(void)usleep(STEP_MS * 1000);
	}
	h->now = false;
	let_go(h);
	return 0;
}

bool hurting_leaves_out(const struct op *op)
{
	switch (op->kind) {
	case OP_LIST_CHANGING:
	case OP_HANDLE:
	case OP_SAME:
	case OP_STATFS: return true;
	/* The kernel alone does that, also for a lost file. */
	case OP_OPEN: return op->flags & O_PATH;
	default: return false;
	}
}

static bool is_held(const struct hurting *h, const char *path)
{
	size_t i;

	for (i = 0; i < h->fd_store_server_count; i++)
		if (strcmp(h->held[i], path) == 0)
			return true;
	return false;
}

/* Does a branch that works have @path? @ret: as what. */
static bool is_elsewhere(const struct hurting *h, const char *path,
			 struct stat *ret)
{
	char whole[PATH_MAX];
	unsigned i;

	for (i = 0; i < h->count; i++) {
		tree_path(whole, h->branches[i], path);
		if (!is_lost(h, i) && lstat(whole, ret) == 0)
			return true;
	}
	return false;
}

static bool is_link_elsewhere(const struct hurting *h, const char *path)
{
	struct stat st;

	return is_elsewhere(h, path, &st) && S_ISLNK(st.st_mode);
}

/*
 * Tell whether @path explains the error: the lost branches hold it, or a link
 * in it, which leads to wherever. The call is about the last component.
 */
static bool path_explains(const struct hurting *h, const char *path)
{
	char buf[OP_FULL_PATH_MAX], part[OP_FULL_PATH_MAX];
	char *slash;
	struct stat st;

	(void)snprintf(part, sizeof(part), "%s", op_path(path, buf));
	if (!*part || strchr(part, '.'))
		return true; /* the root itself, which they have, or near it */
	if (part[strlen(part) - 1] == '/')
		part[strlen(part) - 1] = '\0';
	if (is_held(h, part) || is_link_elsewhere(h, part))
		return true;
	while ((slash = strrchr(part, '/'))) {
		*slash = '\0';
		if (!is_elsewhere(h, part, &st)) {
			if (is_held(h, part))
				return true;
		} else if (S_ISLNK(st.st_mode)) {
			return true;
		}
	}
	return false;
}

enum hurting_eio hurting_judge(const struct hurting *h, const struct op *op)
{
	switch (op->kind) {
	case OP_CLOSE:
	case OP_READ:
	case OP_WRITE:
	case OP_SEEK:
	case OP_FTRUNCATE:
	case OP_FALLOCATE:
	case OP_COPY:
	case OP_MMAP:
	case OP_LOCK:
	case OP_FLAGS: return HURTING_WRONG; /* opened on others */
	case OP_SYNC: return HURTING_RIGHT;  /* of a directory that they have */
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
		if (op->way % 4 == 0)
			return HURTING_RIGHT; /* as above, by descriptor */
		break;
	case OP_RENAME:
	case OP_LINK:
	case OP_LINK_OPEN:
		if (path_explains(h, op->path2))
			return HURTING_RIGHT;
		break;
	default: break;
	}
	return path_explains(h, op->path) ? HURTING_RIGHT : HURTING_NEEDLESS;
}

/* Remove " NAME=..." from @text. */
static void cut(char *text, const char *name)
{
	char *at = strstr(text, name), *end;

	if (!at)
		return;
	end = at + strlen(name) + strcspn(at + strlen(name), " ");
	memmove(at, end, strlen(end) + 1);
}

void hurting_overlook(char *text)
{
	const char *mode = strstr(text, " mode=");

	if (!mode || !S_ISDIR(strtoul(mode + 6, NULL, 8)))
		return;
	cut(text, " links=");
	cut(text, " atime=");
	cut(text, " mtime=");
}
