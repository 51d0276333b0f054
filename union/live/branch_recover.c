/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/branch_recover.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/atime.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_lock.h"
#include "union/branch/branch_try.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"
#include "union/live/kernel_invalidate.h"
#include "union/live/mount_strict.h"
#include "union/state/stuck_server.h"
#include "union/state/thread_branches.h"
#include "union/view/name_filter.h"
#include "union/view/state_note.h"

#define STOP_PATIENCE_MS 2000

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* stopping, or a thread ended */
	struct unionfs *fs;
	bool on; /* else nobody is watched */
	unsigned threads;
	bool has_thread[BRANCH_MAX];
	unsigned wait_ms[BRANCH_MAX]; /* before the next try */
	int64_t healed_ms[BRANCH_MAX];
} heal = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Open the directory at the branch's path, if it is the branch: its root, or
 * -errno.
 */
static int open_same(const struct branch *branch)
{
	auto_close int fd = open(branch->path,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct branch_identity identity;
	int r;

	if (fd < 0)
		return -errno;
	r = branch_identity_get(fd, &identity);
	if (r < 0)
		return r;
	if (!branch_identity_equal(&identity, &branch->identity))
		return -EXDEV;
	return take_fd(&fd);
}

int branch_recover_try(const struct branch *branch)
{
	auto_close int root = open_same(branch);

	if (root < 0)
		return root;
	return branch_try_root(root, !(branch->flags & BRANCH_RO));
}

static int bring_back(struct branch *branch, int root)
{
	struct stat st;
	int r;

	if (fstat(root, &st) < 0)
		return -errno;
	r = branch_lock_again(branch, root);
	if (r == 0)
		r = branch_try_root(root, !(branch->flags & BRANCH_RO));
	if (r < 0 && r != -EROFS)
		return r;
	/* Descriptors opened in the moment of the failure are of the old
	 * directory. */
	dir_fd_drop_branch(branch->id);
	/* The branch may have lost the last changes, removals too. */
	name_filter_forget_branch(branch->id);
	branch_set_turned_ro(branch, r == -EROFS);
	branch_revive(branch, root, st.st_dev);
	/* A server that began without the branch did not see its notes. */
	ino_preserve_look(branch);
	r = atime_begin(&heal.fs->branches, branch);
	if (r < 0)
		branch_fail(branch, -r);
	if (r < 0)
		return r;
	/* The branch may be mounted in another way now; a failure is told of
	 * later. */
	(void)mount_strict_look(heal.fs, NULL);
	state_note_mount(heal.fs, branch);
	branch_space_changed(branch);
	r = kernel_invalidate_again(heal.fs, branch);
	if (r < 0)
		branch_fail(branch, EIO); /* and once more from the start */
	else
		branch_trust(branch);
	return r;
}

/*
 * Try to bring a failed branch back.
 *
 * @last  the result of the last try; another one is logged
 */
static bool heal_failed(struct branch *branch, int *last)
{
	auto_close int root = -1;
	int r;

	if (stuck_server_withholds(branch->id))
		return false;
	dir_fd_drop_branch(branch->id);
	r = root = open_same(branch);
	if (r >= 0)
		r = bring_back(branch, root);
	if (r >= 0) {
		log_info("branch '%s' is back", branch->path);
		return true;
	}
	if (r == -EXDEV && *last != r)
		log_warning("branch '%s': another file system is in its "
			    "place; it is not used",
			    branch->path);
	if (r == -EBUSY && *last != r)
		log_warning("branch '%s': another union has it now; it is not "
			    "used",
			    branch->path);
	branch_unlock(branch);
	*last = r;
	return false;
}

static bool heal_read_only(struct branch *branch)
{
	struct statvfs space;

	if (fstatvfs(branch->root_fd, &space) < 0 || space.f_flag & ST_RDONLY ||
	    branch_report(branch, branch_try_root(branch->root_fd, true)) < 0)
		return false;
	branch_set_turned_ro(branch, false);
	return true;
}

/* Wait until the next try. With the lock. False: recovery has ended. */
static bool wait_for_try(const struct branch *branch)
{
	unsigned *wait = &heal.wait_ms[branch->id];
	int64_t until;
	struct timespec at;

	if (stuck_server_withholds(branch->id))
		*wait = HEAL_FIRST_MS; /* to look costs nothing */
	until = clock_ms() + *wait;
	at = (struct timespec){until / 1000, until % 1000 * 1000000};
	*wait = *wait * 2 > HEAL_LAST_MS ? HEAL_LAST_MS : *wait * 2;
	while (heal.on && clock_ms() < until)
		(void)pthread_cond_timedwait(&heal.changed, &heal.lock, &at);
	return heal.on;
}

static void *recover_main(void *context)
{
	struct branch *branch = context;
	struct state_thread own, *thread = thread_branches_take(&own);
	int last = 0;

	thread_branches_note(thread, branch->id);
	pthread_mutex_lock(&heal.lock);
	while (!branch_is_well(branch) && wait_for_try(branch)) {
		pthread_mutex_unlock(&heal.lock);
		dir_fd_changes_begin();
		if (!branch_usable(branch->id))
			(void)heal_failed(branch, &last); /* or next time */
		else
			(void)heal_read_only(branch);
		dir_fd_changes_end();
		pthread_mutex_lock(&heal.lock);
	}
	thread_branches_give(thread);
	heal.healed_ms[branch->id] = clock_ms();
	heal.has_thread[branch->id] = false;
	heal.threads--;
	pthread_cond_broadcast(&heal.changed);
	pthread_mutex_unlock(&heal.lock);
	return NULL;
}

/* With the lock. */
static void start_recover_thread(struct branch *branch)
{
	unsigned id = branch->id;
	pthread_attr_t attr;
	pthread_t thread;

	if (!heal.wait_ms[id] || clock_ms() - heal.healed_ms[id] > HEAL_CALM_MS)
		heal.wait_ms[id] = HEAL_FIRST_MS;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, recover_main, branch) == 0) {
		heal.has_thread[id] = true;
		heal.threads++;
	} else {
		log_warning("branch '%s' will not come back by itself: no "
			    "thread could be started",
			    branch->path);
	}
	pthread_attr_destroy(&attr);
}

