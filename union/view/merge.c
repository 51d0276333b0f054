/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"
#include "union/branch/submount.h"
#include "union/sys/dir_offset.h"
#include "union/sys/empty_dir.h"

#define FIRST_ENTRIES 64
#define READ_SIZE     (64 << 10) /* bytes a getdents call */

/* Offsets: of "." and "..", then the hashes, then those added late. */
#define OFFSET_DOT    (DIR_OFFSET_MERGED + 1)
#define OFFSET_DOTDOT (DIR_OFFSET_MERGED + 2)
#define OFFSET_FIRST  (DIR_OFFSET_MERGED + 16)
#define OFFSET_LATE   (DIR_OFFSET_MERGED + (INT64_C(3) << 60))

struct entry {
	uint64_t ino;
	size_t name; /* offset in names */
	int64_t next;
	uint64_t hash;
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
	bool moved;      /* entries have other places than buckets say */
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

static uint64_t hash_name(const char *name, size_t length)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	size_t i;

	for (i = 0; i < length; i++)
		h = (h ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

/* Find the bucket of @name, or the empty one for it. */
static size_t *find_merged_name(const struct merge *merge, const char *name,
				uint64_t hash)
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

static void fill_buckets(struct merge *merge)
{
	size_t i, at, mask = merge->size * 2 - 1;

	memset(merge->buckets, 0, merge->size * 2 * sizeof(*merge->buckets));
	merge->moved = false;
	for (i = 0; i < merge->count; i++) {
		at = merge->entries[i].hash & mask;
		while (merge->buckets[at])
			at = (at + 1) & mask;
		merge->buckets[at] = i + 1;
	}
}

static int grow_entries(struct merge *merge)
{
	size_t size = merge->size ? merge->size * 2 : FIRST_ENTRIES;
	struct entry *entries;
	size_t *buckets;

	entries = reallocarray(merge->entries, size, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	merge->entries = entries;
	buckets = reallocarray(NULL, size * 2, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	free(merge->buckets);
	merge->buckets = buckets;
	merge->size = size;
	fill_buckets(merge);
	return 0;
}

static int add_merged_name(struct merge *merge, const char *name, size_t length,
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

int merge_add(struct merge *merge, const char *name, unsigned branch,
	      unsigned char type, uint64_t ino)
{
	size_t length = strlen(name), *at;
	uint64_t hash = hash_name(name, length);
	struct entry *entry;
	int r;

	if (merge->count == merge->size) {
		r = grow_entries(merge);
		if (r < 0)
			return r;
	}
	if (merge->moved)
		fill_buckets(merge);
	at = find_merged_name(merge, name, hash);
	if (*at)
		return 0;
	entry = &merge->entries[merge->count];
	r = add_merged_name(merge, name, length, &entry->name);
	if (r < 0)
		return r;
	entry->hash = hash;
	entry->branch = (uint16_t)branch;
	entry->type = type;
	entry->ino = ino;
	entry->next = OFFSET_LATE + (int64_t)merge->count;
	*at = ++merge->count;
	if (type == DT_DIR && !name_is_dot(name))
		merge->dirs++;
	return 0;
}

static int64_t offset_of(const struct merge *merge, const struct entry *entry)
{
	const char *name = merge->names + entry->name;

	if (name_is_dot(name))
		return name[1] ? OFFSET_DOTDOT : OFFSET_DOT;
	return OFFSET_FIRST + (int64_t)(entry->hash >> 3);
}

/* Get the shift for groups by the highest bits, as many as entries or more. */
static unsigned group_shift(const struct merge *merge)
{
	unsigned bits = 1;

	while (merge->count >> bits)
		bits++;
	return 61 - bits;
}

static size_t entry_group(const struct entry *entry, unsigned shift)
{
	return (size_t)((uint64_t)(entry->next - OFFSET_DOT) >> shift);
}

/* Sort roughly into @to by group: hashes are spread evenly. */
static void spread(const struct merge *merge, unsigned shift, size_t *places,
		   struct entry *to)
{
	size_t i, before, sum = 0;

	for (i = 0; i < merge->count; i++)
		places[entry_group(&merge->entries[i], shift)]++;
	for (i = 0; i <= (size_t)1 << (61 - shift); i++) {
		before = sum;
		sum += places[i];
		places[i] = before;
	}
	for (i = 0; i < merge->count; i++)
		to[places[entry_group(&merge->entries[i], shift)]++] =
			merge->entries[i];
}

static void insert_in_order(struct entry *entries, size_t count)
{
	struct entry entry;
	size_t i, at;

	for (i = 1; i < count; i++) {
		if (entries[i].next >= entries[i - 1].next)
			continue;
		entry = entries[i];
		for (at = i; at && entries[at - 1].next > entry.next; at--)
			entries[at] = entries[at - 1];
		entries[at] = entry;
	}
}

int merge_sort(struct merge *merge)
{
	unsigned shift = group_shift(merge);
	auto_free size_t *places = calloc(((size_t)1 << (61 - shift)) + 1,
					  sizeof(*places));
	struct entry *entries = calloc(merge->size, sizeof(*entries));
	size_t i;

	if (!places || (!entries && merge->size)) {
		free(entries);
		return -ENOMEM;
	}
	for (i = 0; i < merge->count; i++)
		merge->entries[i].next = offset_of(merge, &merge->entries[i]);
	spread(merge, shift, places, entries);
	free(merge->entries);
	merge->entries = entries;
	insert_in_order(entries, merge->count);
	/* Two names may share a hash, which is rare; none may be missed. */
	for (i = 1; i < merge->count; i++)
		if (entries[i].next <= entries[i - 1].next)
			entries[i].next = entries[i - 1].next + 1;
	merge->moved = true;
	return 0;
}

size_t merge_place(const struct merge *merge, int64_t offset)
{
	size_t low = 0, high = offset ? merge->count : 0, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (merge->entries[middle].next <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
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
		    enum mounted mounts, const char *data, size_t length)
{
	const struct dirent_wire *entry;
	unsigned char type;
	size_t at;
	int r = 0;

	for (at = 0; at < length && r == 0; at += entry->length) {
		entry = (const void *)(data + at);
		if (merge->root &&
		    (strcmp(entry->name, BRANCH_WORK_DIR) == 0 ||
		     strcmp(entry->name, BRANCH_CONTROL_FILE) == 0))
			continue;
		type = dirent_type(fd, entry);
		if (submount_hides(mounts, fd, entry->name, type))
			continue;
		r = merge_add(merge, entry->name, branch, type, entry->ino);
	}
	return r;
}

int merge_read(struct merge *merge, int fd, unsigned branch,
	       enum mounted mounts)
{
	auto_free char *data = malloc(READ_SIZE);
	long n;
	int r = data ? 0 : -ENOMEM;

	while (r == 0) {
		n = syscall(SYS_getdents64, fd, data, READ_SIZE);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = add_read(merge, fd, branch, mounts, data, (size_t)n);
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
	ret->next = entry->next;
}
