/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/saved_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/node/node_copies.h"
#include "union/recover/saved_nodes_file.h"
#include "union/state/state.h"
#include "union/sys/proc_path.h"

/* Names in BRANCH_WORK_DIR. */
#define NAME     "handles"
#define NAME_NEW NAME ".new"

/* ---- writing ---- */

static bool save_node(const struct node *node, struct saved_node *ret)
{
	const struct copy *copy = node ? node_first(node) : NULL;

	if (!copy || atomic_load(&node->orphan_fd) >= 0)
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

static int make_saved_file(struct unionfs *fs, struct saved_nodes *ret)
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

static int write_file(const struct saved_nodes *saved,
		      const struct branch *branch)
{
	auto_close int dir = branch_work_dir(branch), fd = -1;
	int r;

	if (dir < 0)
		return dir;
	(void)unlinkat(dir, NAME_NEW, 0); /* of a server killed here */
	fd = openat(dir, NAME_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, saved->data, saved->size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, NAME_NEW, dir, NAME) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, NAME_NEW, 0); /* the file is not whole */
	return r;
}

static bool is_writable(const struct branch *branch)
{
	return !(branch->flags & (BRANCH_RO | BRANCH_GONE)) &&
	       branch_is_well(branch);
}

/* Write to the first branch that takes it. 0, too, if none is writable. */
static int write_somewhere(struct unionfs *fs, const struct saved_nodes *saved)
{
	const struct branch *branch;
	unsigned i;
	int r = 0;

	for (i = 0; i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		if (!is_writable(branch))
			continue;
		r = write_file(saved, branch);
		if (r == 0)
			break;
	}
	return r;
}

void saved_nodes_write(struct unionfs *fs)
{
	struct saved_nodes saved = {0};
	int r = make_saved_file(fs, &saved);

	if (r == 0)
		r = write_somewhere(fs, &saved);
	free(saved.data);
	if (r < 0)
		log_warning("'%s': file handles of it are not valid at its "
			    "next mount: write '" BRANCH_WORK_DIR "/" NAME
			    "' on a branch: %s",
			    fs->mountpoint, strerror(-r));
}

/* ---- reading ---- */

static bool is_saved(const struct unionfs *fs, const struct saved_nodes *saved,
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

/* Tell whether nobody else could write @fd: a handle opens any file. */
static bool is_private(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* Tell whether @saved is of this union: without its root it is of no use. */
static bool has_root(const struct unionfs *fs, const struct saved_nodes *saved)
{
	const struct saved_node *first = saved->nodes;

	return saved->count && first->id == NODE_ROOT_ID &&
	       S_ISDIR(first->type) && is_saved(fs, saved, first);
}

/* Read the file of @branch; false: it has none that can be used. */
static bool read_file(const struct unionfs *fs, const struct branch *branch,
		      struct saved_nodes *ret)
{
	auto_close int dir = branch_work_dir_at(branch->root_fd, false);
	auto_close int fd = -1;
	auto_free char *data = NULL;
	char path[PROC_PATH_MAX];
	size_t size;

	if (dir >= 0)
		fd = openat(dir, NAME,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || !is_private(fd) ||
	    file_read(AT_FDCWD, proc_path(path, fd, ""), SAVED_NODES_SIZE_MAX,
		      &data, &size, NULL) < 0 ||
	    !saved_nodes_decode(data, size, ret) || !has_root(fs, ret))
		return false;
	(void)take_ptr(data); /* @ret has it */
	return true;
}

/* Read the newest file: a branch that was once ro or full has an old one. */
static void find_newest(const struct unionfs *fs, struct saved_nodes *ret)
{
	const struct branch *branch;
	struct saved_nodes saved;
	unsigned i;

	for (i = 0; i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		if (branch->flags & BRANCH_GONE ||
		    !read_file(fs, branch, &saved))
			continue;
		if (ret->data && ret->next_generation >= saved.next_generation)
			free(saved.data);
		else {
			free(ret->data);
			*ret = saved;
		}
	}
}

bool saved_nodes_read(struct unionfs *fs)
{
	struct state *state = fs->nodes.state;
	struct saved_nodes saved = {0};
	uint64_t i;

	find_newest(fs, &saved);
	for (i = 0; i < saved.count; i++)
		if (is_saved(fs, &saved, &saved.nodes[i]))
			put_node(state, &saved.nodes[i]);
	if (state->header->next_generation < saved.next_generation)
		state->header->next_generation = saved.next_generation;
	free(saved.data);
	return state_has_root(state);
}
