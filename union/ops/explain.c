/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/explain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/wire/fnv.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/config/branch_spec.h"
#include "union/live/control_status.h"
#include "union/view/branch_stats.h"
#include "union/view/lookup.h"

#define MERGERFS_PREFIX "user.mergerfs."

static ssize_t take_string(char *text, char **ret)
{
	*ret = text;
	return text ? (ssize_t)strlen(text) : -ENOMEM;
}

/* Make text of @object, and free it: its length, or -ENOMEM. */
static ssize_t take_json(struct json_object *object, char **ret)
{
	const char *text = json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *copy = text ? strdup(text) : NULL;

	json_object_put(object);
	if (!copy)
		return -ENOMEM;
	*ret = copy;
	return (ssize_t)strlen(copy);
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return "directory";
	case S_IFREG: return "file";
	case S_IFLNK: return "link";
	default: return "special";
	}
}

static void add_copy_json(struct json_object *copies,
			  const struct branch *branch, const char *path,
			  const struct stat *st, bool shown)
{
	struct json_object *one = json_object_new_object();
	auto_free char *full = NULL;

	if (asprintf(&full, "%s%s%s", branch->path, *path ? "/" : "", path) < 0)
		full = NULL;
	json_add(one, "branch", json_object_new_int((int)branch->id));
	if (full)
		json_add(one, "path", json_object_new_string(full));
	json_add(one, "type", json_object_new_string(type_name(st->st_mode)));
	json_add(one, "size", json_object_new_int64(st->st_size));
	json_add(one, "modified", json_object_new_int64(st->st_mtim.tv_sec));
	json_add(one, "shown", json_object_new_boolean(shown));
	(void)json_object_array_add(copies, one);
}

/* Open the directory of @copy: a descriptor that is held, and its path. */
static int open_copy_dir(struct unionfs *fs, struct copy *copy,
			 struct dir_fd **ret, char *path)
{
	int r = unionfs_dir_fd(fs, copy, ret);

	return r < 0 ? r
		     : branch_path_of(branch_of(fs, copy), (*ret)->fd, path);
}

/* Tell all files called @name in @dir. Directories of that name are one. */
static ssize_t explain_name(struct unionfs *fs, const struct node *dir,
			    const char *name, char **ret)
{
	struct json_object *object = json_object_new_object();
	struct json_object *copies = json_object_new_array();
	struct hit *hits = NULL;
	int i, n = lookup_all(fs, dir, name, &hits);
	struct copy *copy;

	for (copy = node_first(dir); copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *fd = NULL;
		char path[PATH_MAX], full[PATH_MAX + NAME_MAX + 2];

		for (i = 0; i < n && hits[i].dir != copy; i++)
			;
		if (i >= n || open_copy_dir(fs, copy, &fd, path) < 0)
			continue;
		(void)snprintf(full, sizeof(full), "%s%s%s", path,
			       *path ? "/" : "", name); /* fits */
		add_copy_json(copies, branch_of(fs, copy), full, &hits[i].st,
			      i == 0 || (S_ISDIR(hits[0].st.st_mode) &&
					 S_ISDIR(hits[i].st.st_mode)));
	}
	if (n > 0)
		lookup_hits_done(hits, n);
	json_add(object, "copies", copies);
	return take_json(object, ret);
}

/* Find the name with @hash in one copy of a directory. False: it has none. */
static bool find_in(int fd, uint64_t hash, char *ret)
{
	DIR *stream = fdopendir(fd);
	const struct dirent *entry = NULL;
	size_t length;

	if (!stream) {
		fd_close(fd);
		return false;
	}
	while ((entry = readdir(stream))) {
		length = strlen(entry->d_name);
		if (length > EXPLAIN_NAME_MAX &&
		    fnv1a(entry->d_name, length) == hash)
			break;
	}
	if (entry)
		(void)strcpy(ret, entry->d_name); /* NAME_MAX fits */
	(void)closedir(stream);
	return entry;
}

