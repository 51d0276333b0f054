/* SPDX-License-Identifier: Apache-2.0 */
#include "union/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch.h"

#define FIRST_ENTRIES 64
#define READ_SIZE     (64 << 10) /* bytes a getdents call */

struct entry {
	uint64_t ino;
	size_t name; /* offset in names */
	uint32_t hash;
	uint16_t branch;
	uint8_t type;
};

struct merge {
	bool root;
	struct entry *entries;
	size_t count, size;
	size_t dirs;
	char *names;
	size_t names_used, names_size;
	size_t *buckets; /* place + 1 of an entry; 0: empty. Twice @size */
};

struct merge *merge_new(bool root)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (merge)
		merge->root = root;
	return merge;
}

void merge_free(struct merge *merge)
{
	if (!merge)
		return;
	free(merge->entries);
	free(merge->names);
	free(merge->buckets);
	free(merge);
}

static uint32_t hash_name(const char *name, size_t length)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	size_t i;

	for (i = 0; i < length; i++)
		h = (h ^ (uint8_t)name[i]) * 16777619u;
	return h ^ h >> 15;
}

/* The bucket of @name, or the empty one where it belongs. */
static size_t *find(const struct merge *merge, const char *name, uint32_t hash)
{
	size_t mask = merge->size * 2 - 1, i = hash & mask, at;

	for (;; i = (i + 1) & mask) {
		at = merge->buckets[i];
		if (!at)
			break;
		if (merge->entries[at - 1].hash == hash &&
		    strcmp(merge->names + merge->entries[at - 1].name, name) ==
			    0)
			break;
	}
	return &merge->buckets[i];
}

static int grow_entries(struct merge *merge)
{
	size_t i, at, size = merge->size ? merge->size * 2 : FIRST_ENTRIES;
	struct entry *entries;
	size_t *buckets;

	entries = reallocarray(merge->entries, size, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	merge->entries = entries;
	buckets = calloc(size * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(merge->buckets);
	merge->buckets = buckets;
	merge->size = size;
	for (i = 0; i < merge->count; i++) {
		at = entries[i].hash & (size * 2 - 1);
		while (buckets[at])
			at = (at + 1) & (size * 2 - 1);
		buckets[at] = i + 1;
	}
	return 0;
}

static int add_name(struct merge *merge, const char *name, size_t length,
		    size_t *ret)
{
	size_t size = merge->names_size ? merge->names_size : 4096;
	char *names;

	while (size - merge->names_used <= length)
		size *= 2;
	if (size != merge->names_size) {
		names = realloc(merge->names, size);
		if (!names)
			return -ENOMEM;
		merge->names = names;
		merge->names_size = size;
	}
	memcpy(merge->names + merge->names_used, name, length + 1);
	*ret = merge->names_used;
	merge->names_used += length + 1;
	return 0;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int merge_add(struct merge *merge, const char *name, unsigned branch,
	      unsigned char type, uint64_t ino)
{
	size_t length = strlen(name), *at;
	uint32_t hash = hash_name(name, length);
	struct entry *entry;
	int r;

	if (merge->count == merge->size) {
		r = grow_entries(merge);
		if (r < 0)
			return r;
	}
	at = find(merge, name, hash);
	if (*at)
		return 0;
	entry = &merge->entries[merge->count];
	r = add_name(merge, name, length, &entry->name);
	if (r < 0)
		return r;
	entry->hash = hash;
	entry->branch = (uint16_t)branch;
	entry->type = type;
	entry->ino = ino;
	*at = ++merge->count;
	if (type == DT_DIR && !is_dot(name))
		merge->dirs++;
	return 0;
}

unsigned char dirent_type(int dirfd, const struct dirent_wire *entry)
{
	struct stat st;

	if (entry->type != DT_UNKNOWN ||
	    fstatat(dirfd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return entry->type;
	return IFTODT(st.st_mode);
}

static int add_read(struct merge *merge, int fd, unsigned branch,
		    const char *data, size_t length)
{
	const struct dirent_wire *entry;
	size_t at;
	int r = 0;

	for (at = 0; at < length && r == 0; at += entry->length) {
		entry = (const void *)(data + at);
		if (merge->root && strcmp(entry->name, BRANCH_WORK_DIR) == 0)
			continue;
		r = merge_add(merge, entry->name, branch,
			      dirent_type(fd, entry), entry->ino);
	}
	return r;
}

int merge_read(struct merge *merge, int fd, unsigned branch)
{
	auto_free char *data = malloc(READ_SIZE);
	long n;
	int r = data ? 0 : -ENOMEM;

	while (r == 0) {
		n = syscall(SYS_getdents64, fd, data, READ_SIZE);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = add_read(merge, fd, branch, data, (size_t)n);
	}
	return r;
}

size_t merge_count(const struct merge *merge)
{
	return merge->count;
}

size_t merge_count_dirs(const struct merge *merge)
{
	return merge->dirs;
}

void merge_get(const struct merge *merge, size_t i, struct merge_entry *ret)
{
	const struct entry *entry = &merge->entries[i];

	ret->name = merge->names + entry->name;
	ret->branch = entry->branch;
	ret->type = entry->type;
	ret->ino = entry->ino;
}
