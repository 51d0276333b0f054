/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_health.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/atime.h"
#include "union/branch/branch_lock.h"
#include "union/branch/branch_try.h"
#include "union/state/state.h"
#include "union/sys/proc_path.h"

static _Atomic uint32_t own_mark = 1;
static _Atomic uint32_t *doubt_mark = &own_mark;
static void (*_Atomic on_change)(struct branch *branch);

/* Guards changes of the variables above and of a branch's health. */
static pthread_mutex_t change_lock = PTHREAD_MUTEX_INITIALIZER;

void branch_health_watch(void (*changed)(struct branch *branch))
{
	atomic_store(&on_change, changed);
}

static void log_health(struct branch *branch)
{
	void (*changed)(struct branch * branch) = atomic_load(&on_change);

	if (changed)
		changed(branch);
}

/*
 * Let go of the root, so that the dead file system can be unmounted and mounted
 * anew. The descriptor in its place is no directory and opens no handle.
 */
static void let_go_of_root(struct branch *branch)
{
	auto_close int nothing = memfd_create("no-branch", MFD_CLOEXEC);
	auto_close int fd = -1;
	char path[PROC_PATH_MAX];

	if (nothing >= 0)
		fd = open(proc_path(path, nothing, ""), O_PATH | O_CLOEXEC);
	if (fd >= 0)
		/* At worst the old descriptor stays. */
		(void)dup3(fd, branch->root_fd, O_CLOEXEC);
}

/* Begin the doubt, with the lock, before any request gets a result of it. */
static void begin_doubt(struct branch *branch)
{
	if (branch->record)
		atomic_store(&branch->record->doubted, true);
	if (!branch->doubted)
		atomic_fetch_add(&branch_doubted, 1);
	branch->doubted = true;
}

void branch_fail(struct branch *branch, int error)
{
	unsigned long long bit = 1ull << branch->id % 64;
	bool changed;

	pthread_mutex_lock(&change_lock);
	changed = !atomic_load(&branch->failed);
	if (changed) {
		begin_doubt(branch);
		atomic_store(&branch->failed, error);
		atomic_fetch_add(&branch->failures, 1);
		atomic_fetch_or(&branch_failed_set[branch->id / 64], bit);
		let_go_of_root(branch);
		atime_let_go(branch);
		branch_unlock(branch); /* the lock would keep it, too */
	}
	pthread_mutex_unlock(&change_lock);
	if (!changed)
		return;
	log_write(LOG_LEVEL_ERROR,
		  "branch '%s' failed (%s): files that are on no other "
		  "branch are EIO until it is back",
		  branch->path, strerror(error));
	log_health(branch);
}

void branch_set_turned_ro(struct branch *branch, bool ro)
{
	if (atomic_exchange(&branch->turned_ro, ro) == ro)
		return;
	if (!ro) {
		log_info("branch '%s' can be changed again", branch->path);
		return;
	}
	log_write(LOG_LEVEL_ERROR,
		  "branch '%s' turned read-only: new names go elsewhere",
		  branch->path);
	log_health(branch);
}

static bool is_damage(int r)
{
	return r == -EUCLEAN || r == -EBADMSG;
}

static void note_damage(struct branch *branch, int r)
{
	if (branch->record)
		atomic_store(&branch->record->damaged, true);
	if (!atomic_exchange(&branch->damaged, true))
		log_warning("branch '%s': its file system says that something "
			    "on it is damaged (%s); check it when it is not "
			    "mounted",
			    branch->path, strerror(-r));
}

/* Does @r, an error of one object, hold for the whole branch? */
static void look_at(struct branch *branch, int r)
{
	int tried = branch_try(branch);

	if (is_damage(r))
		note_damage(branch, r);
	if (tried == -EROFS)
		branch_set_turned_ro(branch, true);
	else if (tried < 0)
		branch_fail(branch, branch_is_failure(tried) ? -tried : -r);
}

int branch_report_error(struct branch *branch, int r)
{
	if (branch_is_failure(r) ||
	    (r == -EROFS && !(atomic_load(&branch->flags) & BRANCH_RO) &&
	     !atomic_load(&branch->turned_ro)))
		look_at(branch, r);
	return r;
}

void branch_revive(struct branch *branch, int root_fd, dev_t device)
{
	unsigned long long bit = 1ull << branch->id % 64;
	struct handle handle;
	int mount_id;

	pthread_mutex_lock(&change_lock);
	if (handle_get_on(root_fd, "", &handle, &mount_id) == 0)
		atomic_store(&branch->mount_id, mount_id);
	if (dup3(root_fd, branch->root_fd, O_CLOEXEC) >= 0) {
		branch->device = device;
		atomic_store(&branch->failed, 0);
		atomic_fetch_and(&branch_failed_set[branch->id / 64], ~bit);
	}
	pthread_mutex_unlock(&change_lock);
}

void branch_trust(struct branch *branch)
{
	pthread_mutex_lock(&change_lock);
	if (branch->doubted && !atomic_load(&branch->failed)) {
		branch->doubted = false;
		if (atomic_fetch_sub(&branch_doubted, 1) == 1 &&
		    atomic_fetch_add(doubt_mark, 1) == UINT32_MAX)
			atomic_store(doubt_mark, 1);
		if (branch->record)
			atomic_store(&branch->record->doubted, false);
	}
	pthread_mutex_unlock(&change_lock);
}

void branch_keep_doubt_mark(_Atomic uint32_t *mark)
{
	if (mark && !atomic_load(mark))
		atomic_store(mark, atomic_load(doubt_mark));
	doubt_mark = mark ? mark : &own_mark;
}

unsigned branch_doubt_mark(void)
{
	return atomic_load(doubt_mark);
}

struct branches_ill branch_table_ill(const struct branch_table *table)
{
	struct branches_ill ill = {0};
	const struct branch *branch;
	unsigned i;

	for (i = 0; i < table->count; i++) {
		branch = table->items[i];
		ill.failures += atomic_load(&branch->failures);
		if (atomic_load(&branch->failed))
			ill.failed++;
		else
			ill.read_only += atomic_load(&branch->turned_ro);
	}
	return ill;
}
