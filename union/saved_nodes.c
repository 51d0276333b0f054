/* SPDX-License-Identifier: Apache-2.0 */
#include "union/saved_nodes.h"

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
#include "base/crc32c.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/log.h"
#include "union/node_copies.h"
#include "union/state.h"

#define PARENT    "/var/lib/tributary"
#define DIRECTORY PARENT "/handles"
#define NAME_SIZE 17           /* bytes with NUL */
#define KEPT_S    (90 * 86400) /* since the last unmount */
#define MAGIC     UINT64_C(0x31736e6f69627274)
#define SIZE_MOST (UINT64_C(1) << 34) /* bytes of it */

/* It is read on the machine that wrote it, or one of its kind. */
struct saved_header {
	uint64_t magic;
	uint64_t count;
	uint64_t next_generation;
	uint32_t branches; /* an identity each follows, then the nodes */
	uint32_t crc;      /* of all that follows */
};

struct saved_node {
	uint64_t generation, ino;
	uint32_t id;
	uint16_t type;
	uint8_t branch;
	uint8_t handle_type, handle_bytes;
	uint8_t handle[HANDLE_MAX];
};

/* All of a file: its header is at the start. */
struct content {
	char *data; /* owned */
	size_t size;
};

static struct saved_header *header_of(const struct content *content)
{
	return (void *)content->data;
}

static struct branch_identity *identities_of(const struct content *content)
{
	return (void *)(header_of(content) + 1);
}

static struct saved_node *nodes_of(const struct content *content)
{
	return (void *)(identities_of(content) + header_of(content)->branches);
}

static size_t size_of(uint64_t branches, uint64_t count)
{
	return sizeof(struct saved_header) +
	       branches * sizeof(struct branch_identity) +
	       count * sizeof(struct saved_node);
}

static uint32_t sum_of(const struct content *content)
{
	return crc32c(0, content->data + sizeof(struct saved_header),
		      content->size - sizeof(struct saved_header));
}

/* Of the branches in their order. */
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

static int make_content(struct unionfs *fs, struct content *ret)
{
	struct node_table *table = &fs->nodes;
	uint64_t id, used = node_ids(table);
	unsigned i, branches = fs->branches.count;
	struct saved_header *header;

	ret->data = calloc(1, size_of(branches, table->nodes));
	if (!ret->data)
		return -ENOMEM;
	header = header_of(ret);
	header->magic = MAGIC;
	header->branches = branches;
	header->next_generation = table->state->header->next_generation;
	for (i = 0; i < branches; i++)
		identities_of(ret)[i] = fs->branches.items[i]->identity;
	for (id = NODE_ROOT_ID; id < used && header->count < table->nodes; id++)
		header->count += save_node(node_get(table, id),
					   nodes_of(ret) + header->count);
	ret->size = size_of(branches, header->count);
	return 0;
}

/* What nobody has asked for so long is of branches that are no more. */
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

static int write_content(const struct content *content, const char *name)
{
	auto_close int dir = -1, fd = -1;
	char new[NAME_SIZE + 4];
	int r;

	(void)mkdir(PARENT, 0755); /* that it cannot be is seen below */
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
	r = fd_write_all(fd, content->data, content->size);
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
	struct content content = {0};
	char name[NAME_SIZE];
	int r = make_content(fs, &content);

	if (r == 0) {
		header_of(&content)->crc = sum_of(&content);
		name_of(fs, name);
		r = write_content(&content, name);
	}
	free(content.data);
	if (r < 0)
		log_warning("'%s': file handles of it are not valid at its "
			    "next mount: " DIRECTORY ": %s",
			    fs->mountpoint, strerror(-r));
}

/* ---- reading ---- */

static bool is_whole(const struct content *content)
{
	const struct saved_header *header = header_of(content);

	return content->size >= sizeof(*header) && header->magic == MAGIC &&
	       header->branches <= BRANCH_MAX &&
	       header->count <= STATE_NODE_MAX &&
	       content->size == size_of(header->branches, header->count) &&
	       header->crc == sum_of(content);
}

static bool is_known(const struct unionfs *fs, const struct content *content,
		     const struct saved_node *saved)
{
	unsigned i = saved->branch;

	return saved->generation && saved->id >= NODE_ROOT_ID &&
	       saved->id < STATE_NODE_MAX && saved->handle_bytes &&
	       saved->handle_bytes <= HANDLE_MAX &&
	       i < header_of(content)->branches && i < fs->branches.count &&
	       !(fs->branches.items[i]->flags & BRANCH_GONE) &&
	       branch_identity_equal(&identities_of(content)[i],
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
	/* Without a holder nobody else has said so. */
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
	struct content content = {0};
	const struct saved_node *saved;
	char name[NAME_SIZE], path[sizeof(DIRECTORY) + NAME_SIZE];
	uint64_t i;

	name_of(fs, name);
	(void)snprintf(path, sizeof(path), DIRECTORY "/%s", name); /* fits */
	if (file_read(AT_FDCWD, path, SIZE_MOST, &content.data, &content.size,
		      NULL) < 0 ||
	    !is_whole(&content)) {
		free(content.data);
		return false;
	}
	saved = nodes_of(&content);
	/* The root is the first. Without it there is nothing. */
	for (i = 0; i < header_of(&content)->count; i++)
		if (is_known(fs, &content, &saved[i]) &&
		    (saved[i].id == NODE_ROOT_ID || has_root(state)))
			put_node(state, &saved[i]);
	if (state->header->next_generation <
	    header_of(&content)->next_generation)
		state->header->next_generation =
			header_of(&content)->next_generation;
	free(content.data);
	return has_root(state);
}
