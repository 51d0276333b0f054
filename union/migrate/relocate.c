/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/relocate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/branch/ino_preserve.h"
#include "union/change/hidden_files.h"
#include "union/sys/handle.h"
#include "union/sys/inode_number.h"

#define PREFIX "copy-"

void relocate_temporary(char ret[RELOCATE_TEMPORARY_MAX])
{
	(void)snprintf(ret, RELOCATE_TEMPORARY_MAX, PREFIX "%llu",
		       (unsigned long long)intent_new_id()); /* fits */
}

static int describe_move(const struct relocation *r,
			 const struct relocate_name *n, bool last,
			 struct intent *ret)
{
	int e;

	ret->kind = last ? INTENT_RELOCATE_ALL : INTENT_RELOCATE;
	ret->moved = r->copy;
	ret->replaced = r->old;
	ret->other = r->from->id;
	(void)snprintf(ret->from_name, sizeof(ret->from_name), "%s",
		       r->temporary); /* fits */
	(void)snprintf(ret->to_name, sizeof(ret->to_name), "%s",
		       n->name); /* the kernel's limit */
	e = handle_get(n->to_fd, "", &ret->to_dir);
	return e < 0 ? e : handle_get(n->from_fd, "", &ret->other_dir);
}

/* Strike out, first the record that counts: the others mean nothing then. */
static int strike_move_out(struct relocation *r, bool durably)
{
	auto_close int work = -1;
	unsigned i;
	bool any = false;

	for (i = r->count; i > 0; i--) {
		if (!r->names[i - 1].record)
			continue;
		(void)intent_end(r->to, r->names[i - 1].record, false);
		r->names[i - 1].record = 0;
		any = true;
	}
	if (!any || !durably)
		return 0;
	work = branch_work_dir(r->to);
	return work < 0 ? work : intent_sync_dir(work);
}

int relocate_begin(struct relocation *r)
{
	unsigned i;
	int e = 0;

	for (i = 0; i < r->count && e == 0; i++) {
		struct intent intent = {0};
		bool last = i == r->count - 1;

		e = describe_move(r, &r->names[i], last, &intent);
		if (e < 0)
			break;
		r->names[i].record = intent_new_id();
		e = intent_begin(r->to, r->names[i].record, &intent, last);
	}
	if (e < 0)
		(void)strike_move_out(r, true); /* the first error counts */
	return e;
}

int relocate_link(struct relocation *r)
{
	auto_close int work = branch_work_dir(r->to);
	struct relocate_name *n;
	unsigned i;

	if (work < 0)
		return work;
	for (i = 0; i < r->count; i++) {
		n = &r->names[i];
		/*
		 * The last one is a rename of the temporary name. While that is
		 * there, a crash finds not all names made.
		 */
		if ((i == r->count - 1 ? renameat2(work, r->temporary, n->to_fd,
						   n->name, RENAME_NOREPLACE)
				       : linkat(work, r->temporary, n->to_fd,
						n->name, 0)) < 0)
			return -errno;
		n->linked = true;
	}
	return 0;
}

/*
 * Does the file system give no number twice? Then no stub is needed. So a
 * branch at its quota, which cannot take a stub, lets its file go.
 */
static bool never_again(int dirfd)
{
	struct handle dir;

	return handle_get(dirfd, "", &dir) == 0 && handle_is_of_btrfs(&dir);
}

static bool is_full(int error)
{
	return error == ENOSPC || error == EDQUOT;
}

/* Take the name off; the inode stays as a stub where it keeps a number. */
static int cut_name(const struct branch *from, int dirfd, const char *name,
		    bool keeps, uint64_t number)
{
	auto_close int work = -1;
	char stub[INO_PRESERVE_NAME_MAX];
	bool made = false;
	int r;

	if (keeps && !never_again(dirfd)) {
		work = branch_work_dir(from);
		ino_preserve_name(number, stub);
		if (work < 0)
			return work;
		made = linkat(dirfd, name, work, stub, 0) == 0;
		/* A rename may need no room where a link does. */
		if (!made && is_full(errno) &&
		    renameat2(dirfd, name, work, stub, RENAME_NOREPLACE) == 0)
			return 0;
		if (!made && errno != EEXIST)
			return -errno;
	}
	if (unlinkat(dirfd, name, 0) == 0)
		return 0;
	r = -errno;
	if (made)
		(void)unlinkat(work, stub, 0); /* the first error counts */
	return r;
}

