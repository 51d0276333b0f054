/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/remounted.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/atime.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_lock.h"
#include "union/branch/intent.h"
#include "union/change/clone_dir.h"
#include "union/change/rename_parts.h"
#include "union/live/drain.h"
#include "union/live/mount_strict.h"
#include "union/live/settings.h"
#include "union/migrate/relocate.h"
#include "union/state/state.h"
#include "union/view/state_note.h"

#define STRICT    (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define OF_ACCESS (MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME)

/* Not every libfuse takes these. */
#define LATER (OF_ACCESS | MOUNT_ATTR_NOSYMFOLLOW)

#define SETTLE_MS 200 /* changes of the table together are one */

static void note_read_only(struct unionfs *fs, bool read_only)
{
	fs->read_only = read_only;
	if (fs->state)
		atomic_store(&fs->state->header->read_only, read_only);
}

static void note_said(const struct unionfs *fs, uint64_t which, uint64_t said)
{
	mount_strict_say(which, said);
	if (fs->state)
		atomic_store(&fs->state->header->said, mount_strict_said());
}

void remounted_begin(struct unionfs *fs, const struct union_options *options,
		     bool goes_on, const struct mount_words *now)
{
	fs->options = options;
	if (!goes_on) {
		note_said(fs, 0, options->words.said);
		note_read_only(fs, options->read_only);
		return;
	}
	note_said(fs, UINT64_MAX, atomic_load(&fs->state->header->said));
	/* A mount that is writable now becomes so by remounted_follow(). */
	note_read_only(fs, atomic_load(&fs->state->header->read_only) ||
				   (now && now->fs_set & MOUNT_FS_RO));
}

void remounted_hold(struct unionfs *fs)
{
	struct branch *branch;
	unsigned i;

	for (i = 0; fs->read_only && i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		if (!(branch->flags & (BRANCH_RO | BRANCH_GONE)))
			atomic_fetch_or(&branch->flags,
					BRANCH_RO | BRANCH_HELD);
	}
}

static void make_read_only(struct unionfs *fs)
{
	pthread_mutex_lock(&fs->branch_changes);
	note_read_only(fs, true);
	remounted_hold(fs);
	state_note_settings(fs);
	pthread_mutex_unlock(&fs->branch_changes);
	drains_pause(fs->drains);
	log_info("'%s' is read-only now", fs->mountpoint);
}

static bool is_to_change(const struct branch *branch)
{
	struct statvfs space;

	return branch->flags & BRANCH_HELD && branch_usable(branch->id) &&
	       fstatvfs(branch->root_fd, &space) == 0 &&
	       !(space.f_flag & ST_RDONLY);
}

static int check_branch_writable(struct branch *branch, struct error *err)
{
	int r = branch_lock_to_write(branch, err);

	if (r < 0)
		return r;
	r = intent_pending(branch);
	if (r < 0)
		return error_set(err, -r, "branch '%s': read '%s': %s",
				 branch->path, BRANCH_WORK_DIR, strerror(-r));
	return r > 0 ? error_set(err, EBUSY,
				 "branch '%s' has %d renames that a crash "
				 "interrupted: unmount the union, and mount it "
				 "writable to finish them",
				 branch->path, r)
		     : 0;
}

/* Remove leftovers, before the branch's flags let anything be made on it. */
static void sweep(const struct branch *branch)
{
	clone_dir_sweep(branch);
	rename_parts_sweep(branch);
	relocate_sweep(branch);
}

static void let_branch_go(struct branch *branch)
{
	struct statvfs space;
	bool stays = branch_usable(branch->id) &&
		     fstatvfs(branch->root_fd, &space) == 0 &&
		     space.f_flag & ST_RDONLY;

	if (branch->flags & BRANCH_HELD)
		atomic_fetch_and(&branch->flags,
				 ~(BRANCH_HELD | (stays ? 0 : BRANCH_RO)));
}

static int make_writable(struct unionfs *fs, struct error *err)
{
	unsigned i, count;
	int r = 0;

	pthread_mutex_lock(&fs->branch_changes);
	count = fs->branches.count;
	for (i = 0; i < count && r == 0; i++)
		if (is_to_change(fs->branches.items[i]))
			r = check_branch_writable(fs->branches.items[i], err);
	for (i = 0; i < count && r == 0; i++)
		if (is_to_change(fs->branches.items[i]))
			sweep(fs->branches.items[i]);
	if (r == 0) {
		for (i = 0; i < count; i++)
			let_branch_go(fs->branches.items[i]);
		note_read_only(fs, false);
		state_note_settings(fs);
	}
	pthread_mutex_unlock(&fs->branch_changes);
	if (r < 0)
		return r;
	log_info("'%s' is writable now", fs->mountpoint);
	drains_resume(fs->drains);
	return 0;
}

