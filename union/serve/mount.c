/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_lock.h"
#include "union/branch/branch_path.h"
#include "union/branch/branch_probe.h"
#include "union/branch/folding.h"
#include "union/branch/intent.h"
#include "union/change/act_as.h"
#include "union/change/clone_dir.h"
#include "union/change/rename_parts.h"
#include "union/config/options_branches.h"
#include "union/control/control.h"
#include "union/live/branch_recover.h"
#include "union/live/drain.h"
#include "union/live/mount_strict.h"
#include "union/live/remounted.h"
#include "union/migrate/room.h"
#include "union/open/branch_full.h"
#include "union/ops/ops.h"
#include "union/ops/reply.h"
#include "union/recover/handover.h"
#include "union/recover/saved_nodes.h"
#include "union/recover/unionfs_life.h"
#include "union/serve/fuse_threads.h"
#include "union/state/fd_store.h"
#include "union/sys/limits.h"
#include "union/view/preserve_mtime.h"
#include "union/view/state_note.h"

/* With a supervisor the same signal may come twice: by it, and to all of a
 * unit. */
#define SAME_SIGNAL_MS 1000

struct mounted {
	struct unionfs fs;
	int mountpoint_fd;       /* until the union is mounted; -1: it was
				  * before */
	struct control *control; /* NULL: not wanted */
	struct drains *drains;
	char *mountpoint;   /* absolute */
	char *control_path; /* absolute; NULL: none */
	pthread_t main_thread;
	void (*ready)(void *context);
	void *context;
};

static int check_mountpoint(struct mounted *m, const char *path,
			    struct error *err)
{
	const char *before = handover_mountpoint(&m->fs);
	struct stat st;

	if (before) { /* a stat of it would wait for us */
		m->mountpoint = strdup(before);
		m->fs.mountpoint = m->mountpoint;
		return m->mountpoint
			       ? 0
			       : error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	}
	if (stat(path, &st) < 0)
		return error_set(err, errno, "mount point '%s': %s%s", path,
				 strerror(errno),
				 errno == ENOTCONN
					 ? "; a dead mount is there: umount -l "
					   "it first"
					 : "");
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR,
				 "mount point '%s' is no directory", path);
	m->mountpoint = realpath(path, NULL);
	if (!m->mountpoint)
		return error_set(err, errno, "mount point '%s': %s", path,
				 strerror(errno));
	m->mountpoint_fd = open(m->mountpoint,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->mountpoint_fd < 0)
		return error_set(err, errno, "mount point '%s': %s", path,
				 strerror(errno));
	m->fs.mountpoint = m->mountpoint;
	state_note_mountpoint(&m->fs, m->mountpoint);
	return 0;
}

static bool is_around_or_inside(const struct mounted *m,
				const struct branch *branch)
{
	return branch_path_is_below(branch->path, m->mountpoint) ||
	       branch_path_is_below(m->mountpoint, branch->path) ||
	       (m->mountpoint_fd >= 0 &&
		branch_overlaps(branch, m->mountpoint_fd, m->mountpoint));
}

/* Tell whether only the place of a branch is kept. The log says why. */
static bool is_only_place(const struct branch_spec *spec)
{
	if (spec->flags & BRANCH_ABSENT)
		log_warning("branch '%s' is absent, as it was given: its names "
			    "are missing",
			    spec->path);
	else if (branch_is_absent(spec->path))
		log_warning(
			"branch '%s' is not used: it is empty and immutable, like "
			"the mount point of a missing disk",
			spec->path);
	else
		return false;
	return true;
}

static int add_one(struct mounted *m, const struct branch_spec *spec,
		   struct error *err)
{
	struct branch_table *table = &m->fs.branches;
	struct branch *branch;
	int r;

	if (is_only_place(spec))
		return branch_add_gone(table, spec->path, BRANCH_ABSENT, err);
	r = branch_add(table, spec->path, spec->flags, err);
	if (r < 0)
		return r;
	branch = table->items[table->count - 1];
	branch->min_free = spec->min_free;
	if (is_around_or_inside(m, branch))
		return error_set(err, EINVAL,
				 "mount point '%s' and branch '%s' are one in "
				 "the other",
				 m->mountpoint, branch->path);
	return 0;
}

