/* SPDX-License-Identifier: Apache-2.0 */
/* Make a new name on the branch the policy picks, or the next with room. */
#ifndef UNION_PLACE_H
#define UNION_PLACE_H

#include "union/view/unionfs.h"

/*
 * Act as the caller for what is made: its user and group, and its umask,
 * which the branch applies where no default ACL says otherwise. Rights stay
 * root's, the kernel has checked the caller's. For this thread only.
 */
void place_become(fuse_req_t req);
void place_become_root(void);

/*
 * Act as the caller for what takes room: what is reserved for root is not for
 * others. As above, until place_become_root(). Or as one that has no more
 * than anybody: for what comes without a caller.
 */
void place_become_spender(fuse_req_t req);
void place_become_nobody(void);

/*
 * In place of place_become_root(): the thread stays who it is, so that more of
 * the same caller's costs nothing. Only for what uses open descriptors and
 * nothing else, and who serves requests becomes root before any other.
 */
void place_keep(void);

/*
 * Did it fail (@r is -EDQUOT or -ENOSPC) for want of CAP_SYS_RESOURCE, which
 * the caller has? Then this thread has it, too, until place_become_root(), and
 * it is to be tried once more.
 */
bool place_insists(fuse_req_t req, int r);

/*
 * Once for each thread and before it: the above works for it, and quotas hold
 * for what it does. 0 or -errno.
 */
int place_thread_setup(void);

/* After it: quotas do not hold. For what the administrator asks for. */
void place_thread_unlimited(void);

/*
 * Make it in @dirfd, with the caller's identity on. 0 or a descriptor, or
 * -errno.
 */
typedef int place_make(void *context, int dirfd);

struct to_place {
	enum policy_function function;
	place_make *make;
	void *context;
	const char *name; /* NULL: it gets none */
};

/* What place_new() made. */
struct placed {
	struct dir_fd *dir; /* held */
	unsigned branch;
	int result; /* of place_make */
};

/*
 * Find a branch for @what in @parent, clone the directory there if need be,
 * and make it. ENOSPC, EDQUOT, EMLINK, EROFS, EBUSY (something is mounted
 * there), ENAMETOOLONG and the EPERM of a directory that is immutable there go
 * on to the next branch, and so does the failure of a branch (-EIO) that has no
 * such name afterwards.
 */
int place_new(struct unionfs *fs, fuse_req_t req, struct node *parent,
	      const struct to_place *what, struct placed *ret);

/*
 * The directory @made in @parent is new. Where the policy of mkdir is "all"
 * or "epall": make it on the other branches, too, if they have room.
 */
void place_everywhere(struct unionfs *fs, const struct node *parent,
		      struct node *made);

#endif
