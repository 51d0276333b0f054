/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of one directory over several branches, each name once: that of
 * the branch that was added first.
 *
 * The kernel makes one list for all readers of a directory, and each may go on
 * from any offset in it. So offsets are of names, not of places. A name has the
 * same offset in every list, in the order of a hash. Each offset says that its
 * list is merged: dir_offset.h.
 */
#ifndef UNION_MERGE_H
#define UNION_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/branch/submount.h"

struct merge;

struct merge_entry {
	const char *name;   /* borrowed from the merge */
	unsigned branch;    /* that it was first seen on */
	unsigned char type; /* DT_* */
	uint64_t ino;       /* of that branch */
	int64_t next;       /* the offset behind it, more than 0 */
};

/* One entry of getdents64(2). */
struct dirent_wire {
	uint64_t ino;
	int64_t next;    /* offset of the one after */
	uint16_t length; /* bytes, with the name's NUL and padding */
	uint8_t type;
	char name[];
};

/*
 * Make an empty list. @root: leave out names that users do not see in a
 * branch's root. NULL: ENOMEM.
 */
struct merge *merge_new(bool root);
void merge_free(struct merge *merge); /* NULL is fine */

/*
 * Add an entry, unless its name is there; 0 or -ENOMEM. "." and ".." are
 * names like others.
 */
int merge_add(struct merge *merge, const char *name, unsigned branch,
	      unsigned char type, uint64_t ino);

/*
 * Add all entries of the directory @fd (readable, at its start); 0 or -errno.
 *
 * @mounts  where mounts may be in it: mount points are left out
 */
int merge_read(struct merge *merge, int fd, unsigned branch,
	       enum mounted mounts);

size_t merge_count(const struct merge *merge);

/*
 * Sort the entries added so far; later ones come behind, in the order in which
 * they are added. 0 or -ENOMEM.
 */
int merge_sort(struct merge *merge);

/* Find the first place behind @offset; 0: the start. */
size_t merge_place(const struct merge *merge, int64_t offset);

/* Count the directories among the entries, less "." and "..". */
size_t merge_count_dirs(const struct merge *merge);

/* Get entry @i, below merge_count(). */
void merge_get(const struct merge *merge, size_t i, struct merge_entry *ret);

/*
 * Get the type of a getdents entry; asks the file system when that is unknown.
 */
unsigned char dirent_type(int dirfd, const struct dirent_wire *entry);

#endif
