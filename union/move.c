/* SPDX-License-Identifier: Apache-2.0 */
#include "union/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/aside.h"
#include "union/attrs.h"
#include "union/clone_dir.h"
#include "union/dir_fd.h"
#include "union/file_in_use.h"
#include "union/inode_number.h"
#include "union/names.h"
#include "union/number_keep.h"
#include "union/once.h"
#include "union/quietly.h"
#include "union/relocate.h"

#define PASSES   16           /* over what changes while it is copied */
#define LAST     (4u << 20)   /* bytes that are copied while others wait */
#define LAST_MAX (256u << 20) /* of a file that changes as fast as we copy */
#define TRIES    4            /* of a file that becomes known meanwhile */

/* One name of the file, on both branches. */
struct place {
	struct dir_fd *from, *to; /* held */
};

struct moved {
	struct unionfs *fs;
	const struct move_file *move;
	int old_fd, copy_fd; /* of a regular file readable, writable */
	struct stat st;
	struct node *node; /* held; NULL: the kernel does not know it */
	struct moving *moving;
	struct place *places;
	struct quietly *quietly; /* of each place two: from, to */
	struct gate_hold hold;
	struct relocation r;
};

static int open_old(struct moved *m)
{
	const struct move_file *move = m->move;
	int fd = handle_open(move->from->root_fd, &move->file,
			     O_PATH | O_NOFOLLOW);

	if (fd < 0)
		return fd;
	m->old_fd = fd;
	if (fstat(fd, &m->st) < 0)
		return -errno;
	if (S_ISDIR(m->st.st_mode))
		return -EISDIR;
	if (!S_ISREG(m->st.st_mode))
		return 0;
	fd = handle_open(move->from->root_fd, &move->file,
			 O_RDONLY | O_NOFOLLOW);
	if (fd < 0)
		return fd;
	fd_close(m->old_fd);
	m->old_fd = fd;
	return 0;
}

/*
 * Is it in use in a way that pins it to its branch: passed through, or mapped
 * while it was? While our own files of it are open, only choose_way() can
 * have found that it is not. A file the kernel does not know may be mapped
 * by another mount than this one.
 *
 * 0; -EBUSY; or another -errno when that cannot be found out.
 */
static int check_pinned(struct moved *m)
{
	struct node *node = m->node;
	int r;

	if (!m->fs->passthrough || !S_ISREG(m->st.st_mode))
		return 0;
	if (!node) {
		r = file_in_use(m->old_fd);
		return r == -EBUSY ? r : 0;
	}
	node_lock(&m->fs->nodes, node);
	if (node->opens)
		r = node->passthrough || node->passed ? -EBUSY : 0;
	else
		r = file_in_use(m->old_fd);
	if (r == 0)
		node->passed = false;
	else if (r != -EBUSY && !node->passed)
		r = 0;
	node_unlock(&m->fs->nodes, node);
	return r;
}

static void let_node_go(struct moved *m)
{
	if (m->node)
		node_let_go(&m->fs->nodes, m->node);
	m->node = NULL;
}

/* True when another than before, or one for the first time, is known. */
static bool find_node(struct moved *m)
{
	struct node *before = m->node;

	/* Held until then, so that another one is not in its place. */
	m->node = node_hold(&m->fs->nodes, m->move->from->id, &m->move->file);
	if (before)
		node_let_go(&m->fs->nodes, before);
	return m->node != before;
}

