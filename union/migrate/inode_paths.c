/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/inode_paths.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_path.h"
#include "union/branch/submount.h"
#include "union/migrate/relocate.h"
#include "union/sys/empty_dir.h"
#include "union/view/lookup.h"

struct search {
	struct unionfs *fs;
	const struct branch *branch;
	const struct handle *file;
	ino_t ino;
	unsigned wanted; /* names */
	struct found_names *found;
};

static bool is_it(const struct search *s, int dirfd, const char *name)
{
	struct handle handle;

	return submount_handle_get(s->branch, dirfd, name, &handle) == 0 &&
	       handle_equal(&handle, s->file);
}

/* Add @name in the directory @dirfd. */
static int add_path(struct search *s, int dirfd, const char *name)
{
	struct fuse_entry_param entry;
	char *copy = strdup(name);
	int r = copy ? 0 : -ENOMEM;

	if (r == 0) {
		pthread_rwlock_rdlock(&s->fs->tree);
		r = lookup_dir(s->fs, NULL, s->branch->id, dirfd, &entry);
		pthread_rwlock_unlock(&s->fs->tree);
	}
	if (r < 0) {
		free(copy);
		return r;
	}
	s->found->names[s->found->count++] = (struct migrate_name){
		node_get(&s->fs->nodes, entry.ino), copy};
	return 0;
}

/* Try the path by which the file was opened: it is mostly still known. */
static int try_path(struct search *s, int fd)
{
	auto_close int dir = -1;
	char path[PATH_MAX];
	char *slash;
	int r = branch_path_of(s->branch, fd, path);

	if (r < 0 || !*path)
		return -ENOENT;
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	dir = submount_open_none(s->branch->root_fd, slash ? path : ".",
				 O_PATH | O_DIRECTORY | O_NOFOLLOW);
	if (dir < 0 || !is_it(s, dir, slash ? slash + 1 : path))
		return -ENOENT;
	return add_path(s, dir, slash ? slash + 1 : path);
}

static int search_dir(struct search *s, int fd, bool root)
{
	DIR *stream = fdopendir(fd);
	const struct dirent *entry;
	struct stat st;
	int r = 0, child;

	if (!stream) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	while (r == 0 && s->found->count < s->wanted &&
	       (entry = readdir(stream))) {
		if (name_is_dot(entry->d_name) ||
		    (root && strcmp(entry->d_name, BRANCH_WORK_DIR) == 0))
			continue;
		if (entry->d_ino == s->ino && is_it(s, fd, entry->d_name)) {
			r = add_path(s, fd, entry->d_name);
			continue;
		}
		if (entry->d_type != DT_DIR &&
		    (entry->d_type != DT_UNKNOWN ||
		     fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		     !S_ISDIR(st.st_mode)))
			continue;
		child = submount_open_none(fd, entry->d_name,
					   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
						   O_NOATIME);
		if (child >= 0)
			r = search_dir(s, child, false);
	}
	(void)closedir(stream);
	return r;
}

static int search_branch(struct search *s)
{
	int r, fd = openat(s->branch->root_fd, ".",
			   O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);

	r = fd < 0 ? -errno : search_dir(s, fd, true);
	return r == 0 && s->found->count < s->wanted ? -ESTALE : r;
}

int inode_paths(struct unionfs *fs, const struct branch *branch,
		const struct handle *file, struct found_names *ret)
{
	auto_close int fd = handle_open(branch->root_fd, file,
					O_PATH | O_NOFOLLOW);
	struct search s = {
		.fs = fs, .branch = branch, .file = file, .found = ret};
	struct stat st;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (fd < 0 || fstat(fd, &st) < 0)
		return -ESTALE;
	if (!st.st_nlink)
		return -ENOENT;
	if (st.st_nlink > RELOCATE_NAMES_MAX)
		return -EMLINK;
	s.ino = st.st_ino;
	s.wanted = (unsigned)st.st_nlink;
	ret->names = calloc(s.wanted, sizeof(*ret->names));
	if (!ret->names)
		return -ENOMEM;
	r = s.wanted == 1 ? try_path(&s, fd) : -ENOENT;
	if (r == -ENOENT)
		r = search_branch(&s);
	if (r < 0)
		inode_paths_done(fs, ret);
	return r;
}

void inode_paths_done(struct unionfs *fs, struct found_names *found)
{
	unsigned i;

	for (i = 0; i < found->count; i++) {
		assert(found->names[i].dir);
		node_forget(&fs->nodes, found->names[i].dir->id, 1);
		free((char *)found->names[i].name);
	}
	free(found->names);
	memset(found, 0, sizeof(*found));
}