/* Drop the stub of the old inode; an earlier stub stays. */
static void drop_stub(const struct relocation *r)
{
	auto_close int work = branch_work_dir(r->from);
	char stub[INO_PRESERVE_NAME_MAX];

	ino_preserve_name(r->number, stub);
	if (work >= 0 && handle_is_at(work, stub, &r->old))
		(void)unlinkat(work, stub, 0); /* it only counts as a link */
}

/* Make the first @count names again, durably. */
static int uncut(const struct relocation *r, unsigned count)
{
	auto_close int old = handle_open(r->from->root_fd, &r->old, O_PATH);
	const struct relocate_name *n;
	unsigned i;
	int e = old < 0 && count > 0 ? old : 0;

	for (i = 0; i < count && e == 0; i++) {
		n = &r->names[i];
		if (linkat(old, "", n->from_fd, n->name, AT_EMPTY_PATH) < 0)
			e = -errno;
		else
			e = intent_sync_dir(n->from_fd);
	}
	return e;
}

int relocate_cut(struct relocation *r)
{
	unsigned i;
	int e = 0;

	for (i = 0; i < r->count && e == 0; i++)
		e = cut_name(r->from, r->names[i].from_fd, r->names[i].name,
			     r->keeps, r->number);
	if (e == 0)
		return 0;
	if (uncut(r, i - 1) == 0 && r->keeps)
		drop_stub(r);
	return e;
}

