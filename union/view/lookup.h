/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a name in a directory, over the branches. */
#ifndef UNION_LOOKUP_H
#define UNION_LOOKUP_H

#include "union/view/unionfs.h"

/* One branch that has a name. */
struct hit {
	struct copy *dir;  /* the directory it is in */
	struct dir_fd *fd; /* held */
	struct stat st;
};

/*
 * Get the inode at @name in @dirfd (@name "": @dirfd itself), a directory of
 * @branch: its attributes and its handle, surely of the same inode. -ENOENT,
 * also for a mount point (submount.h).
 */
int lookup_inode(const struct branch *branch, int dirfd, const char *name,
		 struct stat *ret_st, struct handle *ret_handle);

/*
 * Look @name up in @parent and give the kernel's view of it. The node's count
 * is raised: exactly one reply must carry it, or node_forget() take it back.
 *
 * @first  a copy of @parent known to be the lowest that has the name; NULL
 *
 * -ENOENT, or the error of a branch that could not be asked. A name that may
 * be on a failed branch is not said to be absent.
 */
int lookup_entry(struct unionfs *fs, struct request *request,
		 struct node *parent, const char *name, struct copy *first,
		 struct fuse_entry_param *ret);

/* Get the generation that the kernel is told; 0 for the root. */
static inline uint64_t lookup_generation(const struct node *node)
{
	return node->id == NODE_ROOT_ID ? 0 : node->generation;
}

/*
 * Get the entry of a file just made as @name in @dirfd, which is on @branch
 * alone. @name "": of @dirfd itself, a file about to be opened. How long its
 * attributes may be kept is known then.
 */
int lookup_made(struct unionfs *fs, struct request *request, unsigned branch,
		int dirfd, const char *name, struct fuse_entry_param *ret);

/*
 * Get the entry of the directory @fd (may be O_PATH), found on @branch but
 * maybe on others too. The caller has fs->tree. -ENOENT: it was removed.
 */
int lookup_dir(struct unionfs *fs, struct request *request, unsigned branch,
	       int fd, struct fuse_entry_param *ret);

/*
 * Find every branch that has @name in @parent. The one that is seen comes
 * first, or the one that gives the directory its owner and mode; then the
 * lowest first. Returns how many (0: none; free with lookup_hits_done() if
 * more), or -errno.
 */
int lookup_all(struct unionfs *fs, const struct node *parent, const char *name,
	       struct hit **ret);

/*
 * Do the same for a name that must be there: never 0, but -ENOENT; -EIO if it
 * may be on a failed branch.
 */
int lookup_needed(struct unionfs *fs, const struct node *parent,
		  const char *name, struct hit **ret);
void lookup_hits_done(struct hit *hits, int count);

#endif