static int make_special(const struct moved *m, int work)
{
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (S_ISLNK(m->st.st_mode)) {
		n = readlinkat(m->old_fd, "", target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		r = symlinkat(target, work, m->r.temporary);
	} else {
		r = mknodat(work, m->r.temporary,
			    (m->st.st_mode & S_IFMT) | 0600, m->st.st_rdev);
	}
	if (r < 0)
		return -errno;
	r = openat(work, m->r.temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

/* An empty inode of the right type, at its temporary name. */
static int make_copy(struct moved *m)
{
	auto_close int work = -1;
	int fd, r = number_keep_mark(m->move->to);

	if (r < 0)
		return r;
	work = branch_work_dir(m->move->to);
	if (work < 0)
		return work;
	relocate_temporary(m->r.temporary);
	fd = S_ISREG(m->st.st_mode)
		     ? openat(work, m->r.temporary,
			      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
		     : make_special(m, work);
	if (fd < 0)
		return S_ISREG(m->st.st_mode) ? -errno : fd;
	m->copy_fd = fd;
	return handle_get(fd, "", &m->r.copy);
}

/* Copy once more all that has changed. */
static int copy_changes(struct moved *m, const struct copy_pace *pace)
{
	struct moving_list *list = &m->fs->moving;
	uint64_t at = 0, end = 0;
	int r = 0;

	while (r == 0 && end != UINT64_MAX &&
	       moving_take(list, m->moving, end, &at, &end))
		r = copy_data(m->old_fd, m->copy_fd, at, end, false, pace);
	return r;
}

/*
 * While others go on with it, until little is left; or as much as before,
 * because they are as fast as we are.
 */
static int copy_content(struct moved *m)
{
	struct moving_list *list = &m->fs->moving;
	uint64_t left, before = UINT64_MAX;
	int i, r;

	if (!S_ISREG(m->st.st_mode))
		return 0;
	moving_begin(list, m->moving, m->move->from->id, &m->move->file,
		     (uint64_t)m->st.st_size);
	/* From here on it is passed through to nobody. */
	(void)find_node(m);
	r = check_pinned(m);
	if (r == 0)
		r = copy_data(m->old_fd, m->copy_fd, 0, UINT64_MAX, true,
			      m->move->pace);
	for (i = 0; r == 0; i++) {
		if (fdatasync(m->copy_fd) < 0)
			return -errno;
		left = moving_count(list, m->moving) * m->moving->part;
		if (left <= LAST)
			break;
		if (i == PASSES || left > before / 2)
			return left <= LAST_MAX ? 0 : -EBUSY;
		before = left;
		r = copy_changes(m, m->move->pace);
	}
	return r;
}

static int open_places(struct moved *m)
{
	const struct move_file *move = m->move;
	struct copy *copy;
	unsigned i;
	int r = 0;

	for (i = 0; i < move->count && r == 0; i++) {
		copy = node_copy_on(move->names[i].dir, move->from->id);
		r = copy ? unionfs_dir_fd(m->fs, copy, &m->places[i].from)
			 : -ESTALE;
		if (r == 0)
			r = clone_dir(m->fs, move->names[i].dir, move->to->id,
				      &m->places[i].to);
		if (r < 0)
			break;
		m->r.names[i] = (struct relocate_name){
			.name = move->names[i].name,
			.from_fd = m->places[i].from->fd,
			.to_fd = m->places[i].to->fd,
		};
	}
	return r == -ENOENT ? -ESTALE : r;
}

/* From here on no request meets the file or its directories. */
static int close_gates(struct moved *m)
{
	uint64_t *ids = calloc(m->move->count + 1, sizeof(*ids));
	unsigned i, tries;
	int r = ids ? -EBUSY : -ENOMEM;

	if (once_is_waiting(m->fs->once)) {
		free(ids);
		return -EBUSY;
	}
	for (i = 0; ids && i < m->move->count; i++)
		ids[i] = m->move->names[i].dir->id;
	for (tries = 0; ids && tries < TRIES; tries++) {
		(void)find_node(m);
		ids[i] = m->node ? m->node->id : ids[0];
		r = gate_close(&m->fs->gate, ids, i + 1, &m->hold);
		if (r < 0 || !find_node(m))
			break;
		gate_open(&m->hold);
		r = -EBUSY;
	}
	free(ids);
	return r;
}

static bool is_listed(struct moved *m)
{
	bool listed = false;
	unsigned i;

	for (i = 0; i < m->move->count && !listed; i++) {
		node_lock(&m->fs->nodes, m->move->names[i].dir);
		listed = m->move->names[i].dir->streams > 0;
		node_unlock(&m->fs->nodes, m->move->names[i].dir);
	}
	return listed;
}

static int check_names(struct moved *m)
{
	struct handle found;
	struct stat st;
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		if (handle_get(m->r.names[i].from_fd, m->r.names[i].name,
			       &found) < 0 ||
		    !handle_equal(&found, &m->move->file))
			return -ESTALE;
	if (fstat(m->old_fd, &st) < 0)
		return -errno;
	return st.st_nlink == m->move->count ? 0 : -ESTALE;
}

/*
 * What else has the name @i: a file that this one hides must not appear, nor
 * be in the way; what hides it must go on to do so.
 *
 * @clear  put such files aside
 */
static int check_others(struct moved *m, unsigned i, bool clear)
{
	unsigned from = m->move->from->id, to = m->move->to->id;
	const char *name = m->r.names[i].name;
	bool hidden = false;
	struct copy *copy;
	struct stat st;
	int r = 0;

	for (copy = node_first(m->move->names[i].dir); copy && r == 0;
	     copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (copy->branch == from ||
		    (copy->branch > to && !hidden && copy->branch > from))
			continue;
		r = unionfs_dir_fd(m->fs, copy, &dir);
		if (r < 0)
			return r;
		if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return -errno;
			continue;
		}
		if (copy->branch < from) { /* the lowest first */
			if (!hidden && to < copy->branch)
				return -EEXIST;
			hidden = true;
		}
		if (hidden ? copy->branch == to : S_ISDIR(st.st_mode))
			return -EEXIST;
		if (!hidden && clear)
			r = aside_put_quietly(m->fs, branch_of(m->fs, copy),
					      dir->fd, name);
	}
	return r;
}

static int check(struct moved *m)
{
	unsigned i, flags = m->move->to->flags;
	int r;

	if (flags & (BRANCH_RO | BRANCH_NC | BRANCH_DRAINING | BRANCH_GONE))
		return -EROFS;
	if (m->move->from->flags & (BRANCH_RO | BRANCH_GONE))
		return -EROFS;
	if (is_listed(m))
		return -EBUSY;
	r = check_pinned(m);
	if (r == 0)
		r = check_names(m);
	for (i = 0; i < m->move->count && r == 0; i++)
		r = check_others(m, i, false);
	for (i = 0; i < m->move->count && r == 0; i++)
		r = check_others(m, i, true);
	return r;
}

/* st_ino, as it was and will be. */
static int find_number(struct moved *m)
{
	int r = 0;

	if (m->node)
		m->r.number = m->node->ino;
	else
		r = number_keep_read(m->move->from, m->old_fd, "", m->st.st_ino,
				     &m->r.number);
	m->r.keeps = m->r.number ==
		     inode_number(m->move->from->id, m->st.st_ino);
	return r;
}

/* What is left to be copied, with the gates closed; then it is durable. */
static int finish_copy(struct moved *m)
{
	bool regular = S_ISREG(m->st.st_mode);
	int r = regular ? copy_changes(m, NULL) : 0;

	if (r == 0 && fstat(m->old_fd, &m->st) < 0)
		r = -errno;
	if (r == 0 && regular && ftruncate(m->copy_fd, m->st.st_size) < 0)
		r = -errno;
	if (r == 0)
		r = attrs_copy(m->old_fd, &m->st, m->copy_fd);
	if (r == 0)
		r = find_number(m);
	if (r == 0)
		r = inode_number_write(m->copy_fd, m->r.number);
	if (r == 0 &&
	    utimensat(m->copy_fd, "",
		      (struct timespec[]){m->st.st_atim, m->st.st_mtim},
		      AT_EMPTY_PATH) < 0)
		r = -errno;
	if (r == 0 && regular && fsync(m->copy_fd) < 0)
		r = -errno;
	return r;
}

/* The first @count times of what has begun, the last first. */
static void end_quietly(struct moved *m, unsigned count)
{
	const struct place *place;

	while (count--) {
		place = &m->places[count / 2];
		quietly_end(m->fs, count % 2 ? place->to->fd : place->from->fd,
			    &m->quietly[count]);
	}
}

/* On both branches the times of the directories stay. */
static int begin_quietly(struct moved *m)
{
	const struct place *place;
	unsigned i;
	int r = 0;

	for (i = 0; i < m->move->count * 2 && r == 0; i++) {
		place = &m->places[i / 2];
		r = i % 2 ? quietly_begin(m->fs, m->move->to->id, place->to->fd,
					  &m->quietly[i])
			  : quietly_begin(m->fs, m->move->from->id,
					  place->from->fd, &m->quietly[i]);
	}
	if (r < 0)
		end_quietly(m, i - 1);
	return r;
}

/* The node's file is the copy; its change time as it was. */
static int switch_node(struct moved *m)
{
	struct quiet_change change = {.shown = m->st.st_ctim};
	const struct move_file *move = m->move;
	const struct copy *copy;
	struct stat st;
	int r;

	if (!m->node)
		return 0;
	copy = node_copy_on(m->node, move->from->id);
	if (copy && m->node->moves)
		change.shown = node_shown_ctime(&m->fs->nodes, copy,
						&m->st.st_ctim);
	r = node_move(&m->fs->nodes, m->node, move->from->id, &move->file,
		      move->to->id, &m->r.copy);
	if (r < 0 || fstat(m->copy_fd, &st) < 0)
		return r;
	change.after = st.st_ctim;
	node_change_quietly(&m->fs->nodes, move->to->id, &m->r.copy, &change);
	return 0;
}

/* It has all its names: so it stays. */
static bool is_uncut(struct moved *m)
{
	struct stat st;

	return fstat(m->old_fd, &st) == 0 && st.st_nlink >= m->move->count &&
	       check_names(m) == 0;
}

/* The names are on @to from here on, or going to be. */
static void note_names(const struct moved *m, const struct branch *to)
{
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		names_add(m->fs, m->move->names[i].dir, m->move->names[i].name,
			  to->id);
}

static void note_gone(const struct moved *m, const struct branch *from)
{
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		names_remove(m->fs, m->move->names[i].dir,
			     m->move->names[i].name, from->id);
}

static int switch_names(struct moved *m)
{
	const struct move_file *move = m->move;
	int r = relocate_begin(&m->r);

	if (r < 0)
		return r;
	note_names(m, move->to);
	r = relocate_link(&m->r);
	if (r == 0)
		r = switch_node(m);
	if (r == 0)
		r = relocate_cut(&m->r);
	else
		goto undo;
	if (r == 0) {
		note_gone(m, move->from);
		return 0;
	}
	if (!is_uncut(m)) {
		log_warning("branch '%s': a file moved, but for names of it "
			    "that could not be taken off: %s",
			    move->from->path, strerror(-r));
		return 0;
	}
	if (m->node)
		(void)node_move(&m->fs->nodes, m->node, move->to->id,
				&m->r.copy, move->from->id, &move->file);
undo:
	if (relocate_undo(&m->r) < 0)
		log_warning("branch '%s': a file that did not move may have "
			    "done so after a crash",
			    move->to->path);
	else
		note_gone(m, move->to);
	return r;
}

static int switch_over(struct moved *m)
{
	int r = close_gates(m);

	if (r < 0)
		return r;
	r = check(m);
	if (r == 0)
		r = finish_copy(m);
	if (r == 0)
		r = begin_quietly(m);
	if (r == 0) {
		r = switch_names(m);
		end_quietly(m, m->move->count * 2);
	}
	if (r == 0)
		m->fs->stats.moved_files++;
	gate_open(&m->hold);
	return r;
}

static void drop_copy(const struct moved *m)
{
	auto_close int work = branch_work_dir(m->move->to);

	if (work >= 0 && m->copy_fd >= 0)
		(void)unlinkat(work, m->r.temporary, 0); /* a sweep will */
}

static void moved_done(struct moved *m)
{
	unsigned i;

	for (i = 0; m->places && i < m->move->count; i++) {
		dir_fd_put(m->places[i].from);
		dir_fd_put(m->places[i].to);
	}
	let_node_go(m);
	fd_close(m->old_fd);
	fd_close(m->copy_fd);
	free(m->places);
	free(m->quietly);
	free(m->r.names);
	free(m->moving);
	branch_space_changed(m->move->from);
	branch_space_changed(m->move->to);
}

static int prepare(struct moved *m)
{
	const struct move_file *move = m->move;
	int r;

	if (!move->count || move->count > RELOCATE_NAMES_MAX)
		return -EMLINK;
	m->r.names = calloc(move->count, sizeof(*m->r.names));
	m->places = calloc(move->count, sizeof(*m->places));
	m->quietly = calloc(move->count, 2 * sizeof(*m->quietly));
	m->moving = malloc(sizeof(*m->moving));
	if (!m->r.names || !m->places || !m->quietly || !m->moving)
		return -ENOMEM;
	m->r.from = move->from;
	m->r.to = move->to;
	m->r.old = move->file;
	m->r.count = move->count;
	r = open_old(m);
	if (r < 0)
		return r;
	(void)find_node(m);
	return check_pinned(m);
}

int move_file(struct unionfs *fs, const struct move_file *move)
{
	struct moved m = {.fs = fs, .move = move, .old_fd = -1, .copy_fd = -1};
	bool copying = false;
	int r = prepare(&m);

	if (r == 0)
		r = make_copy(&m);
	if (r == 0) {
		copying = S_ISREG(m.st.st_mode);
		r = copy_content(&m);
	}
	if (r == 0)
		r = open_places(&m);
	if (r == 0)
		r = switch_over(&m);
	if (copying)
		moving_end(&fs->moving, m.moving);
	if (r == 0 && relocate_end(&m.r) < 0)
		log_warning("branch '%s': the move of a file is not noted as "
			    "done; the next mount goes on with it",
			    move->to->path);
	if (r < 0)
		drop_copy(&m);
	moved_done(&m);
	return r;
}