/*
 * Refuse to mount while a branch is absent that a crash's leftovers need: they
 * are finished with all branches they are on. A branch that is given as absent
 * is not waited for.
 */
static int check_absent(const struct branch *absent,
			struct branch *const *present, unsigned count,
			struct error *err)
{
	unsigned i;

	if (!count)
		return error_set(
			err, ENODEV,
			"no branch can be used: each is absent, or the mount "
			"point of a missing disk");
	for (i = 0; absent && i < count; i++)
		if (!(present[i]->flags & BRANCH_RO) &&
		    intent_pending(present[i]) > 0)
			return error_set(
				err, ENODEV,
				"branch '%s' has renames or moves that a crash "
				"interrupted, and the disk of branch '%s' is "
				"not mounted; mount that first",
				present[i]->path, absent->path);
	return 0;
}

static int add_named(struct mounted *m, const struct union_options *options,
		     struct error *err)
{
	struct branch *present[BRANCH_MAX] = {NULL}, *branch, *absent = NULL;
	unsigned count = 0;
	size_t i;
	int r = 0;

	for (i = 0; i < options->branch_count && r == 0; i++) {
		r = add_one(m, &options->branches[i], err);
		if (r < 0)
			return r;
		branch = m->fs.branches.items[i];
		if (!(branch->flags & BRANCH_ABSENT))
			present[count++] = branch;
		else if (!(options->branches[i].flags & BRANCH_ABSENT))
			absent = branch;
	}
	remounted_hold(&m->fs);
	r = branch_lock(present, count, err);
	if (r == 0)
		r = check_absent(absent, present, count, err);
	for (i = 0; i < count && r == 0; i++) {
		r = folding_check(present[i], err);
		if (r == 0)
			folding_look(present[i]);
	}
	return r;
}

static int add_listed(struct mounted *m, const struct union_options *options,
		      struct error *err)
{
	struct union_options listed = {0};
	int r;

	if (!options->lists_later)
		return add_named(m, options, err);
	r = options_branches(&listed, options->list, err);
	if (r == 0)
		r = add_named(m, &listed, err);
	union_options_done(&listed);
	return r;
}

static int add_branches(struct mounted *m, const struct union_options *options,
			struct error *err)
{
	unsigned i;
	int r = handover_settings(&m->fs, err);

	if (r == 0)
		r = add_listed(m, options, err);
	fd_close(take_fd(&m->mountpoint_fd));
	if (r < 0)
		return r;
	remounted_hold(&m->fs);
	state_note_settings(&m->fs);
	for (i = 0; i < m->fs.branches.count; i++) {
		if (m->fs.branches.items[i]->flags & BRANCH_RO)
			continue;
		clone_dir_sweep(m->fs.branches.items[i]);
		rename_parts_sweep(m->fs.branches.items[i]);
	}
	return 0;
}

static int recover_intents(struct mounted *m, struct error *err)
{
	int r;

	act_as_thread_unlimited(); /* their callers had the room */
	r = handover_recover_intents(&m->fs, err);
	(void)act_as_thread_limited(); /* it was before */
	if (r > 0)
		log_info("'%s': %d interrupted renames were finished or "
			 "dropped",
			 m->mountpoint, r);
	return r < 0 ? r : 0;
}

static int escape_option(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	for (; *text; text++) {
		if (n + 3 > size)
			return -ENAMETOOLONG;
		if (*text == ',' || *text == '\\')
			buf[n++] = '\\';
		buf[n++] = *text;
	}
	buf[n] = '\0';
	return 0;
}

static int new_session(struct mounted *m, const struct union_options *options,
		       struct error *err)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	auto_free char *list = NULL;
	char name[2 * PATH_MAX], as_branches[32];

	if (escape_option(options->fsname, name, sizeof(name)) < 0)
		return error_set(err, EINVAL, "option 'fsname' is too long");
	mount_strict_options(&m->fs, as_branches);
	/* The union is a file system like a disk's: devices and setuid work. */
	if (asprintf(&list,
		     "default_permissions,suid,dev,subtype=trib-union,"
		     "fsname=%s%s%s%s",
		     name, options->allow_other ? ",allow_other" : "",
		     options->mount_flags ? options->mount_flags : "",
		     as_branches) < 0)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	if (fuse_opt_add_arg(&args, "trib-union") == 0 &&
	    fuse_opt_add_arg(&args, "-o") == 0 &&
	    fuse_opt_add_arg(&args, list) == 0)
		m->fs.session = fuse_session_new(&args, &unionfs_ops,
						 sizeof(unionfs_ops), &m->fs);
	fuse_opt_free_args(&args);
	return m->fs.session ? 0
			     : error_set(err, ENOMEM,
					 "libfuse does not start a session");
}