/* Make the mount read-only again, so that the table says so. */
static void remount_read_only(const struct unionfs *fs)
{
	auto_close int fd = fspick(AT_FDCWD, fs->mountpoint,
				   FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);

	if (fd < 0 || fsconfig(fd, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
	    fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		log_warning("'%s' is mounted writable, and nothing can be "
			    "changed: %s",
			    fs->mountpoint, strerror(errno));
}

static int follow_writes(struct unionfs *fs, bool read_only, struct error *err)
{
	int r = 0;

	if (read_only && !fs->read_only) {
		make_read_only(fs);
	} else if (!read_only && fs->read_only) {
		r = make_writable(fs, err);
		if (r < 0)
			remount_read_only(fs);
	}
	return r;
}

/*
 * Tell which access times were asked for, by whatever way: relatime is the
 * kernel's default.
 */
static uint64_t said_of_access(const struct mount_words *now)
{
	uint64_t said = mount_strict_said() & OF_ACCESS;

	if ((now->set & MOUNT_ATTR__ATIME) != MOUNT_ATTR_RELATIME)
		said |= MOUNT_ATTR__ATIME;
	return said | (now->set & MOUNT_ATTR_NODIRATIME);
}

static int follow_access(struct unionfs *fs, const struct mount_words *now,
			 struct error *err)
{
	uint64_t said = said_of_access(now);
	int r;

	note_said(fs, OF_ACCESS, said);
	pthread_mutex_lock(&fs->branch_changes);
	r = atime_set(&fs->branches, said, now->set);
	pthread_mutex_unlock(&fs->branch_changes);
	return r < 0 ? error_set(err, -r,
				 "access times of branches are not as the "
				 "union's mount says: %s",
				 strerror(-r))
		     : 0;
}

static bool writes_pass(const struct unionfs *fs)
{
	unsigned i;

	for (i = 0; i < fs->branches.count; i++)
		if (atomic_load(&fs->branches.items[i]->passed_writers))
			return true;
	return false;
}

static void follow_sync(struct unionfs *fs, unsigned set)
{
	bool syncs = set & MOUNT_FS_SYNC;

	atomic_store(&fs->dirsyncs, set & MOUNT_FS_DIRSYNC);
	if (atomic_exchange(&fs->syncs, syncs) != syncs && syncs &&
	    writes_pass(fs))
		log_warning(
			"'%s': files that are open for writing are not sync before "
			"they are closed",
			fs->mountpoint);
}

/*
 * Follow what the table says of the mount @now. A mount that cannot become
 * writable is made read-only again.
 */
static int follow_table(struct unionfs *fs, const struct mount_words *now,
			struct error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int r;

	pthread_mutex_lock(&lock);
	follow_sync(fs, now->fs_set);
	r = follow_writes(fs, now->fs_set & MOUNT_FS_RO, err);
	if (r == 0)
		r = follow_access(fs, now, err);
	pthread_mutex_unlock(&lock);
	return r;
}

/*
 * Look at the table of mounts now: by one thread at a time, without
 * fs->branch_changes. 0, or -errno with @err: a part of it cannot be so, and is
 * as it was.
 */
static int remounted_follow(struct unionfs *fs, struct error *err)
{
	struct mount_words now;
	int r = mount_strict_look(fs, NULL);

	if (r < 0)
		return error_set(err, -r,
				 "it could not become as strict as its "
				 "branches: %s",
				 strerror(-r));
	/* Not seen, as it is detached, or hidden: it stays as it was. */
	return mount_strict_own(fs->mountpoint, &now)
		       ? follow_table(fs, &now, err)
		       : 0;
}

/* ---- the thread ---- */

/* Set the options that libfuse does not take for the mount. */
static int set_said(const struct unionfs *fs)
{
	const struct mount_words *words = &fs->options->words;
	uint64_t said = words->said & LATER;
	struct mount_attr change = {.attr_set = words->set & said,
				    .attr_clr = said & ~words->set};

	if (said & MOUNT_ATTR__ATIME)
		change.attr_clr |= MOUNT_ATTR__ATIME;
	return said && mount_setattr(AT_FDCWD, fs->mountpoint, AT_NO_AUTOMOUNT,
				     &change, sizeof(change)) < 0
		       ? -errno
		       : 0;
}

/* One union a process. */
static struct {
	pthread_t thread;
	int stop;  /* an eventfd; -1: there is no thread */
	int table; /* of mounts: readable when it has changed */
	struct unionfs *fs;
} follower = {.stop = -1, .table = -1};

static void *follow_main(void *unused)
{
	struct pollfd fds[] = {{.fd = follower.stop, .events = POLLIN},
			       {.fd = follower.table, .events = POLLPRI}};

	(void)unused;
	while (poll(fds, array_size(fds), -1) < 0 || !fds[0].revents) {
		struct error err = {0};

		if (poll(fds, 1, SETTLE_MS) > 0)
			break;
		if (remounted_follow(follower.fs, &err) < 0)
			log_warning("'%s': %s", follower.fs->mountpoint,
				    error_text(&err));
	}
	return NULL;
}

int remounted_start(struct unionfs *fs, bool fresh, struct error *err)
{
	struct error why = {0};
	int r;

	follower.fs = fs;
	r = fresh ? set_said(fs) : 0;
	if (r < 0)
		return error_set(err, -r, "set the options of the mount: %s",
				 strerror(-r));
	/* Changes from here on wake the thread; those before are looked for
	 * here. */
	follower.table = open(MOUNT_STRICT_TABLE, O_RDONLY | O_CLOEXEC);
	if (follower.table < 0)
		return error_set(err, errno, "follow mounts: %s: %s",
				 MOUNT_STRICT_TABLE, strerror(errno));
	r = remounted_follow(fs, &why);
	if (r < 0 && fresh && fs->branches.atime_said)
		return error_set(err, -r, "%s", error_text(&why));
	if (r < 0)
		log_warning("'%s': %s", fs->mountpoint, error_text(&why));
	follower.stop = eventfd(0, EFD_CLOEXEC);
	if (follower.stop < 0)
		return error_set(err, errno, "follow mounts: %s",
				 strerror(errno));
	r = pthread_create(&follower.thread, NULL, follow_main, NULL);
	if (r != 0)
		fd_close(take_fd(&follower.stop));
	return r ? error_set(err, r, "follow mounts: %s", strerror(r)) : 0;
}

void remounted_stop(void)
{
	if (follower.stop < 0)
		return;
	(void)eventfd_write(follower.stop, 1); /* it cannot be full */
	(void)pthread_join(follower.thread, NULL);
	fd_close(take_fd(&follower.stop));
	fd_close(take_fd(&follower.table));
}

/* ---- mount -o remount ---- */

/* libmount makes an absolute path of a relative one. */
static bool is_source(const struct union_options *options, const char *spec)
{
	size_t length = strlen(spec), given = strlen(options->list);

	if (!*spec || strcmp(spec, options->list) == 0 ||
	    strcmp(spec, options->fsname) == 0)
		return true;
	return length > given && spec[length - given - 1] == '/' &&
	       strcmp(spec + length - given, options->list) == 0;
}

/* What the options will say, once the remount is applied. */
static struct {
	uint64_t ends, says;
} next;

/*
 * Note what a remount will say, before the mount changes. Options that mount(8)
 * only repeats say nothing.
 */
static void note_next(const struct unionfs *fs, const struct mount_words *words,
		      bool whole)
{
	struct mount_words now, changed = *words;

	next.ends = whole ? STRICT & ~words->said : 0;
	if (whole && mount_strict_own(fs->mountpoint, &now))
		mount_words_complete(&changed, &now);
	next.says = changed.said & words->said;
}

static int check(const struct unionfs *fs, const char *spec,
		 const struct union_change *change, struct error *err)
{
	const struct mount_words *words = &change->words;

	if (!is_source(fs->options, spec))
		return error_set(err, EINVAL,
				 "the branches are '%s', not '%s': they are "
				 "changed by 'trib-union --control', or by a "
				 "new mount",
				 fs->options->list, spec);
	if (words->fs_said & MOUNT_FS_DIRSYNC && !fs->dirsyncs)
		return error_set(err, EINVAL,
				 "option 'dirsync' cannot come while it is "
				 "mounted: unmount, and mount it so; 'sync' "
				 "can");
	if (words->fs_set & MOUNT_FS_SYNC && !fs->syncs && writes_pass(fs))
		return error_set(err, EBUSY,
				 "option 'sync' cannot come while files are "
				 "open for writing");
	return settings_check(change->settings, change->count, err);
}

static int apply_change(struct unionfs *fs, const struct union_change *change,
			struct error *err)
{
	int r = change->count ? settings_change(fs, change->settings,
						change->count, err)
			      : 0;

	note_said(fs, next.ends, next.says);
	return r < 0 ? r : remounted_follow(fs, err);
}

void remounted_answer(struct unionfs *fs, struct remount_call *call)
{
	struct union_change change = {0};
	struct error err = {0};
	char *list;
	int r;

	call->text[sizeof(call->text) - 1] = '\0';
	list = strchr(call->text, '\n');
	if (!list) {
		call->error = EINVAL;
		call->text[0] = '\0';
		return;
	}
	*list++ = '\0';
	r = union_options_change(fs->options, list, &change, &err);
	if (r == 0)
		r = call->step == REMOUNT_CHECK
			    ? check(fs, call->text, &change, &err)
			    : apply_change(fs, &change, &err);
	if (r == 0 && call->step == REMOUNT_CHECK)
		note_next(fs, &change.words, call->whole);
	union_change_done(&change);
	call->error = -r;
	(void)snprintf(call->text, sizeof(call->text), "%s",
		       r < 0 ? error_text(&err) : ""); /* fits */
}
