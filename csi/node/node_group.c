/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/node_group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FILE_BITS (S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP)
#define DIR_BITS  (FILE_BITS | S_IXUSR | S_IXGRP | S_ISGID)
#define MODE_BITS 07777

struct walk {
	gid_t gid;
	int cancel_fd;
	const char *root;
	struct error *err;
};

static int group_failed(struct walk *w, const char *what, const char *name)
{
	return error_set(w->err, errno,
			 "%s '%.80s' for the group %u in '%s': %s", what, name,
			 (unsigned)w->gid, w->root, strerror(errno));
}

static mode_t bits_of(const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? DIR_BITS : FILE_BITS;
}

static bool is_right(const struct walk *w, const struct stat *st)
{
	if (st->st_gid != w->gid)
		return false;
	return S_ISLNK(st->st_mode) ||
	       (st->st_mode & bits_of(st)) == bits_of(st);
}

/* @fd: O_PATH, so that devices and pipes are not opened. */
static int group_give(struct walk *w, int fd, const char *name,
		      const struct stat *st)
{
	char path[64];

	if (is_right(w, st))
		return 0;
	if (st->st_gid != w->gid &&
	    fchownat(fd, "", (uid_t)-1, w->gid, AT_EMPTY_PATH) < 0)
		return group_failed(w, "change owner of", name);
	if (S_ISLNK(st->st_mode))
		return 0;
	/* Also what chown(2) took away: setuid. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (chmod(path, (st->st_mode & MODE_BITS) | bits_of(st)) < 0)
		return group_failed(w, "change mode of", name);
	return 0;
}

static int group_visit(struct walk *w, int parent, const char *name,
		       unsigned depth);

static int visit_entries(struct walk *w, DIR *dir, const char *name,
			 unsigned depth)
{
	struct dirent *entry;
	int r = 0;

	while (r == 0) {
		errno = 0;
		entry = readdir(dir);
		if (!entry)
			return errno ? group_failed(w, "read", name) : 0;
		if (strcmp(entry->d_name, ".") != 0 &&
		    strcmp(entry->d_name, "..") != 0)
			r = group_visit(w, dirfd(dir), entry->d_name, depth);
	}
	return r;
}

static int visit_below(struct walk *w, int fd, const char *name, unsigned depth)
{
	struct pollfd stop = {.fd = w->cancel_fd, .events = POLLIN};
	int list, r;
	DIR *dir;

	if (depth >= NODE_GROUP_DEPTH_MAX) {
		errno = ELOOP;
		return group_failed(w, "go below", name);
	}
	if (w->cancel_fd >= 0 && poll(&stop, 1, 0) > 0)
		return error_set(w->err, ECANCELED,
				 "stopped while the group was given");
	list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = list < 0 ? NULL : fdopendir(list);
	if (!dir) {
		r = group_failed(w, "open", name);
		fd_close(list);
		return r;
	}
	r = visit_entries(w, dir, name, depth + 1);
	(void)closedir(dir);
	return r;
}

/* Change @name, after everything below it: see node_group.h. */
static int group_visit(struct walk *w, int parent, const char *name,
		       unsigned depth)
{
	auto_close int fd = openat(parent, name,
				   O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		/* A user has removed the file meanwhile. */
		return errno == ENOENT ? 0 : group_failed(w, "look at", name);
	if (S_ISDIR(st.st_mode))
		r = visit_below(w, fd, name, depth);
	return r < 0 ? r : group_give(w, fd, name, &st);
}

int node_group_apply(const char *root, gid_t gid, int cancel_fd,
		     struct error *err)
{
	struct walk w = {
		.gid = gid, .cancel_fd = cancel_fd, .root = root, .err = err};
	struct stat st;

	if (stat(root, &st) < 0)
		return group_failed(&w, "look at", root);
	return is_right(&w, &st) ? 0 : group_visit(&w, AT_FDCWD, root, 0);
}
