/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The branches of a union, by id. An id is the place in the list given at
 * the start, those added later after it; it is part of every inode number:
 * keep the order over mounts. A branch never goes, so readers need no lock.
 */
#ifndef UNION_BRANCH_H
#define UNION_BRANCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/error.h"

#define BRANCH_MAX 256

#define BRANCH_LOCAL 1u /* flag: its storage is on this node */
#define BRANCH_RO    2u /* flag: nothing is changed on it */

/* The name in a branch's root where copies are made before they appear. */
#define BRANCH_WORK_DIR ".tributary"

#define BRANCH_SPACE_AGE_MS 1000 /* free space is asked for this often */

struct branch {
	unsigned id;
	unsigned flags;
	char *path;  /* absolute, as resolved at the start; owned */
	int root_fd; /* readable directory, for handle_open() too */
	dev_t device;
	atomic_bool no_passthrough; /* the kernel refused a file of it */
	bool announced; /* no node or cache lacks it: see live_add() */

	pthread_mutex_t space_lock; /* guards the rest */
	int64_t space_checked_ms;   /* 0: never */
	uint64_t available;         /* bytes for unprivileged users */
};

struct branch_table {
	struct branch *items[BRANCH_MAX];
	atomic_uint count; /* only grows: who sizes by it reads it once */
};

/*
 * Open @path as the next branch. A file system mounted read-only gets
 * BRANCH_RO. Refused: what is no directory, a branch that is there already
 * or lies in or around one on the same file system, a file system without
 * file handles.
 */
int branch_add(struct branch_table *table, const char *path, unsigned flags,
	       struct error *err);

/*
 * The same in two steps. After the first, @ret is at its place in the table
 * but not counted: who has its id can use it, nobody meets it. Either
 * branch_publish() or branch_drop() follows, by the same thread.
 */
int branch_open(struct branch_table *table, const char *path, unsigned flags,
		struct branch **ret, struct error *err);
void branch_publish(struct branch_table *table);
void branch_drop(struct branch_table *table);

/* The branch that is the directory @path; NULL: none, or no directory. */
struct branch *branch_find(const struct branch_table *table, const char *path);

/* Is @path the directory @dir or below it? Both absolute and resolved. */
bool branch_path_is_below(const char *path, const char *dir);

/* Close and free all. A zeroed table is fine. */
void branch_table_done(struct branch_table *table);

/* Bytes that can still be written, at most BRANCH_SPACE_AGE_MS old. */
uint64_t branch_available(struct branch *branch);

/* Ask again next time: a write met ENOSPC. */
void branch_space_changed(struct branch *branch);

/*
 * statfs(2) of the union: the sum over the branches, each file system once.
 * Block size and the like are those of the first.
 */
int branch_table_statvfs(const struct branch_table *table, struct statvfs *ret);

/* Descriptor of the branch's BRANCH_WORK_DIR, made when needed; -errno. */
int branch_work_dir(const struct branch *branch);

/*
 * Where the directory @fd (may be O_PATH) is below the branch: "a/b", "" for
 * its root. @ret: PATH_MAX bytes. -ENOENT when it was removed, -ENAMETOOLONG
 * when its path is longer than PATH_MAX.
 */
int branch_path_of(const struct branch *branch, int fd, char *ret);

#endif
