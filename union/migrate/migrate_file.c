/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/migrate_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/change/clone_dir.h"
#include "union/migrate/migration.h"
#include "union/state/reply_cache.h"
#include "union/view/name_filter.h"

#define TRIES 4 /* of a file that becomes known meanwhile */

static int open_old(struct migration *m)
{
	const struct migrate_file *move = m->move;
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
			 O_RDONLY | O_NOFOLLOW | O_NOATIME);
	if (fd < 0)
		return fd;
	fd_close(m->old_fd);
	m->old_fd = fd;
	return 0;
}

static void let_node_go(struct migration *m)
{
	if (m->node)
		node_let_go(&m->fs->nodes, m->node);
	m->node = NULL;
}

bool migration_find_node(struct migration *m)
{
	struct node *before = m->node;

	/* The node is held until then, so that no other takes its place. */
	m->node = node_hold(&m->fs->nodes, m->move->from->id, &m->move->file);
	if (before)
		node_let_go(&m->fs->nodes, before);
	return m->node != before;
}

static int open_places(struct migration *m)
{
	const struct migrate_file *move = m->move;
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

/* Close migrate_lock.h: no request meets the file or its directories. */
static int close_gates(struct migration *m)
{
	uint64_t *ids = calloc(m->move->count + 1, sizeof(*ids));
	unsigned i, tries;
	int r = ids ? -EBUSY : -ENOMEM;

	if (reply_cache_is_waiting(m->fs->reply_cache)) {
		free(ids);
		return -EBUSY;
	}
	for (i = 0; ids && i < m->move->count; i++)
		ids[i] = m->move->names[i].dir->id;
	for (tries = 0; ids && tries < TRIES; tries++) {
		(void)migration_find_node(m);
		ids[i] = m->node ? m->node->id : ids[0];
		r = migrate_lock_close(&m->fs->migrate_lock, ids, i + 1,
				       &m->hold);
		if (r < 0 || !migration_find_node(m))
			break;
		migrate_lock_open(&m->hold);
		r = -EBUSY;
	}
	free(ids);
	return r;
}

/* End the first @count quiet changes, the last first. */
static void end_quietly(struct migration *m, unsigned count)
{
	const struct migration_place *place;

	while (count--) {
		place = &m->places[count / 2];
		preserve_mtime_end(m->fs,
				   count % 2 ? place->to->fd : place->from->fd,
				   &m->quietly[count]);
	}
}

/* Begin quiet changes: the times of directories stay on both branches. */
static int begin_quietly(struct migration *m)
{
	const struct migration_place *place;
	unsigned i;
	int r = 0;

	for (i = 0; i < m->move->count * 2 && r == 0; i++) {
		place = &m->places[i / 2];
		r = i % 2 ? preserve_mtime_begin(m->fs, m->move->to->id,
						 place->to->fd, &m->quietly[i])
			  : preserve_mtime_begin(m->fs, m->move->from->id,
						 place->from->fd,
						 &m->quietly[i]);
	}
	if (r < 0)
		end_quietly(m, i - 1);
	return r;
}

/* Make the copy the node's file; its change time stays. */
static int switch_node(struct migration *m)
{
	struct quiet_change change = {.shown = m->st.st_ctim};
	const struct migrate_file *move = m->move;
	const struct copy *copy;
	struct stat st;
	int r;

	if (!m->node)
		return 0;
	copy = node_copy_on(m->node, move->from->id);
	if (copy && node_moves(m->node))
		change.shown = preserve_ctime_shown(&m->fs->nodes, copy,
						    &m->st);
	r = node_move(&m->fs->nodes, m->node, move->from->id, &move->file,
		      move->to->id, &m->r.copy);
	if (r < 0 || fstat(m->copy_fd, &st) < 0)
		return r;
	change.after = st.st_ctim;
	change.modified = st.st_mtim;
	preserve_ctime_change(&m->fs->nodes, move->to->id, &m->r.copy, &change);
	return 0;
}

/* Has the file all its names? Then it stays. */
static bool is_uncut(struct migration *m)
{
	struct stat st;

	return fstat(m->old_fd, &st) == 0 && st.st_nlink >= m->move->count &&
	       migration_check_names(m) == 0;
}

/* Note that the names are on @to, or going to be. */
static void note_names(const struct migration *m, const struct branch *to)
{
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		name_filter_add(m->move->names[i].dir, m->move->names[i].name,
				to->id);
}

static void note_gone(const struct migration *m, const struct branch *from)
{
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		name_filter_remove(m->move->names[i].dir,
				   m->move->names[i].name, from->id);
}

static int switch_names(struct migration *m)
{
	const struct migrate_file *move = m->move;
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

static int switch_over(struct migration *m)
{
	int r = close_gates(m);

	if (r < 0)
		return r;
	r = migration_check(m);
	if (r == 0)
		r = migration_finish_copy(m);
	if (r == 0)
		r = begin_quietly(m);
	if (r == 0) {
		r = switch_names(m);
		end_quietly(m, m->move->count * 2);
	}
	if (r == 0)
		m->fs->stats->moved_files++;
	migrate_lock_open(&m->hold);
	return r;
}

static void drop_new_copy(const struct migration *m)
{
	auto_close int work = branch_work_dir(m->move->to);

	if (work >= 0 && m->copy_fd >= 0)
		(void)unlinkat(work, m->r.temporary, 0); /* a sweep will */
}

static void migration_done(struct migration *m)
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
	free(m->dirty);
	branch_space_changed(m->move->from);
	branch_space_changed(m->move->to);
}

static int prepare_copy(struct migration *m)
{
	const struct migrate_file *move = m->move;
	int r;

	if (!move->count || move->count > RELOCATE_NAMES_MAX)
		return -EMLINK;
	m->r.names = calloc(move->count, sizeof(*m->r.names));
	m->places = calloc(move->count, sizeof(*m->places));
	m->quietly = calloc(move->count, 2 * sizeof(*m->quietly));
	m->dirty = malloc(sizeof(*m->dirty));
	if (!m->r.names || !m->places || !m->quietly || !m->dirty)
		return -ENOMEM;
	m->r.from = move->from;
	m->r.to = move->to;
	m->r.old = move->file;
	m->r.count = move->count;
	r = open_old(m);
	if (r < 0)
		return r;
	(void)migration_find_node(m);
	return migration_check_pinned(m);
}

int migrate_file(struct unionfs *fs, const struct migrate_file *move)
{
	struct migration m = {
		.fs = fs, .move = move, .old_fd = -1, .copy_fd = -1};
	bool copying = false;
	int r = prepare_copy(&m);

	if (r == 0)
		r = migration_make_copy(&m);
	if (r == 0) {
		copying = S_ISREG(m.st.st_mode);
		r = migration_copy_content(&m);
	}
	if (r == 0)
		r = open_places(&m);
	if (r == 0)
		r = switch_over(&m);
	if (copying)
		dirty_ranges_end(&fs->dirty, m.dirty);
	if (r == 0 && relocate_end(&m.r) < 0)
		log_warning("branch '%s': a migration is not recorded as done; "
			    "the next mount finishes it",
			    move->to->path);
	if (r < 0)
		drop_new_copy(&m);
	migration_done(&m);
	return r;
}
