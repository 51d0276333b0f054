/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended attributes of every namespace, ACLs among them. Our own are hidden
 * (trusted.tributary.*), or can be read but are in no list
 * (union/ops/explain.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/change/caller.h"
#include "union/change/place.h"
#include "union/node/dir_attr_lock.h"
#include "union/ops/dot_union.h"
#include "union/ops/explain.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/sys/proc_path.h"
#include "union/view/dir_change.h"

#define OUR_PREFIX "trusted.tributary."

static bool is_ours(const char *name)
{
	return strncmp(name, OUR_PREFIX, strlen(OUR_PREFIX)) == 0;
}

/* Where a request's attributes are: a path, and what keeps it valid. */
struct place_of_xattr {
	char path[PROC_PATH_MAX];
	int fd;
	struct dir_fd *dir;
};

static int xattr_place(struct unionfs *fs, struct copy *copy, bool is_dir,
		       struct place_of_xattr *ret)
{
	int r;

	ret->fd = -1;
	ret->dir = NULL;
	if (is_dir) {
		r = unionfs_dir_fd(fs, copy, &ret->dir);
		if (r == 0)
			proc_path(ret->path, ret->dir->fd, "");
		return r;
	}
	ret->fd = unionfs_open_copy(fs, copy, O_PATH | O_NOFOLLOW);
	if (ret->fd < 0)
		return ret->fd;
	proc_path(ret->path, ret->fd, "");
	return 0;
}

static void place_done(struct place_of_xattr *place)
{
	fd_close(place->fd);
	dir_fd_put(place->dir);
}

/* Find the attributes of a directory that was removed and is still in use. */
static int orphan_place(const struct node *node, struct place_of_xattr *ret)
{
	int fd = atomic_load(&node->orphan_fd);

	if (fd < 0)
		return -ESTALE;
	proc_path(ret->path, fd, "");
	ret->fd = -1;
	ret->dir = NULL;
	return 0;
}

/* Find the attributes that are shown: those of the first copy. */
static int shown_place(struct unionfs *fs, const struct node *node,
		       struct place_of_xattr *ret)
{
	struct copy *copy = node_first(node);

	return copy ? xattr_place(fs, copy, S_ISDIR(node->type), ret)
		    : orphan_place(node, ret);
}

static ssize_t get_value(struct unionfs *fs, const struct node *node,
			 const char *name, char *value, size_t size)
{
	struct place_of_xattr place;
	ssize_t n = shown_place(fs, node, &place);

	if (n < 0)
		return n;
	n = getxattr(place.path, name, value, size);
	if (n < 0)
		n = -errno;
	place_done(&place);
	return n;
}

struct change {
	const char *name;
	const char *value; /* NULL: remove it */
	size_t size;
	int flags;
	bool again; /* may be done already: see note_before() */
};

static int change_at(const char *path, const struct change *change)
{
	int r = change->value ? setxattr(path, change->name, change->value,
					 change->size, change->flags)
			      : removexattr(path, change->name);

	return r < 0 ? -errno : 0;
}

/* Bring the outcome about, whatever was there. */
static int change_plainly(const char *path, const struct change *change)
{
	struct change plain = *change;
	int r;

	plain.flags = 0;
	r = change_at(path, &plain);
	return r == -ENODATA ? 0 : r;
}

static int change_first_at(const char *path, const struct change *change)
{
	return change->again ? change_plainly(path, change)
			     : change_at(path, change);
}

/*
 * Is it a label that the branch cannot keep? It is left out there, as when it
 * is copied; an ACL is not.
 */
static bool is_left_out(const struct change *change, int r)
{
	return r == -EOPNOTSUPP &&
	       strncmp(change->name, "system.posix_acl", 16) != 0;
}

/*
 * Bring about on another copy the outcome of the first: now, or where there is
 * no room for that when something is to be made in it.
 */
static int change_other(struct copy *copy, const char *path,
			const struct change *change)
{
	int r = change_plainly(path, change);

	if (is_left_out(change, r))
		return 0;
	if (r != -ENOSPC && r != -EDQUOT)
		return r;
	copy_set(copy, COPY_ALIGNED, false);
	return 0;
}

static int change_copy(struct dir_change *all, struct copy *copy, bool is_dir,
		       bool is_first, const struct change *change)
{
	struct place_of_xattr place;
	int r = xattr_place(all->fs, copy, is_dir, &place);

	if (r == -ESTALE && !is_first)
		return 0; /* this copy is no more */
	if (r < 0)
		return r;
	if (is_dir)
		r = dir_change_note(all, copy, place.dir->fd);
	if (r == 0)
		r = is_first ? change_first_at(place.path, change)
			     : change_other(copy, place.path, change);
	place_done(&place);
	return r;
}

static int change_all_copies(struct unionfs *fs, const struct node *node,
			     const struct change *change)
{
	struct copy *first = node_first(node), *copy;
	struct place_of_xattr place;
	struct dir_change all;
	int r = first ? unionfs_writable(fs, first)
		      : orphan_place(node, &place);

	if (!first)
		return r < 0 ? r : change_first_at(place.path, change);
	if (r == 0 && S_ISDIR(node->type))
		r = unionfs_changeable(node);
	if (r == 0)
		r = dir_change_begin(&all, fs, node, change->name, false);
	if (r < 0)
		return r;
	for (copy = first; copy && r == 0; copy = copy_next(copy))
		if (copy == first || unionfs_writable(fs, copy) == 0)
			r = change_copy(&all, copy, S_ISDIR(node->type),
					copy == first, change);
	dir_change_end(&all, r);
	return r;
}

/*
 * A new access ACL clears setgid where the caller is not of the group and not
 * root. The branch knows only that we are root.
 */
static int kill_setgid(struct request *request, const struct node *node)
{
	struct unionfs *fs = request->fs;
	struct place_of_xattr place;
	struct copy *copy;
	struct stat st;
	int r = 0;

	if (request->uid == 0)
		return 0;
	for (copy = node_first(node); copy && r == 0; copy = copy_next(copy)) {
		if (unionfs_writable(fs, copy) < 0 ||
		    xattr_place(fs, copy, S_ISDIR(node->type), &place) < 0)
			continue;
		if (stat(place.path, &st) < 0 ||
		    (st.st_mode & S_ISGID &&
		     !caller_is_in_group(request, st.st_gid) &&
		     chmod(place.path, st.st_mode & 07777 & ~S_ISGID) < 0))
			r = -errno;
		place_done(&place);
	}
	return r;
}

static int change_and_kill(struct request *request, const struct node *node,
			   const struct change *change)
{
	int r;

	act_as_spender(request);
	do
		r = change_all_copies(request->fs, node, change);
	while (act_as_unlimited(request, r));
	act_as_root();
	if (r == 0 && change->value &&
	    strcmp(change->name, "system.posix_acl_access") == 0)
		r = kill_setgid(request, node);
	return r;
}

/*
 * Note whether the attribute is there, for a change that fails when it is done
 * twice. See reply_cache.h.
 */
static void note_before(struct unionfs *fs, struct request *request,
			const struct node *node, struct change *change)
{
	bool makes = change->value && change->flags & XATTR_CREATE;
	struct reply_cache_noted noted;
	ssize_t n;

	change->again = reply_cache_noted(request, &noted);
	if (!reply_cache_wants_note(request) || (change->value && !makes))
		return;
	n = get_value(fs, node, change->name, NULL, 0);
	if (makes ? n == -ENODATA : n >= 0)
		reply_cache_note(request, makes ? REPLY_CACHE_ABSENT
						: REPLY_CACHE_PRESENT);
}

static int change_node(struct request *request, const struct node *node,
		       struct change *change)
{
	struct dir_attr_lock turn;
	int r;

	note_before(request->fs, request, node, change);
	if (!S_ISDIR(node->type))
		return change_and_kill(request, node, change);
	dir_attr_lock_take(&turn, node->id);
	r = change_and_kill(request, node, change);
	dir_attr_lock_give(&turn);
	return r;
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags)
{
	struct request *request = request_of(req);
	struct change change = {name, value, size, flags, false};
	struct node *node;
	int r;

	if (ino == DOT_UNION_ID) {
		op_reply(request,
			 dot_union_set(request->fs, name, value, size));
		return;
	}
	node = op_node(request, ino);
	if (!node)
		return;
	r = is_ours(name) || explain_has(name)
		    ? -EPERM
		    : change_node(request, node, &change);
	op_reply(request, r);
}

static void note_removed(struct unionfs *fs, struct node *node,
			 const char *name)
{
	if (strcmp(name, "security.capability") != 0)
		return;
	node_lock(&fs->nodes, node);
	node->uncapped = true;
	node_unlock(&fs->nodes, node);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	struct change change = {.name = name};
	int r;

	if (!node)
		return;
	r = is_ours(name) || explain_has(name)
		    ? -EPERM
		    : change_node(request, node, &change);
	if (r == 0)
		note_removed(fs, node, name);
	op_reply(request, r);
}

/* @size 0: the caller only asks for the length. */
static void reply_value(struct request *request, const char *value,
			ssize_t length, size_t size)
{
	if (length < 0)
		op_reply(request, (int)length);
	else if (!size)
		fuse_reply_xattr(request->req, (size_t)length);
	else if ((size_t)length > size)
		fuse_reply_err(request->req, ERANGE);
	else
		fuse_reply_buf(request->req, value, (size_t)length);
}

/* Reply with our own text and free it. */
static void reply_text(struct request *request, char *text, ssize_t length,
		       size_t size)
{
	reply_value(request, text, length, size);
	free(text);
}

/*
 * Is this what the kernel asks before a write? A caller that asks for the
 * length looks the same.
 */
static bool asks_before_a_write(const char *name, size_t size)
{
	return !size && strcmp(name, "security.capability") == 0;
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	auto_free char *value = NULL;
	struct node *node;
	char *text = NULL;
	ssize_t n;

	if (ino == DOT_UNION_ID) {
		n = dot_union_get(fs, name, &text);
		reply_text(request, text, n, size);
		return;
	}
	node = op_node(request, ino);
	if (!node)
		return;
	if (explain_has(name)) {
		n = explain_get(fs, node, name, &text);
		reply_text(request, text, n, size);
		return;
	}
	value = size ? malloc(size) : NULL;
	if (size && !value) {
		fuse_reply_err(request->req, ENOMEM);
	} else if (is_ours(name) ||
		   (fs->hides_capabilities &&
		    strcmp(name, "security.capability") == 0)) {
		fuse_reply_err(request->req, ENODATA);
	} else {
		n = get_value(fs, node, name, value, size);
		if (n != -ENODATA || !asks_before_a_write(name, size) ||
		    !room_holds(fs->room, request->req, node))
			reply_value(request, value, n, size);
	}
}

/*
 * Take our names, and those that are not for the caller, out of a list; return
 * its new length.
 */
static ssize_t filter_names(struct request *request, char *names,
			    ssize_t length)
{
	ssize_t at = 0, kept = 0, size;
	int admin = -1; /* not asked yet */

	for (; at < length; at += size) {
		size = (ssize_t)strlen(names + at) + 1;
		if (is_ours(names + at))
			continue;
		if (strncmp(names + at, "trusted.", 8) == 0) {
			if (admin < 0)
				admin = caller_is_admin(request);
			if (!admin)
				continue;
		}
		memmove(names + kept, names + at, (size_t)size);
		kept += size;
	}
	return kept;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct request *request = request_of(req);
	auto_free char *names = NULL;
	struct place_of_xattr place;
	struct node *node;
	ssize_t n;
	int r;

	if (ino == DOT_UNION_ID) {
		n = dot_union_list(&names);
		reply_value(request, names, n, size);
		return;
	}
	node = op_node(request, ino);
	if (!node)
		return;
	names = malloc(XATTR_LIST_MAX);
	r = names ? shown_place(request->fs, node, &place) : -ENOMEM;
	if (r < 0) {
		op_reply(request, r);
		return;
	}
	n = listxattr(place.path, names, XATTR_LIST_MAX);
	n = n < 0 ? -errno : filter_names(request, names, n);
	place_done(&place);
	reply_value(request, names, n, size);
}
