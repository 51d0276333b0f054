/* SPDX-License-Identifier: Apache-2.0 */
/* The mounted union: what every operation shares. */
#ifndef UNION_UNIONFS_H
#define UNION_UNIONFS_H

#define FUSE_USE_VERSION 314

#include <fuse3/fuse_lowlevel.h>
#include <stdatomic.h>

#include "union/branch.h"
#include "union/node.h"
#include "union/policy.h"

/* Since the mount; shown by the extended attribute UNIONFS_STATS_XATTR. */
struct unionfs_stats {
	atomic_ulong lookups, creates, opens, passthrough_opens;
	atomic_ulong reads,
		writes; /* served by the daemon, not by the kernel */
	atomic_ulong cloned_directories;
};

struct unionfs {
	struct branch_table branches;
	struct node_table nodes;
	atomic_uint generation; /* how often a branch became complete */
	const struct policy *policy;
	uint64_t min_free;     /* bytes */
	double timeout;        /* seconds the kernel may keep what we say */
	bool shared;           /* others change the branches, too */
	bool want_passthrough; /* as the options say */
	bool passthrough;      /* and the kernel offers */
	void (*ready)(struct unionfs *fs); /* the kernel's first request */
	void *ready_context;

	/*
	 * Exclusive while directories are renamed, shared while a path of
	 * directories is walked. Taken before every other lock.
	 */
	pthread_rwlock_t tree;
	struct fuse_session *session;
	struct unionfs_stats stats;
};

/* Of the root directory, read-only: a JSON object. docs/union.md. */
#define UNIONFS_STATS_XATTR "user.tributary.stats"

/* The branches' roots become the root node. 0, or -errno with @err. */
int unionfs_init(struct unionfs *fs, struct error *err);
void unionfs_done(struct unionfs *fs);

static inline struct unionfs *unionfs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline struct branch *branch_of(const struct unionfs *fs,
				       const struct copy *copy)
{
	return fs->branches.items[copy->branch];
}

/* The O_PATH descriptor of a directory's copy: see dir_fd_get(). */
int unionfs_dir_fd(struct unionfs *fs, struct copy *copy, struct dir_fd **ret);

/* Open the first copy of @node: a descriptor, or -ESTALE and the like. */
int unionfs_open(struct unionfs *fs, const struct node *node, int flags);

/*
 * stat of @node: of a directory on several branches the owner and mode of
 * the first copy, the latest times, and a link count as if it were one.
 */
int unionfs_stat(struct unionfs *fs, struct node *node, struct stat *ret);

/* stat of @node from that of its one copy. */
void unionfs_fill_stat(const struct node *node, struct stat *st);

/* How long the kernel may trust the attributes of @node, in seconds. */
double unionfs_attr_timeout(struct unionfs *fs, const struct node *node);

/* Has the union a branch that @copy's changes may not touch? -EROFS or 0. */
int unionfs_writable(const struct unionfs *fs, const struct copy *copy);

/* Is this a name users do not see (@parent: its directory)? */
bool unionfs_hidden(const struct node *parent, const char *name);

/* A subdirectory of @node came (+1) or went (-1). */
void unionfs_count_subdir(struct unionfs *fs, struct node *node, int change);

/* They are no longer known: count when asked next. */
void unionfs_recount_subdirs(struct unionfs *fs, struct node *node);

#endif