static void tell_ready(struct unionfs *fs)
{
	struct mounted *m = fs->ready_context;

	m->ready(m->context);
}

static void serve_done(void *context)
{
	const struct mounted *m = context;

	(void)pthread_kill(m->main_thread, SIGUSR1); /* it waits for us */
}

/* List the signals that are waited for; blocked here and in every thread. */
static sigset_t wait_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	return set;
}

static void unmount(const struct mounted *m)
{
	if (umount2(m->mountpoint, UMOUNT_NOFOLLOW) == 0 || errno != EBUSY)
		return;
	log_warning("'%s' is in use: it is detached now, and served until its "
		    "last user is gone",
		    m->mountpoint);
	(void)umount2(m->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW); /* gone */
}

/* Wait until the threads say that the union has ended. */
static void wait_for_unmount(const struct mounted *m, const sigset_t *set)
{
	int64_t asked_ms = 0; /* 0: nobody did */
	int signal_number = 0;

	while (signal_number != SIGUSR1) {
		if (sigwait(set, &signal_number) != 0 ||
		    signal_number == SIGUSR1)
			continue;
		if (asked_ms && fd_store_is_on() &&
		    clock_ms() - asked_ms < SAME_SIGNAL_MS)
			continue;
		if (asked_ms) {
			log_warning("'%s' is given up while in use",
				    m->mountpoint);
			_exit(1);
		}
		unmount(m);
		asked_ms = clock_ms();
	}
}

/*
 * Set the readahead at @path. A branch's own counts where data is passed
 * through to it.
 */
static void set_readahead(const char *path, uint64_t kib)
{
	auto_close int fd = -1;
	char file[64], text[32];
	struct statx st;
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)kib);

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0,
		  &st) < 0)
		return;
	(void)snprintf(file, sizeof(file), "/sys/class/bdi/%u:%u/read_ahead_kb",
		       st.stx_dev_major, st.stx_dev_minor); /* fits */
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) < 0)
		log_warning("'%s': its readahead is as it was: %s: %s", path,
			    file, strerror(errno));
}

static void set_readaheads(const struct mounted *m,
			   const struct union_options *options)
{
	unsigned i;

	if (!options->readahead || handover_mountpoint(&m->fs))
		return;
	for (i = 0; i < m->fs.branches.count; i++)
		if (!(m->fs.branches.items[i]->flags & BRANCH_GONE))
			set_readahead(m->fs.branches.items[i]->path,
				      options->readahead);
}

static int serve_mounted(struct mounted *m, unsigned threads, struct error *err)
{
	sigset_t set = wait_signals();
	struct fuse_threads *serve = NULL;
	int r;

	m->main_thread = pthread_self();
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* a valid set */
	r = reply_setup(
		&m->fs,
		handover_device(&m->fs, fuse_session_fd(m->fs.session)));
	if (r == 0)
		r = handover_replay_init(&m->fs);
	handover_list_buried(&m->fs);
	if (r == 0)
		r = branch_recover_start(&m->fs);
	if (r < 0)
		return error_set(err, -r, "start serving: %s", strerror(-r));
	r = remounted_start(&m->fs, !handover_mountpoint(&m->fs), err);
	if (r < 0)
		return r;
	handover_resend(&m->fs);
	r = fuse_threads_start(&m->fs, threads, serve_done, m, &serve);
	if (r < 0)
		return error_set(err, -r, "start serving: %s", strerror(-r));
	drains_resume(m->drains);
	room_start(m->fs.room);
	if (m->control &&
	    control_start(m->control, &m->fs, m->drains, m->mountpoint) < 0)
		log_warning("'%s': the control socket is not served: no "
			    "thread could be started",
			    m->mountpoint);
	wait_for_unmount(m, &set);
	remounted_stop();
	r = fuse_threads_finish(serve);
	control_close(take_ptr(m->control));
	room_stop(m->fs.room);
	branch_full_free(take_ptr(m->fs.branch_full));
	drains_free(take_ptr(m->drains));
	saved_nodes_write(&m->fs);
	return r < 0 ? error_set(err, -r, "serving '%s': %s", m->mountpoint,
				 strerror(-r))
		     : 0;
}

