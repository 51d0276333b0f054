/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/saved_nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/wire/fnv.h"
#include "union/node/node_copies.h"
#include "union/recover/saved_nodes_file.h"
#include "union/state/state.h"

#define PARENT    "/var/lib/tributary"
#define DIRECTORY PARENT "/handles"
#define NAME_SIZE 17           /* bytes with NUL */
#define KEPT_S    (90 * 86400) /* since the last unmount */

/* Name the file by the branches in their order. */
static void name_of(const struct unionfs *fs, char *ret)
{
	struct branch_identity all[BRANCH_MAX];
	unsigned i, count = fs->branches.count;

	for (i = 0; i < count; i++)
		all[i] = fs->branches.items[i]->identity;
	(void)snprintf(ret, NAME_SIZE, "%016llx",
		       (unsigned long long)fnv1a(
			       all, count * sizeof(*all))); /* fits */
}

/* ---- writing ---- */

static bool save_node(const struct node *node, struct saved_node *ret)
{
	const struct copy *copy = node ? node_first(node) : NULL;

	if (!copy || atomic_load(&node->buried_fd) >= 0)
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->generation = node->generation;
	ret->ino = node->ino;
	ret->id = node->id;
	ret->type = node->type;
	ret->branch = copy->branch;
	ret->handle_type = copy->handle_type;
	ret->handle_bytes = copy->handle_bytes;
	memcpy(ret->handle, copy->handle, copy->handle_bytes);
	return true;
}

static int make_file(struct unionfs *fs, struct saved_nodes *ret)
{
	struct node_table *table = &fs->nodes;
	uint64_t id, count = 0, used = node_ids(table);
	unsigned i, branches = fs->branches.count;
	int r = saved_nodes_new(branches, table->nodes, ret);

	if (r < 0)
		return r;
	for (i = 0; i < branches; i++)
		ret->identities[i] = fs->branches.items[i]->identity;
	for (id = NODE_ROOT_ID; id < used && count < table->nodes; id++)
		count += save_node(node_get(table, id), ret->nodes + count);
	saved_nodes_encode(ret, count, table->state->header->next_generation);
	return 0;
}

/*
 * Remove the files that nobody asked for in KEPT_S: their branches are no more.
 */
static void prune(int dir)
{
	auto_close int own = openat(dir, ".",
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = own < 0 ? NULL : fdopendir(own);
	time_t oldest = time(NULL) - KEPT_S;
	const struct dirent *entry;
	struct stat st;

	if (!stream)
		return;
	(void)take_fd(&own);
	while ((entry = readdir(stream)))
		if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
			    0 &&
		    S_ISREG(st.st_mode) && st.st_mtime < oldest)
			(void)unlinkat(dir, entry->d_name, 0);
	(void)closedir(stream); /* was only read */
}

static int write_file(const struct saved_nodes *saved, const char *name)
{
	auto_close int dir = -1, fd = -1;
	char new[NAME_SIZE + 4];
	int r;

	(void)mkdir(PARENT, 0755); /* a failure is seen below */
	(void)mkdir(DIRECTORY, 0700);
	dir = open(DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	(void)snprintf(new, sizeof(new), "%s.new", name); /* fits */
	fd = openat(dir, new,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, saved->data, saved->size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, new, dir, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, new, 0); /* it is not whole */
	prune(dir);
	return r;
}

void saved_nodes_write(struct unionfs *fs)
{
	struct saved_nodes saved = {0};
	char name[NAME_SIZE];
	int r = make_file(fs, &saved);

	if (r == 0) {
		name_of(fs, name);
		r = write_file(&saved, name);
	}
	free(saved.data);
	if (r < 0)
		log_warning("'%s': file handles of it are not valid at its "
			    "next mount: " DIRECTORY ": %s",
			    fs->mountpoint, strerror(-r));
}

/* ---- reading ---- */

static bool is_known(const struct unionfs *fs, const struct saved_nodes *saved,
		     const struct saved_node *node)
{
	unsigned i = node->branch;

	return saved_node_ok(saved, node) && i < fs->branches.count &&
	       !(fs->branches.items[i]->flags & BRANCH_GONE) &&
	       branch_identity_equal(&saved->identities[i],
				     &fs->branches.items[i]->identity);
}

static void put_node(struct state *state, const struct saved_node *saved)
{
	struct state_header *header = state->header;
	struct node *node = &state->nodes[saved->id];
	struct copy *copy = &state->copies[header->copies_used];
	struct handle handle = {.length = saved->handle_bytes,
				.type = saved->handle_type};

	if (atomic_load(&node->generation))
		return;
	memcpy(handle.data, saved->handle, saved->handle_bytes);
	node->id = saved->id;
	node->ino = saved->ino;
	node->type = saved->type;
	copy_fill(copy, saved->branch, &handle);
	copy_belong(copy, node);
	atomic_store(&copy->generation, saved->generation);
	atomic_store(&node->generation, saved->generation);
	atomic_fetch_add(&header->copies_used, 1);
	if (saved->id >= header->nodes_used)
		atomic_store(&header->nodes_used, saved->id + 1);
	/* Without a supervisor nothing else marks the branch as used. */
	atomic_store(&state->branches[saved->branch].used, STATE_BRANCH_USED);
}

static bool has_root(const struct state *state)
{
	return atomic_load(&state->nodes[NODE_ROOT_ID].generation) &&
	       S_ISDIR(state->nodes[NODE_ROOT_ID].type);
}

bool saved_nodes_read(struct unionfs *fs)
{
	struct state *state = fs->nodes.state;
	char name[NAME_SIZE], path[sizeof(DIRECTORY) + NAME_SIZE];
	struct saved_nodes saved;
	auto_free char *data = NULL;
	size_t size;
	uint64_t i;

	name_of(fs, name);
	(void)snprintf(path, sizeof(path), DIRECTORY "/%s", name); /* fits */
	if (file_read(AT_FDCWD, path, SAVED_NODES_SIZE_MAX, &data, &size,
		      NULL) < 0 ||
	    !saved_nodes_decode(data, size, &saved))
		return false;
	/* The root comes first. Without it there is nothing. */
	for (i = 0; i < saved.count; i++)
		if (is_known(fs, &saved, &saved.nodes[i]) &&
		    (saved.nodes[i].id == NODE_ROOT_ID || has_root(state)))
			put_node(state, &saved.nodes[i]);
	if (state->header->next_generation < saved.next_generation)
		state->header->next_generation = saved.next_generation;
	return has_root(state);
}
