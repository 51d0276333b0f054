/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/drain_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/migrate/drain_dir.h"
#include "union/migrate/migrate_file.h"
#include "union/migrate/relocate.h"
#include "union/sys/empty_dir.h"
#include "union/view/lookup.h"

/* A name of a file that has several. */
struct linked {
	ino_t ino;
	struct handle file;
	nlink_t links;
	uint64_t bytes;
	struct node *dir; /* held */
	char *name;
};

struct pass {
	const struct drain_walk *walk;
	struct unionfs *fs;
	struct linked *links;
	size_t count, size;
	int64_t left;
};

static uint64_t bytes_of(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512;
}

/* Would @to still have more room than the branch? Else it may come back. */
static bool has_more_room(const struct migrate_file *move, uint64_t bytes)
{
	struct branch_space from, to;

	branch_space(move->from, clock_ms(), &from);
	branch_space(move->to, clock_ms(), &to);
	return to.available > bytes && to.available - bytes > from.available;
}

/* Are all directories of the file on @to? */
static bool has_directories(const struct migrate_file *move)
{
	unsigned i;

	for (i = 0; i < move->count; i++)
		if (!node_copy_on(move->names[i].dir, move->to->id))
			return false;
	return true;
}

static bool keeps_paths(const struct pass *pass)
{
	return pass->walk->for_room &&
	       policy_of(&pass->fs->policies, POLICY_CREATE)->scope !=
		       POLICY_ANYWHERE;
}

static bool is_no_good(const struct pass *pass, const struct migrate_file *move,
		       uint64_t bytes, bool with_directories)
{
	return pass->walk->for_room &&
	       (!has_more_room(move, bytes) ||
		(with_directories && !has_directories(move)));
}

/* Move the file to the best branch that takes it. */
static int move_to_best(struct pass *pass, struct migrate_file *move,
			uint64_t bytes)
{
	bool with_directories = keeps_paths(pass);
	int r = -ENOSPC;
	unsigned i = 0;

	for (;;) {
		move->to = drain_target(pass->fs, move->from, bytes,
					pass->walk->for_room, i++);
		if (!move->to && !with_directories)
			return r;
		if (!move->to) {
			with_directories = false;
			i = 0;
			continue;
		}
		if (is_no_good(pass, move, bytes, with_directories))
			continue;
		r = migrate_file(pass->fs, move);
		if (r != -ENOSPC && r != -EDQUOT && r != -EROFS &&
		    r != -EEXIST && r != -EOPNOTSUPP &&
		    (r != -EPERM || !pass->walk->for_room))
			return r;
	}
}

static int move_one(struct pass *pass, struct node *dir, const char *name,
		    const struct handle *file, uint64_t bytes)
{
	struct migrate_name at = {dir, name};
	struct migrate_file move = {.from = pass->walk->branch,
				    .file = *file,
				    .names = &at,
				    .count = 1,
				    .pace = pass->walk->pace};

	return move_to_best(pass, &move, bytes);
}