static ssize_t explain_long(struct unionfs *fs, const struct node *dir,
			    const char *text, char **ret)
{
	struct copy *copy = node_first(dir);
	char name[NAME_MAX + 1];
	uint64_t hash;
	char *end;
	int fd;

	hash = strtoull(text, &end, 16);
	if (end != text + 16 || *end)
		return -ENODATA;
	for (; copy; copy = copy_next(copy)) {
		fd = unionfs_open_copy(fs, copy,
				       O_RDONLY | O_DIRECTORY | O_NOATIME);
		if (fd >= 0 && find_in(fd, hash, name))
			return explain_name(fs, dir, name, ret);
	}
	return take_string(strdup("{\"copies\":[]}"), ret);
}

/* Tell why @branch is not simply next: "" when it is. */
static const char *reason(const struct policy *policy,
			  const struct policy_branch *branch)
{
	if (!branch_usable(branch->id))
		return "it failed";
	if (branch->flags & BRANCH_DRAINING)
		return "its files are moved away";
	if (branch->flags & BRANCH_RO)
		return "it is read-only";
	if (branch->flags & BRANCH_NC)
		return "it takes no new names (nc)";
	if (!branch->available)
		return "it is full";
	if (!policy_has_room(branch))
		return "it has less free space than its minfreespace";
	if (policy->scope != POLICY_ANYWHERE && !branch->has_parent)
		return "the directory is not on it";
	return "";
}

static struct json_object *explain_branch(const struct unionfs *fs,
					  const struct policy *policy,
					  const struct policy_branch *branch)
{
	struct json_object *one = json_object_new_object();
	const struct branch *from = fs->branches.items[branch->id];
	char words[BRANCH_SPEC_WORDS_MAX];

	json_add(one, "branch", json_object_new_int((int)branch->id));
	json_add(one, "path", json_object_new_string(from->path));
	json_add(one, "words",
		 json_object_new_string(branch_spec_format(words, branch->flags,
							   from->min_free)));
	json_add(one, "has_directory",
		 json_object_new_boolean(branch->has_parent));
	json_add(one, "available", json_object_new_uint64(branch->available));
	json_add(one, "used", json_object_new_uint64(branch->used));
	json_add(one, "min_free", json_object_new_uint64(branch->min_free));
	json_add(one, "why", json_object_new_string(reason(policy, branch)));
	return one;
}

/*
 * List the branches in the order in which they are tried, then those left out.
 */
static struct json_object *next_json(struct unionfs *fs, const struct node *dir,
				     const struct policy *policy)
{
	struct json_object *list = json_object_new_array(), *one;
	const struct policy_branch *branch;
	struct branch_stats all, stats;
	unsigned i, order = 0;

	branch_stats_begin(&all, fs, dir, policy);
	branch_stats_begin(&stats, fs, dir, policy);
	while ((branch = branch_stats_next(&stats, fs, dir))) {
		one = explain_branch(fs, policy, branch);
		json_add(one, "order", json_object_new_int((int)++order));
		(void)json_object_array_add(list, one);
	}
	for (i = 0; i < all.count; i++)
		if (all.rest[i].flags & (BRANCH_RO | BRANCH_NC) &&
		    !(all.rest[i].flags & BRANCH_GONE))
			(void)json_object_array_add(
				list, explain_branch(fs, policy, &all.rest[i]));
	return list;
}

static ssize_t explain_dir(struct unionfs *fs, const struct node *dir,
			   char **ret)
{
	const struct policy *policy = policy_of(&fs->policies, POLICY_CREATE);
	struct json_object *object = json_object_new_object();
	struct json_object *copies = json_object_new_array();
	struct copy *copy;

	for (copy = node_first(dir); copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *fd = NULL;
		char path[PATH_MAX];
		struct stat st;

		if (open_copy_dir(fs, copy, &fd, path) == 0 &&
		    fstat(fd->fd, &st) == 0)
			add_copy_json(copies, branch_of(fs, copy), path, &st,
				      true);
	}
	json_add(object, "copies", copies);
	json_add(object, "policy", json_object_new_string(policy->name));
	json_add(object, "help", json_object_new_string(policy->help));
	json_add(object, "by_chance",
		 json_object_new_boolean(policy->choice == POLICY_WEIGHTED ||
					 policy->choice == POLICY_RANDOM));
	json_add(object, "next", next_json(fs, dir, policy));
	return take_json(object, ret);
}

