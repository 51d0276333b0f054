/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/act_as.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "union/change/caller.h"

#define NOBODY 65534 /* a user and a group that own nothing */

/*
 * Have CAP_SYS_RESOURCE in effect for this thread, or not. That capability goes
 * above quotas and into the reserve. False: it is not as wanted.
 */
static bool set_unlimited(bool wanted)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t bit = CAP_TO_MASK(CAP_SYS_RESOURCE);
	struct __user_cap_data_struct *word =
		&data[CAP_TO_INDEX(CAP_SYS_RESOURCE)];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	if (!(word->effective & bit) == !wanted)
		return true;
	word->effective ^= bit;
	return syscall(SYS_capset, &header, data) == 0;
}

int act_as_thread_setup(void)
{
	/* A umask of its own; and capabilities that a change of the file
	 * system user id leaves alone. */
	if (unshare(CLONE_FS) < 0 ||
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	(void)umask(0);
	return act_as_thread_limited();
}

int act_as_thread_limited(void)
{
	return set_unlimited(false) ? 0 : -EPERM;
}

void act_as_thread_unlimited(void)
{
	(void)set_unlimited(true); /* else it goes as far as it may */
}

/* What the kernel has of this thread now: it keeps these for each thread. */
static _Thread_local struct thread_identity {
	uid_t uid;
	gid_t gid;
	mode_t umask;
	bool unlimited; /* with CAP_SYS_RESOURCE, for a request */
} now;

static void set_mask(mode_t wanted)
{
	if (wanted != now.umask)
		(void)umask(wanted);
	now.umask = wanted;
}

static void become(uid_t uid, gid_t gid)
{
	/*
	 * These two report no failure, and with root's rights there is none.
	 * They cost more than a small write.
	 */
	if (gid != now.gid)
		(void)setfsgid(gid);
	if (uid != now.uid)
		(void)setfsuid(uid);
	now.gid = gid;
	now.uid = uid;
}

void act_as_caller(const struct request *request)
{
	become(request->uid, request->gid);
	set_mask(request->umask);
}

void act_as_spender(const struct request *request)
{
	become(request->uid, request->gid);
}

void act_as_nobody(void)
{
	become(NOBODY, NOBODY);
}

bool act_as_unlimited(const struct request *request, int r)
{
	if ((r != -EDQUOT && r != -ENOSPC) || now.unlimited ||
	    !caller_has(request, CAP_SYS_RESOURCE))
		return false;
	now.unlimited = set_unlimited(true);
	return now.unlimited;
}

void act_as_kept(void)
{
	if (now.unlimited)
		now.unlimited = !set_unlimited(false);
}

void act_as_root(void)
{
	/*
	 * The server's own files are for root alone. So a umask that leaves the
	 * owner's rights may stay, for the next request of that caller.
	 */
	if (now.umask & S_IRWXU)
		set_mask(0);
	act_as_kept();
	become(0, 0);
}
