/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/owner.h"
#include "union/state/fd_store.h"

#define LOOK_MS 20

/* Is @error flock(2)'s for no support of locks, or no room for them? */
static bool is_unsupported(int error)
{
	return error == EOPNOTSUPP || error == ENOSYS || error == ENOLCK ||
	       error == EINVAL;
}

/* Is it there still? The removal of a branch from a union removes it. */
static bool is_linked(int root, int fd)
{
	struct stat st, now;

	return fstat(fd, &st) == 0 &&
	       fstatat(root, BRANCH_WORK_DIR, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_ino == now.st_ino && st.st_dev == now.st_dev;
}

/* Lock @fd. 1: done; 0: not possible; -EBUSY; -EAGAIN: begin anew. */
static int lock_fd(int root, int fd, bool shared)
{
	if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0)
		return errno == EWOULDBLOCK    ? -EBUSY
		       : is_unsupported(errno) ? 0
					       : -errno;
	return is_linked(root, fd) ? 1 : -EAGAIN;
}

static void keep_lock(struct branch *branch, int fd)
{
	fd_store_fd(FD_STORE_LOCK + branch->id, fd);
	atomic_store(&branch->lock, fd + 1);
}

/* Lock the branch. 1: done; 0: not possible; -EBUSY, or another error. */
static int try_lock(struct branch *branch, int root, bool shared)
{
	int fd, r;

	do {
		auto_close int opened = branch_work_dir_at(root, !shared);

		fd = opened;
		if (fd < 0)
			return fd == -ENOENT && shared ? 1 : fd;
		r = lock_fd(root, fd, shared);
		if (r >= 0)
			keep_lock(branch, take_fd(&opened));
	} while (r == -EAGAIN);
	return r;
}

/* Change from shared to exclusive, or back if that fails. As above. */
static int change_lock(const struct branch *branch, int fd)
{
	int r = lock_fd(branch->root_fd, fd, false);

	if (r == -EBUSY)
		/* Nobody can have it exclusively, unless just now. */
		(void)flock(fd, LOCK_SH | LOCK_NB);
	return r == -EAGAIN ? -EBUSY : r;
}

static int lock_once(struct branch *branch, bool shared)
{
	int fd = atomic_load(&branch->lock) - 1;

	return fd < 0 ? try_lock(branch, branch->root_fd, shared)
		      : change_lock(branch, fd);
}

/* Log a branch that cannot be locked, unless another union has it. */
static int say_unlocked(const struct branch *branch, int r, bool shared)
{
	if (r != 1 && r != -EBUSY && !shared)
		log_warning("branch '%s' cannot be locked (%s): do not mount "
			    "another union over it",
			    branch->path, strerror(r ? -r : EOPNOTSUPP));
	return r == -EBUSY ? r : 0;
}

/* May the owner end soon? If no union of it is mounted, wait a moment. */
static bool may_end(const struct owner *owner, int64_t end_ms)
{
	const struct timespec moment = {0, LOOK_MS * 1000000};

	if (owner->mounted || clock_ms() >= end_ms)
		return false;
	(void)nanosleep(&moment, NULL); /* or shorter */
	return true;
}

static int lock_one(struct branch *branch, bool shared, int64_t end_ms,
		    struct error *err)
{
	struct owner owner;
	int r;

	while ((r = lock_once(branch, shared)) == -EBUSY) {
		(void)owner_find(&branch, 1, !shared, &owner); /* or unknown */
		if (!may_end(&owner, end_ms))
			return owner_refuse(&owner, branch, err);
	}
	return say_unlocked(branch, r, shared);
}

static int lock(struct branch *const *branches, unsigned count, bool writes,
		struct error *err)
{
	int64_t end_ms = clock_ms() + BRANCH_LOCK_MS;
	struct owner owner;
	unsigned i;
	int r = 0;

	for (i = 0; i < count && r == 0; i++)
		r = lock_one(branches[i],
			     !writes && branches[i]->flags & BRANCH_RO, end_ms,
			     err);
	/* A lock tells nothing of branches in or around others. */
	while (r == 0 && owner_find(branches, count, writes, &owner))
		if (!may_end(&owner, end_ms))
			r = owner_refuse(&owner, owner.ours, err);
	return r;
}

int branch_lock(struct branch *const *branches, unsigned count,
		struct error *err)
{
	return lock(branches, count, false, err);
}

int branch_lock_to_write(struct branch *branch, struct error *err)
{
	return lock(&branch, 1, true, err);
}

int branch_lock_again(struct branch *branch, int root)
{
	bool shared = branch->flags & BRANCH_RO;
	int fd = atomic_load(&branch->lock) - 1;

	if (fd >= 0 && is_linked(root, fd))
		return 0;
	branch_unlock(branch);
	return say_unlocked(branch, try_lock(branch, root, shared), shared);
}

bool branch_lock_resume(struct branch *branch)
{
	int fd = fd_store_take(FD_STORE_LOCK + branch->id);

	atomic_store(&branch->lock, fd + 1);
	return fd >= 0;
}

void branch_unlock(struct branch *branch)
{
	int fd = atomic_exchange(&branch->lock, 0) - 1;

	if (fd < 0)
		return;
	fd_store_drop(FD_STORE_LOCK + branch->id);
	fd_close(fd);
}