/* Empty the stub: its content is on the other branch now. */
static int empty_stub(const struct branch *from, const struct handle *old,
		      uint64_t number)
{
	auto_close int work = branch_work_dir(from), fd = -1;
	char stub[INO_PRESERVE_NAME_MAX];
	struct handle found;
	struct stat st;

	ino_preserve_name(number, stub);
	if (work < 0)
		return work;
	if (handle_get(work, stub, &found) < 0 || !handle_equal(&found, old) ||
	    fstatat(work, stub, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return 0;
	fd = openat(work, stub, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || ftruncate(fd, 0) < 0 ? -errno : 0;
}

int relocate_end(struct relocation *r)
{
	unsigned i;
	int e = 0;

	for (i = 0; i < r->count && e == 0; i++) {
		e = intent_sync_dir(r->names[i].to_fd);
		if (e == 0)
			e = intent_sync_dir(r->names[i].from_fd);
	}
	if (e == 0 && r->keeps)
		e = empty_stub(r->from, &r->old, r->number);
	return e < 0 ? e : strike_move_out(r, false);
}

int relocate_undo(struct relocation *r)
{
	auto_close int work = branch_work_dir(r->to);
	struct relocate_name *n;
	unsigned i;
	int e = strike_move_out(r, true);

	for (i = r->count; i > 0; i--) {
		n = &r->names[i - 1];
		if (n->linked && unlinkat(n->to_fd, n->name, 0) < 0 && e == 0)
			e = -errno;
		n->linked = false;
	}
	if (work >= 0)
		(void)unlinkat(work, r->temporary, 0); /* a sweep will */
	return e;
}

static int open_moved_dir(const struct branch *branch,
			  const struct handle *handle)
{
	return handle_open(branch->root_fd, handle, O_RDONLY | O_DIRECTORY);
}

/* While the temporary name is there, names may be missing. */
static int finish_link(const struct branch *branch, const struct intent *intent)
{
	auto_close int work = branch_work_dir(branch);
	auto_close int to = open_moved_dir(branch, &intent->to_dir);
	int r = 0;

	if (work < 0)
		return work;
	/* All names were made, but perhaps not synced by the killed server. */
	if (!handle_is_at(work, intent->from_name, &intent->moved))
		return to < 0 ? 0 : intent_sync_dir(to);
	if (to < 0)
		return to;
	if (handle_is_at(to, intent->to_name, &intent->moved))
		return intent_sync_dir(to);
	if (linkat(work, intent->from_name, to, intent->to_name, 0) == 0)
		return fsync(to) < 0 ? -errno : 0;
	if (errno != EEXIST)
		return -errno;
	/* A file that it hid is there. */
	r = hidden_files_put(branch, to, intent->to_name);
	if (r == 0 &&
	    linkat(work, intent->from_name, to, intent->to_name, 0) < 0)
		r = -errno;
	return r < 0 || fsync(to) == 0 ? r : -errno;
}

static int finish_cut(const struct branch *from, const struct branch *to,
		      const struct intent *intent)
{
	auto_close int dir = open_moved_dir(from, &intent->other_dir);
	auto_close int copy = handle_open(to->root_fd, &intent->moved, O_PATH);
	uint64_t number = 0;
	struct stat st;
	bool keeps;
	int r = 0;

	if (copy < 0 || inode_number_read(copy, "", &number) < 0)
		return 0; /* it was removed since */
	if (dir >= 0 && handle_is_at(dir, intent->to_name, &intent->replaced)) {
		if (fstatat(dir, intent->to_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		keeps = number == branch_number(from, st.st_ino);
		r = cut_name(from, dir, intent->to_name, keeps, number);
		if (r == 0 && fsync(dir) < 0)
			r = -errno;
	}
	return r < 0 ? r : empty_stub(from, &intent->replaced, number);
}

/* Is @a later than @b? A file system may keep whole seconds only. */
static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec
				      : b->tv_nsec && a->tv_nsec > b->tv_nsec;
}

/*
 * Was the old file written to since it was copied? Nobody can do that while
 * it moves; but a server that has to do without the copy's branch shows the old
 * one.
 */
static bool was_used_since(const struct branch *from, const struct branch *to,
			   const struct intent *intent)
{
	auto_close int old = handle_open(from->root_fd, &intent->replaced,
					 O_PATH);
	auto_close int copy = handle_open(to->root_fd, &intent->moved, O_PATH);
	struct stat of_old, of_copy;
	uint64_t number;

	return old >= 0 && copy >= 0 && fstat(old, &of_old) == 0 &&
	       fstat(copy, &of_copy) == 0 && of_old.st_nlink &&
	       is_later(&of_old.st_mtim, &of_copy.st_mtim) &&
	       inode_number_read(copy, "", &number) == 0 &&
	       !ino_preserve_is_stub(from, number, &intent->replaced);
}

/* Give the old file its name back, if no other file has it. */
static int put_back(const struct branch *from, const struct intent *intent)
{
	auto_close int dir = open_moved_dir(from, &intent->other_dir);
	auto_close int old = handle_open(from->root_fd, &intent->replaced,
					 O_PATH);

	if (dir < 0 || old < 0)
		return 0;
	if (linkat(old, "", dir, intent->to_name, AT_EMPTY_PATH) < 0 &&
	    errno != EEXIST)
		return -errno;
	return fsync(dir) < 0 ? -errno : 0;
}

static int drop_recorded_copy(const struct branch *to,
			      const struct intent *intent)
{
	auto_close int dir = open_moved_dir(to, &intent->to_dir);

	if (dir < 0 || !handle_is_at(dir, intent->to_name, &intent->moved))
		return 0;
	if (unlinkat(dir, intent->to_name, 0) < 0 || fsync(dir) < 0)
		return -errno;
	return 0;
}

int relocate_finish(const struct branch_table *table, struct branch *branch,
		    const struct intent *intent)
{
	struct branch *from = NULL;
	int r;

	if (intent->other < table->count &&
	    !(table->items[intent->other]->flags & BRANCH_GONE))
		from = table->items[intent->other];
	if (from && was_used_since(from, branch, intent)) {
		r = branch_report(from, put_back(from, intent));
		if (r == 0)
			r = branch_report(branch,
					  drop_recorded_copy(branch, intent));
		return r < 0 ? r : 1;
	}
	r = branch_report(branch, finish_link(branch, intent));
	if (r < 0 || !from)
		return r == -ESTALE ? 0 : r; /* its directory went since */
	return branch_report(from, finish_cut(from, branch, intent));
}

void relocate_sweep(const struct branch *branch)
{
	branch_work_sweep(branch, PREFIX);
}
