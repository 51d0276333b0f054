/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The branches of a union, by id. An id is the place in the list given at the
 * start; branches added later come after it. The id is part of every inode
 * number: keep the order over mounts. A branch never goes, so readers need no
 * lock.
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
#include "union/state/branch_identity.h"
#include "union/sys/branch_flags.h"

/* The name in a branch's root where copies are made before they appear. */
#define BRANCH_WORK_DIR ".tributary"
/* Prefix of the names of directories there that are being made. */
#define BRANCH_WORK_CLONE "clone-"

/* The name in the union's root that is a control file (union/ops/dot_union.h).
 */
#define BRANCH_CONTROL_FILE ".union"

#define BRANCH_SPACE_AGE_MS 1000 /* free space is asked for this often */

struct state_branch;

struct branch {
	unsigned id;
	atomic_uint flags; /* BRANCH_LOCAL and the like */
	/* Bytes; with less it is a last choice. BRANCH_MIN_FREE_UNION. */
	_Atomic uint64_t min_free;
	char *path;  /* absolute, as resolved at the start; owned */
	int root_fd; /* readable directory, for handle_open() too */
	atomic_int own_root, own_mount; /* 1 + descriptors: atime.h; 0: none */
	dev_t device;
	atomic_int mount_id;     /* of root_fd */
	atomic_bool has_numbers; /* files of it: see ino_preserve.h */
	atomic_bool never_folds; /* directories of it: see folding.h */
	/* In its inode numbers: ino_preserve.h; the id and 0 without a note. */
	atomic_uint place, turn;
	struct branch_identity identity;
	atomic_int lock; /* 1 + a descriptor: branch_lock.h; 0: none */
	atomic_bool no_passthrough;     /* the kernel refused a file of it */
	atomic_uint passed_writers;     /* open: see branch_full.h */
	_Atomic uint64_t beside_passed; /* bytes written since asked for room */
	bool shown; /* no node or cache lacks it: see union_add_branch() */
	/* In whose place this one is, or is to be; NULL: of none. */
	struct branch *absent;
	struct branch *next_replaced;

	/* See branch_health.h, which changes them. */
	atomic_int failed;     /* the errno it failed with; 0: it works */
	atomic_bool to_close;  /* removed, root_fd still in use */
	atomic_bool turned_ro; /* by itself, since it is a branch */
	atomic_ulong failures; /* so far */
	atomic_bool doubted;
	atomic_bool damaged; /* its file system said so of something on it */
	/* Where the next server finds the two; borrowed; NULL: nowhere. */
	struct state_branch *record;

	pthread_mutex_t try_lock; /* held during a try: branch_try.h */
	int64_t well_ns;          /* when that was begun and good; 0: never */

	/* Two requests must not make the same directory on it at once. */
	pthread_mutex_t clone_lock;

	pthread_mutex_t space_lock;       /* held while it is asked for */
	_Atomic int64_t space_checked_ms; /* 0: never */
	_Atomic uint64_t available, used; /* see branch_space() */
};

struct branch_space {
	uint64_t available; /* bytes, for unprivileged users */
	uint64_t used;      /* bytes */
};

struct branch_table {
	struct branch *items[BRANCH_MAX];
	atomic_uint count; /* only grows: read it once to size by it */
	uint64_t atime_said, atime_set; /* MOUNT_ATTR_*: see atime.h */
	/* Branches no longer at their places, which may still be read. */
	struct branch *replaced;
};

/*
 * Open @path as the next branch. A file system mounted read-only gets
 * BRANCH_RO.
 *
 * Refused are a path that is no directory, a branch that is there already, and
 * a file system without file handles. So is a branch in or around another on
 * the same file system.
 */
int branch_add(struct branch_table *table, const char *path, unsigned flags,
	       struct error *err);

/*
 * Add a branch in three steps, all by the same thread. The first gives @ret an
 * id: that of a branch with this path that is BRANCH_ABSENT, or else a new one.
 * Nobody meets the branch yet. After the second, a holder of its id can use it,
 * but nothing new gets there before the third. After either, branch_drop() may
 * follow instead.
 */
int branch_open(struct branch_table *table, const char *path, unsigned flags,
		struct branch **ret, struct error *err);
void branch_enter(struct branch_table *table, struct branch *branch);
void branch_publish(struct branch_table *table, struct branch *branch,
		    unsigned flags);
void branch_drop(struct branch_table *table, struct branch *branch);

/*
 * Is the directory @path no branch, but the place for a disk that is not
 * mounted? That is a directory that is empty, immutable (chattr +i), and no
 * mount point.
 */
bool branch_is_absent(const char *path);

/*
 * Add the place of a branch that was removed, or is absent (@flags
 * BRANCH_ABSENT): nothing is opened.
 */
int branch_add_gone(struct branch_table *table, const char *path,
		    unsigned flags, struct error *err);

/*
 * Add a branch that was there before as @identity and cannot be opened now
 * (@error, an errno). It is failed, and taken back when it returns.
 */
int branch_add_failed(struct branch_table *table, const char *path,
		      unsigned flags, const struct branch_identity *identity,
		      int error, struct error *err);

/* Find the branch that is the directory @path; NULL: none, or no directory. */
struct branch *branch_find(const struct branch_table *table, const char *path);

/* Close and free all. A zeroed table is fine. */
void branch_table_done(struct branch_table *table);

/*
 * Get the space of the branch, at most BRANCH_SPACE_AGE_MS old; or older while
 * another thread asks for it. A branch that cannot tell has none.
 */
void branch_space(struct branch *branch, int64_t now_ms,
		  struct branch_space *ret);

/* Ask again next time, as a write met ENOSPC. */
void branch_space_changed(struct branch *branch);

/* Are both on one file system, so that room on one is room on the other? */
bool branch_shares_space(const struct branch *a, const struct branch *b);

/* Does branch @i work, and is it the first of those on its file system? */
bool branch_counts(const struct branch_table *table, unsigned i);

/*
 * statfs(2) of the union: the sum over the branches, each file system once.
 * Block size and the like are those of the first. Branches with one of the
 * flags @ignored count as full.
 */
int branch_table_statvfs(const struct branch_table *table, unsigned ignored,
			 struct statvfs *ret);

#endif
