/* SPDX-License-Identifier: Apache-2.0 */
/* The mounted union: the state that all operations share. */
#ifndef UNION_UNIONFS_H
#define UNION_UNIONFS_H

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>
#include <stdatomic.h>

#include "union/branch/branch.h"
#include "union/config/policy_set.h"
#include "union/node/dirty_ranges.h"
#include "union/node/migrate_lock.h"
#include "union/node/node.h"
#include "union/state/open_table.h"
#include "union/state/request.h"
#include "union/sys/inode_number.h"
#include "union/sys/stats.h"

struct unionfs {
	struct state *state; /* see handover.h; NULL: it dies with the server */
	struct branch_table branches;
	struct node_table nodes;
	struct open_table opened; /* of struct open_file and struct dir */
	atomic_uint generation;   /* how often a branch became complete */
	struct policy_set policies;
	_Atomic uint64_t min_free; /* bytes; of branches without their own */
	unsigned statfs_ignore; /* flags of branches that count as full there */
	double timeout;         /* seconds the kernel may keep answers */
	atomic_bool read_only;  /* all branches are BRANCH_RO: remounted.h */
	bool shared;            /* others change the branches, too */
	atomic_bool syncs, dirsyncs; /* see durable.h */
	struct inode_shown numbers;  /* how they are shown */
	bool hides_capabilities;     /* of files, from callers that ask */
	bool lists_quietly;          /* though a failed branch has more names */
	bool forgets_nothing;        /* all nodes are kept: see forgotten.h */
	int64_t branch_timeout_ms;   /* see watchdog.h; 0: never */
	bool want_passthrough;       /* as the options say */
	bool passthrough;            /* and the kernel offers */
	bool expires;                /* FUSE_EXPIRE_ONLY is known */
	bool told_of_writes;         /* the kernel's FUSE is: see unseen.h */
	void (*ready)(struct unionfs *fs); /* the kernel's first request */
	void *ready_context;

	/*
	 * Exclusive while directories are renamed, shared while a path of
	 * directories is walked. Taken before every other lock but
	 * migrate_lock.h.
	 */
	pthread_rwlock_t tree;
	struct migrate_lock migrate_lock; /* before that one, too */
	struct dirty_list dirty;
	pthread_mutex_t
		branch_changes; /* held while the branches change; the first */
	struct fuse_session *session;
	struct reply_cache
		*reply_cache;  /* see reply_cache.h; NULL: a kill is the end */
	struct drains *drains; /* see drain.h */
	struct branch_full
		*branch_full;   /* see branch_full.h; NULL: writes fail */
	struct room *room;      /* see room.h; NULL: none is made */
	const char *mountpoint; /* absolute; borrowed */
	const struct union_options *options; /* it was mounted with; borrowed */
	const char *control_path;  /* of the control socket; borrowed; NULL */
	struct union_stats *stats; /* with the nodes */
};

static inline struct branch *branch_of(const struct unionfs *fs,
				       const struct copy *copy)
{
	return fs->branches.items[copy->branch];
}

/*
 * Get the descriptor of a directory's copy: see dir_fd_get(). -EOPNOTSUPP: it
 * folds names, see folding.h.
 */
int unionfs_dir_fd(struct unionfs *fs, struct copy *copy, struct dir_fd **ret);

/* Get the stat of a directory's copy: see dir_fd_stat(). */
int unionfs_stat_copy(struct unionfs *fs, struct copy *copy, struct stat *ret);

/* Open a copy; a descriptor, or -ESTALE, or -EIO when its branch failed. */
int unionfs_open_copy(struct unionfs *fs, const struct copy *copy, int flags);

/*
 * Open the first copy of @node; the first function only to read a symbolic link
 * there (O_PATH).
 */
int unionfs_open_link(struct unionfs *fs, const struct node *node);
int unionfs_open(struct unionfs *fs, const struct node *node, int flags);

/*
 * Get the stat of @node. A directory on several branches has the owner and mode
 * of the first copy, the latest times, and a link count as one directory. If
 * the first copy can be changed, times of copies that cannot do not count.
 */
int unionfs_stat(struct unionfs *fs, struct node *node, struct stat *ret);

/* Complete the stat of @node, no directory, from that of its one copy. */
void unionfs_fill_stat(struct unionfs *fs, const struct node *node,
		       struct stat *st);

/* Get st_ino of @node; and of @name in the directory @fd of @branch. */
uint64_t unionfs_number(const struct unionfs *fs, const struct node *node);
uint64_t unionfs_number_at(const struct unionfs *fs,
			   const struct branch *branch, int fd,
			   const char *name, uint64_t number);

/* Note where @node was found, where its number is of its path. */
void unionfs_number_by_path(const struct unionfs *fs, const struct node *node,
			    const struct branch *branch, int fd,
			    const char *name);
static inline void unionfs_found_at(const struct unionfs *fs,
				    const struct node *node,
				    const struct branch *branch, int fd,
				    const char *name)
{
	if (fs->numbers.calc == INODE_CALC_PATH)
		unionfs_number_by_path(fs, node, branch, fd, name);
}

/* Get the seconds for which the kernel may trust the attributes of @node. */
double unionfs_attr_timeout(struct unionfs *fs, const struct request *request,
			    struct node *node);

/*
 * Do the same as unionfs_stat(), and get the seconds for which the kernel may
 * trust the result. 0 while names in @node are changed: the answer may come to
 * the kernel after that of the change.
 */
int unionfs_attr(struct unionfs *fs, const struct request *request,
		 struct node *node, struct stat *ret, double *ret_timeout);

/* Do the same for a file that is open as @fd, which may be O_PATH; -1: it is
 * not open.
 */
int unionfs_attr_open(struct unionfs *fs, const struct request *request,
		      struct node *node, int fd, struct stat *ret,
		      double *ret_timeout);

/* May the branch of @copy be changed? 0; -EROFS; -EIO: it failed. */
int unionfs_writable(const struct unionfs *fs, const struct copy *copy);

/*
 * Can the directory @node itself be changed? -EIO when it may have a copy on a
 * failed branch, which would keep the old state and show it one day.
 */
int unionfs_changeable(const struct node *node);

/*
 * May @name (NULL: any) be in a copy of @parent that cannot be asked now? Then
 * a name that is found nowhere else is not said to be absent.
 */
bool unionfs_may_have(const struct node *parent, const char *name);

/*
 * Is @name in @parent, its directory, one of the union's own? These are in no
 * list.
 */
bool unionfs_hides(const char *name);
static inline bool unionfs_hidden(const struct node *parent, const char *name)
{
	return parent->id == NODE_ROOT_ID && unionfs_hides(name);
}

#endif
