/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity by which a thread calls the branches: user, group, umask, and
 * whether quotas hold. The kernel keeps these for each thread.
 */
#ifndef UNION_ACT_AS_H
#define UNION_ACT_AS_H

#include <stdbool.h>

#include "union/state/request.h"

/*
 * Act as the caller for new files: with its user, group and umask. The branch
 * applies the umask where no default ACL says otherwise. Rights stay root's, as
 * the kernel has checked the caller's. For this thread only.
 */
void act_as_caller(const struct request *request);
void act_as_root(void);

/*
 * Act as the caller for writes that take room, so that others do not get the
 * room reserved for root. As above, until act_as_root(). The second acts
 * as an unprivileged user, for writes without a caller.
 */
void act_as_spender(const struct request *request);
void act_as_nobody(void);

/*
 * Keep the identity, in place of act_as_root(), so that the next request
 * of the same caller costs nothing. Only for requests that use open descriptors
 * and nothing else. A thread that serves requests becomes root before any
 * other.
 */
void act_as_kept(void);

/*
 * Did the request fail (@r is -EDQUOT or -ENOSPC) for want of CAP_SYS_RESOURCE,
 * which the caller has? Then this thread gets it, too, until
 * act_as_root(), and the request is to be tried once more.
 */
bool act_as_unlimited(const struct request *request, int r);

/*
 * Prepare a thread, once and before the functions above: they work for it, and
 * quotas hold for its writes. 0 or -errno.
 */
int act_as_thread_setup(void);

/*
 * Let quotas hold for this thread, and for the threads it starts; or lift them
 * again. Work that the administrator asks for goes without them, and work that
 * a crash interrupted. The first returns 0 or -EPERM.
 */
int act_as_thread_limited(void);
void act_as_thread_unlimited(void);

#endif