static void changed(struct branch *branch)
{
	dir_fd_drop_branch(branch->id);
	pthread_mutex_lock(&heal.lock);
	if (heal.on && !heal.has_thread[branch->id])
		start_recover_thread(branch);
	pthread_mutex_unlock(&heal.lock);
}

/*
 * Let the branch be tried soon: it failed to an earlier server, and may be back
 * since.
 */
static void try_soon(unsigned id)
{
	heal.wait_ms[id] = HEAL_AGAIN_MS;
	heal.healed_ms[id] = clock_ms();
}

int branch_recover_start(struct unionfs *fs)
{
	pthread_condattr_t attr;
	unsigned i;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	r = pthread_cond_init(&heal.changed, &attr);
	pthread_condattr_destroy(&attr);
	if (r)
		return -r;
	heal.fs = fs;
	heal.on = true;
	branch_health_watch(changed);
	for (i = 0; i < fs->branches.count; i++)
		if (!branch_is_well(fs->branches.items[i])) {
			try_soon(i);
			changed(fs->branches.items[i]);
		}
	return 0;
}

bool branch_recover_stop(void)
{
	int64_t until = clock_ms() + STOP_PATIENCE_MS;
	struct timespec at = {until / 1000, until % 1000 * 1000000};
	bool none;

	branch_health_watch(NULL);
	pthread_mutex_lock(&heal.lock);
	if (heal.on)
		pthread_cond_broadcast(&heal.changed);
	heal.on = false;
	while (heal.threads && clock_ms() < until)
		(void)pthread_cond_timedwait(&heal.changed, &heal.lock, &at);
	none = heal.threads == 0;
	pthread_mutex_unlock(&heal.lock);
	return none;
}