/* Get the branch of the copy that is seen, and its path there in @path. */
static int shown_path(struct unionfs *fs, const struct node *node,
		      struct branch **ret, char *path)
{
	struct copy *copy = node_first(node);
	auto_close int fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);

	if (!copy || fd < 0)
		return -ENODATA;
	*ret = branch_of(fs, copy);
	return branch_path_of(*ret, fd, path) < 0 ? -ENODATA : 0;
}

/* List all paths: "/srv/a/x\0/srv/b/x\0". */
static ssize_t all_paths(const struct unionfs *fs, const char *path, char **ret)
{
	unsigned i, count = fs->branches.count;
	auto_free char *list = NULL;
	size_t used = 0, size = 0;
	char *longer;

	for (i = 0; i < count; i++) {
		const struct branch *branch = fs->branches.items[i];
		auto_close int fd = submount_open_none(branch->root_fd,
						       *path ? path : ".",
						       O_PATH | O_NOFOLLOW);

		if (fd < 0)
			continue;
		size = used + strlen(branch->path) + strlen(path) + 2;
		longer = realloc(list, size);
		if (!longer)
			return -ENOMEM;
		list = longer;
		used += (size_t)sprintf(list + used, "%s/%s", branch->path,
					path) +
			1; /* @size is enough */
	}
	*ret = take_ptr(list);
	return *ret ? (ssize_t)used : -ENODATA;
}

static ssize_t explain_path(struct unionfs *fs, const struct node *node,
			    const char *what, char **ret)
{
	struct branch *branch;
	char path[PATH_MAX], *text = NULL;
	int r = shown_path(fs, node, &branch, path);

	if (r < 0)
		return r;
	if (strcmp(what, "allpaths") == 0)
		return all_paths(fs, path, ret);
	if (strcmp(what, "basepath") == 0)
		return take_string(strdup(branch->path), ret);
	if (strcmp(what, "relpath") == 0)
		r = asprintf(&text, "/%s", path);
	else
		r = asprintf(&text, "%s/%s", branch->path, path);
	return take_string(r < 0 ? NULL : text, ret);
}

static bool is_path(const char *what)
{
	return strcmp(what, "basepath") == 0 || strcmp(what, "relpath") == 0 ||
	       strcmp(what, "fullpath") == 0 || strcmp(what, "allpaths") == 0;
}

bool explain_has(const char *name)
{
	if (strncmp(name, EXPLAIN_PREFIX, strlen(EXPLAIN_PREFIX)) == 0)
		return true;
	return strncmp(name, MERGERFS_PREFIX, strlen(MERGERFS_PREFIX)) == 0 &&
	       is_path(name + strlen(MERGERFS_PREFIX));
}

static ssize_t explain_union(struct unionfs *fs, const char *what, char **ret)
{
	if (strcmp(what, "stats") == 0)
		return take_string(control_stats(fs), ret);
	if (strcmp(what, "status") == 0)
		return take_string(control_status(fs, fs->mountpoint), ret);
	if (strcmp(what, "control") == 0 && fs->control_path)
		return take_string(strdup(fs->control_path), ret);
	return -ENODATA;
}

ssize_t explain_get(struct unionfs *fs, struct node *node, const char *name,
		    char **ret)
{
	bool ours = strncmp(name, EXPLAIN_PREFIX, strlen(EXPLAIN_PREFIX)) == 0;
	const char *what = name +
			   strlen(ours ? EXPLAIN_PREFIX : MERGERFS_PREFIX);
	ssize_t n = -ENODATA;

	if (is_path(what))
		return explain_path(fs, node, what, ret);
	if (ours && node->id == NODE_ROOT_ID)
		n = explain_union(fs, what, ret);
	if (!ours || n != -ENODATA || !S_ISDIR(node->type))
		return n;
	if (strcmp(what, "explain") == 0)
		return explain_dir(fs, node, ret);
	if (strncmp(what, "explain.", 8) == 0 && what[8] &&
	    !strchr(what + 8, '/'))
		return explain_name(fs, node, what + 8, ret);
	if (strncmp(what, "explain-long.", 13) == 0)
		return explain_long(fs, node, what + 13, ret);
	return n;
}