static int note_link(struct pass *pass, struct node *dir, const char *name,
		     const struct handle *file, const struct stat *st)
{
	size_t size = pass->size ? pass->size * 2 : 64;
	struct linked *bigger;
	struct node *held;

	if (pass->count == pass->size) {
		bigger = reallocarray(pass->links, size, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		pass->links = bigger;
		pass->size = size;
	}
	held = node_copy_on(dir, pass->walk->branch->id)
		       ? node_hold_id(&pass->fs->nodes, dir->id)
		       : NULL;
	if (!held)
		return -ESTALE;
	pass->links[pass->count++] = (struct linked){
		st->st_ino,   *file, st->st_nlink,
		bytes_of(st), held,  strdup(name)};
	return 0;
}

static void report_move(struct pass *pass, const char *name, uint64_t bytes,
			int r)
{
	if (r < 0)
		pass->left++;
	pass->walk->met(pass->walk->context, name, bytes, r);
}

static int visit_file(struct pass *pass, struct node *dir, const char *name,
		      const struct handle *file, const struct stat *st)
{
	int r;

	if (pass->walk->for_room &&
	    (!S_ISREG(st->st_mode) || bytes_of(st) < pass->walk->least))
		return 0;
	if (st->st_nlink > 1) {
		pass->left++; /* until all its names are found */
		return note_link(pass, dir, name, file, st);
	}
	r = move_one(pass, dir, name, file, bytes_of(st));
	if (r == -ECANCELED)
		return r;
	report_move(pass, name, bytes_of(st), r);
	return 0;
}

static int walk_dir(struct pass *pass, struct node *node, int fd);

/* Is @name in a directory hidden by a file of a lower branch? */
static bool is_hidden(struct pass *pass, struct node *dir, const char *name)
{
	struct copy *copy;
	struct stat st;
	bool hidden = false;

	for (copy = node_first(dir);
	     copy && copy->branch < pass->walk->branch->id && !hidden;
	     copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *at = NULL;

		if (unionfs_dir_fd(pass->fs, copy, &at) < 0 ||
		    fstatat(at->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			return false;
		hidden = true;
	}
	return hidden;
}

static int visit_dir(struct pass *pass, struct node *dir, int dir_fd,
		     const char *name)
{
	struct unionfs *fs = pass->fs;
	auto_close int fd = submount_open_none(
		dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	struct fuse_entry_param entry;
	struct node *node;
	int64_t left;
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (is_hidden(pass, dir, name)) {
		report_move(pass, name, 0, -EEXIST);
		return 0;
	}
	pthread_rwlock_rdlock(&fs->tree);
	r = lookup_dir(fs, NULL, pass->walk->branch->id, fd, &entry);
	pthread_rwlock_unlock(&fs->tree);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	node = node_get(&fs->nodes, entry.ino);
	left = pass->left;
	r = walk_dir(pass, node, fd);
	if (r == 0 && pass->left != left) {
		pass->left++; /* something is left in it */
	} else if (r == 0 && !pass->walk->for_room) {
		r = drain_dir(fs, pass->walk->branch, dir, dir_fd, node, name);
		if (r < 0)
			pass->left++;
		if (r < 0 && r != -ENOTEMPTY)
			pass->walk->met(pass->walk->context, name, 0, r);
		r = 0;
	}
	node_forget(&fs->nodes, entry.ino, 1);
	return r;
}

static int visit_any(struct pass *pass, struct node *node, int fd,
		     const char *name)
{
	struct handle file;
	struct stat st;
	int r = lookup_inode(pass->walk->branch, fd, name, &st, &file);

	if (r == -ENOENT)
		return submount_is_on(fd, name) ? -EBUSY : 0;
	if (r < 0)
		return r;
	return S_ISDIR(st.st_mode) ? visit_dir(pass, node, fd, name)
				   : visit_file(pass, node, name, &file, &st);
}

/* Visit a name. An unreadable one is reported and left; the walk goes on. */
static int visit(struct pass *pass, struct node *node, int fd, const char *name)
{
	int r = visit_any(pass, node, fd, name);

	if (r == 0 || r == -ECANCELED || !branch_usable(pass->walk->branch->id))
		return r;
	report_move(pass, name, 0, r);
	return 0;
}

static int walk_dir(struct pass *pass, struct node *node, int fd)
{
	int r = 0, own = openat(fd, ".",
				O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
	DIR *stream = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;

	if (!stream) {
		r = -errno;
		fd_close(own);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(stream))) {
		if (pass->walk->stopped(pass->walk->context))
			r = -ECANCELED;
		else if (!name_is_dot(entry->d_name) &&
			 !unionfs_hidden(node, entry->d_name))
			r = visit(pass, node, fd, entry->d_name);
	}
	if (r == 0 && !entry)
		r = -errno;
	(void)closedir(stream);
	return r;
}

static int compare_links(const void *a, const void *b)
{
	const struct linked *one = a, *other = b;

	return one->ino < other->ino ? -1 : one->ino > other->ino;
}

/* Move one file with all its names, as a whole or not at all. */
static int move_group(struct pass *pass, const struct linked *first,
		      unsigned count)
{
	struct migrate_name *names = calloc(count, sizeof(*names));
	struct migrate_file move = {.from = pass->walk->branch,
				    .file = first->file,
				    .names = names,
				    .count = count,
				    .pace = pass->walk->pace};
	unsigned i;
	int r = names ? -ESTALE : -ENOMEM;

	for (i = 0; names && i < count; i++)
		names[i] = (struct migrate_name){first[i].dir, first[i].name};
	if (names && count > RELOCATE_NAMES_MAX)
		r = -EMLINK;
	else if (names && count == first->links)
		r = move_to_best(pass, &move, first->bytes);
	free(names);
	if (r == -ECANCELED)
		return r;
	if (r == 0)
		pass->left -= count;
	pass->walk->met(pass->walk->context, first->name, first->bytes, r);
	return 0;
}

static int move_groups(struct pass *pass)
{
	size_t i, end;
	int r = 0;

	if (pass->count)
		qsort(pass->links, pass->count, sizeof(*pass->links),
		      compare_links);
	for (i = 0; i < pass->count && r == 0; i = end) {
		for (end = i + 1; end < pass->count &&
				  pass->links[end].ino == pass->links[i].ino;
		     end++)
			;
		r = pass->walk->stopped(pass->walk->context)
			    ? -ECANCELED
			    : move_group(pass, &pass->links[i],
					 (unsigned)(end - i));
	}
	return r;
}

int64_t drain_walk(const struct drain_walk *walk)
{
	struct pass pass = {.walk = walk, .fs = walk->fs};
	struct node *root = node_get(&walk->fs->nodes, NODE_ROOT_ID);
	size_t i;
	int r = walk_dir(&pass, root, walk->branch->root_fd);

	if (r == 0)
		r = move_groups(&pass);
	for (i = 0; i < pass.count; i++) {
		node_let_go(&walk->fs->nodes, pass.links[i].dir);
		free(pass.links[i].name);
	}
	free(pass.links);
	return r < 0 ? r : pass.left;
}

static int count_dir(const struct branch *branch, int fd, bool root,
		     uint64_t *files, uint64_t *bytes)
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
	while (r == 0 && (entry = readdir(stream))) {
		if (name_is_dot(entry->d_name) ||
		    (root && strcmp(entry->d_name, BRANCH_WORK_DIR) == 0) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			++*files;
			*bytes += bytes_of(&st) / st.st_nlink;
			continue;
		}
		child = submount_open_none(fd, entry->d_name,
					   O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
						   O_NOATIME);
		if (child >= 0)
			r = count_dir(branch, child, false, files, bytes);
	}
	(void)closedir(stream);
	return r;
}

int drain_count(const struct branch *branch, uint64_t *ret_files,
		uint64_t *ret_bytes)
{
	int fd = openat(branch->root_fd, ".",
			O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);

	*ret_files = *ret_bytes = 0;
	return fd < 0 ? -errno
		      : count_dir(branch, fd, true, ret_files, ret_bytes);
}