static int mount_union(struct mounted *m, const struct union_options *options,
		       struct error *err)
{
	char fd_path[32] = "";
	int r = new_session(m, options, err);

	if (r < 0)
		return r;
	if (handover_fuse_fd(&m->fs) >= 0)
		(void)snprintf(fd_path, sizeof(fd_path), "/dev/fd/%d",
			       handover_fuse_fd(&m->fs)); /* fits */
	handover_note_mounting(&m->fs);
	if (fuse_session_mount(m->fs.session,
			       *fd_path ? fd_path : m->mountpoint) < 0) {
		r = error_set(err, EIO,
			      "mount at '%s' failed; is /dev/fuse there?",
			      m->mountpoint);
	} else {
		set_readaheads(m, options);
		handover_note_mounted(&m->fs);
		r = serve_mounted(m, options->threads, err);
		fuse_session_unmount(m->fs.session);
	}
	fuse_session_destroy(m->fs.session);
	return r;
}

static void begin_as_mounted(struct mounted *m,
			     const struct union_options *options)
{
	const char *before = handover_mountpoint(&m->fs);
	struct mount_words now;
	bool seen = before && mount_strict_own(before, &now);

	remounted_begin(&m->fs, options, before != NULL, seen ? &now : NULL);
}

int mount_serve(const struct union_options *options, void (*ready)(void *),
		void *context, struct error *err)
{
	struct mounted *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	m->mountpoint_fd = -1;
	m->ready = ready;
	m->context = context;
	m->fs.ready = tell_ready;
	m->fs.ready_context = m;
	policy_set_copy(&m->fs.policies, &options->policies);
	m->fs.min_free = options->min_free;
	m->fs.statfs_ignore = options->statfs_ignore;
	m->fs.timeout = (double)options->cache_timeout;
	m->fs.want_passthrough = options->passthrough;
	m->fs.shared = options->shared;
	m->fs.branch_timeout_ms = (int64_t)options->branch_timeout * 1000;
	m->fs.lists_quietly = options->lists_quietly;
	m->fs.numbers = options->numbers;
	m->fs.hides_capabilities = options->hides_capabilities;
	m->fs.forgets_nothing = options->forgets_nothing;
	mount_strict_begin(options->mount_flags);
	limits_raise(); /* needs what goes next */
	r = act_as_thread_limited();
	r = r < 0 ? error_set(err, -r, "obey quotas: %s", strerror(-r))
		  : handover_begin(&m->fs, options, err);
	if (r == 0)
		begin_as_mounted(m, options);
	if (r == 0)
		r = check_mountpoint(m, options->mountpoint, err);
	if (r == 0)
		r = add_branches(m, options, err);
	if (r == 0)
		r = unionfs_init(&m->fs, err);
	if (r == 0)
		r = recover_intents(m, err);
	if (r == 0)
		preserve_mtime_restore(&m->fs);
	if (r == 0) {
		m->drains = drains_new(&m->fs, m->mountpoint);
		if (!m->drains)
			r = error_set(err, ENOMEM, "%s", strerror(ENOMEM));
		m->fs.drains = m->drains;
		m->fs.branch_full = branch_full_new(&m->fs);
	}
	if (r == 0 && options->control)
		r = control_open(options->control, &m->control, err);
	if (m->control)
		m->fs.control_path = m->control_path = realpath(
			options->control, NULL);
	if (r == 0)
		r = mount_union(m, options, err);
	control_close(m->control);
	room_stop(m->fs.room);
	branch_full_free(m->fs.branch_full);
	drains_free(m->drains);
	if (!branch_recover_stop() || branch_probe_is_busy())
		/* A branch hangs: its requests still use our memory. */
		_exit(r < 0 ? 1 : 0);
	unionfs_done(&m->fs);
	handover_end(&m->fs);
	free(m->control_path);
	free(m->mountpoint);
	free(m);
	return r;
}
