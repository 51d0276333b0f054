/* SPDX-License-Identifier: Apache-2.0 */
/* Make a new name on the branch the policy picks, or the next with room. */
#ifndef UNION_PLACE_H
#define UNION_PLACE_H

#include "union/view/unionfs.h"

/*
 * Act as the caller for new files: with its user, group and umask. The branch
 * applies the umask where no default ACL says otherwise. Rights stay root's, as
 * the kernel has checked the caller's. For this thread only.
 */
void place_become(fuse_req_t req);
void place_become_root(void);

/*
 * Act as the caller for writes that take room, so that others do not get the
 * room reserved for root. As above, until place_become_root(). The second acts
 * as an unprivileged user, for writes without a caller.
 */
void place_become_spender(fuse_req_t req);
void place_become_nobody(void);

/*
 * Keep the identity, in place of place_become_root(), so that the next request
 * of the same caller costs nothing. Only for requests that use open descriptors
 * and nothing else. A thread that serves requests becomes root before any
 * other.
 */
void place_keep(void);

/*
 * Did the request fail (@r is -EDQUOT or -ENOSPC) for want of CAP_SYS_RESOURCE,
 * which the caller has? Then this thread gets it, too, until
 * place_become_root(), and the request is to be tried once more.
 */
bool place_insists(fuse_req_t req, int r);

/*
 * Prepare a thread, once and before the functions above: they work for it, and
 * quotas hold for its writes. 0 or -errno.
 */
int place_thread_setup(void);

/*
 * Let quotas hold for this thread, and for the threads it starts; or lift them
 * again, for work that the administrator asks for or that a crash interrupted.
 * The first returns 0 or -EPERM.
 */
int place_thread_limited(void);
void place_thread_unlimited(void);

/*
 * Callback: make the file in @dirfd, with the caller's identity on. 0 or a
 * descriptor, or -errno.
 */
typedef int place_make(void *context, int dirfd);

struct to_place {
	enum policy_function function;
	place_make *make;
	void *context;
	const char *name; /* NULL: it gets none */
};

/* Result of place_new(). */
struct placed {
	struct dir_fd *dir; /* held */
	unsigned branch;
	int result; /* of place_make */
};

/*
 * Find a branch for @what in @parent, clone the directory there if need be, and
 * make it.
 *
 * The next branch is tried after ENOSPC, EDQUOT, EMLINK, EROFS, EBUSY
 * (something is mounted there), ENAMETOOLONG and EPERM of an immutable
 * directory. The failure of a branch (-EIO) counts as well, if that has no such
 * name afterwards.
 */
int place_new(struct unionfs *fs, fuse_req_t req, struct node *parent,
	      const struct to_place *what, struct placed *ret);

/*
 * Make the new directory @made in @parent on the other branches, too, if they
 * have room and the policy of mkdir is "all" or "epall".
 */
void place_everywhere(struct unionfs *fs, const struct node *parent,
		      struct node *made);

#endif
