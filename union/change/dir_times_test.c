/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of directories stay as they are while copies of them are made,
 * removed and changed for a move. A server may be killed at any system call of
 * that, before it and after it, and another goes on. Times set by then are
 * seen, now and later. Needs root (file handles).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/branch/intent.h"
#include "union/change/clone_dir.h"
#include "union/change/hidden_files.h"
#include "union/migrate/drain_dir.h"
#include "union/migrate/migrate_file.h"
#include "union/node/node_index.h"
#include "union/recover/handover.h"
#include "union/recover/unfinished.h"
#include "union/recover/unionfs_life.h"
#include "union/state/state.h"
#include "union/testkit/branches_kit.h"
#include "union/view/lookup.h"
#include "union/view/preserve_mtime.h"
#include "union/view/state_note.h"

#include <cmocka.h>

#define BRANCHES 2
#define OLD      1000000000 /* seconds, of the files before */
#define SET      900000000  /* and of times set then: before that */

/* The directories that are looked at: the root, "d" and "d/e", as there are. */
#define DIRS 3
static const char *const dir_paths[DIRS] = {"", "d", "d/e"};

/* State of all processes of one act. */
struct shared {
	struct stat before[DIRS];
};

static char place[BRANCHES_KIT_TOP - 8], top[BRANCHES_KIT_TOP];
static struct shared *shared;
static struct state state;
static struct unionfs *fs;
static struct node *dirs[DIRS]; /* NULL: there is none */

/* In a process of its own, so not by assert_true(). */
#define check(right) ((right) ? (void)0 : failed(__LINE__))

static void failed(int line)
{
	(void)fprintf(stderr, "line %d: errno %s\n", line,
		      strerrorname_np(errno));
	_exit(3);
}

static int root_fd(unsigned branch)
{
	return fs->branches.items[branch]->root_fd;
}

static void make_dir(unsigned branch, const char *path)
{
	check(mkdirat(root_fd(branch), path, 0755) == 0);
}

static void make_file(unsigned branch, const char *path)
{
	auto_close int fd = openat(root_fd(branch), path,
				   O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	check(fd >= 0 && write(fd, "one", 3) == 3);
}

/* Actions, and the state before each */

static void clone_to(unsigned dir, unsigned branch)
{
	struct dir_fd *made = NULL;
	int r = clone_dir(fs, dirs[dir], branch, &made);

	check(r == 0);
	dir_fd_put(made);
}

static void one_to_be_cloned(void)
{
	make_dir(1, "d");
}

static void clone_one(void)
{
	clone_to(1, 0);
}

static void path_to_be_cloned(void)
{
	make_dir(1, "d");
	make_dir(1, "d/e");
}

static void clone_path(void)
{
	clone_to(2, 0);
}

/* "d" of branch 0 is the directory, the file is hidden. */
static void in_place_of_a_file(void)
{
	make_dir(0, "d");
	make_file(1, "d");
}

static void clone_in_place(void)
{
	clone_to(1, 1);
}

static void on_both(void)
{
	make_dir(0, "d");
	make_dir(1, "d");
	make_file(1, "d/f");
}

/* Move the file, which a killed server may have done already. */
static void move_it(void)
{
	struct migrate_name name = {dirs[1], "f"};
	struct migrate_file move = {.from = fs->branches.items[1],
				    .to = fs->branches.items[0],
				    .names = &name,
				    .count = 1};
	struct copy *copy = node_copy_on(dirs[1], 1);
	struct dir_fd *dir = NULL;

	check(copy && unionfs_dir_fd(fs, copy, &dir) == 0);
	if (handle_get(dir->fd, "f", &move.file) == 0)
		check(migrate_file(fs, &move) == 0);
	dir_fd_put(dir);
}

static void both_with_another(void)
{
	path_to_be_cloned();
	make_dir(0, "d");
	make_dir(0, "d/e");
}

static void drain_it(void)
{
	struct dir_fd *dir = NULL;
	struct copy *copy = node_copy_on(dirs[1], 1);

	check(copy && unionfs_dir_fd(fs, copy, &dir) == 0);
	if (node_copy_on(dirs[2], 1))
		check(drain_dir(fs, fs->branches.items[1], dirs[1], dir->fd,
				dirs[2], "e") == 0);
	dir_fd_put(dir);
}

struct act {
	const char *name;
	void (*prepare)(void);
	void (*go)(void); /* also when it was done in part, or whole */
};

static const struct act acts[] = {
	{"a directory is cloned", one_to_be_cloned, clone_one},
	{"a path is cloned", path_to_be_cloned, clone_path},
	{"a directory is cloned in place of a file", in_place_of_a_file,
	 clone_in_place},
	{"a file moves", on_both, move_it},
	{"a directory leaves a branch", both_with_another, drain_it},
};

/* A process that serves */

static void set_back(int root, const char *path)
{
	const struct timespec old[2] = {{.tv_sec = OLD}, {.tv_sec = OLD}};
	auto_close int fd = openat(root, *path ? path : ".",
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		check(futimens(fd, old) == 0);
}

/* All that are there get old times, once our own directories are there. */
static void set_all_back(void)
{
	unsigned i, j;

	for (i = 0; i < BRANCHES; i++) {
		auto_close int work = branch_work_dir(fs->branches.items[i]);

		check(work >= 0);
		for (j = DIRS; j-- > 0;)
			set_back(root_fd(i), dir_paths[j]);
	}
}

static void find_dir(unsigned i)
{
	struct fuse_entry_param entry;
	const char *name = strrchr(dir_paths[i], '/');

	name = name ? name + 1 : dir_paths[i];
	dirs[i] = NULL;
	if (dirs[i - 1] &&
	    lookup_entry(fs, NULL, dirs[i - 1], name, NULL, &entry) == 0)
		dirs[i] = node_get(&fs->nodes, entry.ino);
}

static struct stat seen(unsigned i)
{
	struct stat st;

	check(unionfs_stat(fs, dirs[i], &st) == 0);
	return st;
}

static void add_branches(void)
{
	struct error err = {0};
	char path[BRANCHES_KIT_TOP + 16];
	unsigned i;

	fs = calloc(1, sizeof(*fs));
	check(fs);
	fs->state = &state;
	for (i = 0; i < BRANCHES; i++) {
		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		check(branch_add(&fs->branches, path, 0, &err) == 0);
	}
	policy_set_init(&fs->policies);
	state_note_settings(fs);
	for (i = 0; i < BRANCHES; i++)
		clone_dir_sweep(fs->branches.items[i]);
}

static void start_first(const struct act *act)
{
	struct error err = {0};
	unsigned i;

	add_branches();
	act->prepare();
	set_all_back();
	check(unionfs_init(fs, &err) == 0);
	dirs[0] = node_get(&fs->nodes, NODE_ROOT_ID);
	for (i = 1; i < DIRS; i++)
		find_dir(i);
	for (i = 0; i < DIRS; i++)
		if (dirs[i])
			shared->before[i] = seen(i);
}

/* Go on as mount.c does; no name is looked up before it is needed. */
static void go_on(void)
{
	struct error err = {0};
	unsigned i;

	add_branches();
	check(unionfs_init(fs, &err) == 0);
	unfinished_copies(fs);
	check(handover_recover_intents(fs, &err) >= 0);
	preserve_mtime_restore(fs);
	/* Their ids are those of before, in the order they were found. */
	for (i = 0; i < DIRS; i++)
		dirs[i] = node_get(&fs->nodes, NODE_ROOT_ID + i);
}

static bool is_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static void say_times(const char *whose, const struct stat *st)
{
	(void)fprintf(stderr, "%s: %lld.%09ld %lld.%09ld %lld.%09ld\n", whose,
		      (long long)st->st_atim.tv_sec, st->st_atim.tv_nsec,
		      (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
		      (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

/* Tell the times of a directory, and of its copies without what hides some. */
static void say_all_times(unsigned i, const struct stat *shown)
{
	struct copy *copy;
	struct stat st;

	(void)fprintf(stderr, "'%s': access, modification, change\n",
		      dir_paths[i]);
	say_times("before", &shared->before[i]);
	say_times("shown", shown);
	for (copy = node_first(dirs[i]); copy; copy = copy_next(copy)) {
		const struct quiet_change *quiet =
			&state.quiet[copy_place(&fs->nodes, copy) - 1];

		if (unionfs_stat_copy(fs, copy, &st) == 0)
			say_times("copy", &st);
		st.st_atim = quiet->shown;
		st.st_mtim = quiet->modified;
		st.st_ctim = quiet->after;
		if (copy_is(copy, COPY_QUIET))
			say_times("its quiet change: shown, modified, after",
				  &st);
	}
}

static void check_as_before(void)
{
	const struct stat *before;
	struct stat st;
	unsigned i;
	bool same;

	for (i = 0; i < DIRS; i++) {
		if (!dirs[i])
			continue;
		before = &shared->before[i];
		st = seen(i);
		same = is_time(&st.st_mtim, &before->st_mtim) &&
		       is_time(&st.st_atim, &before->st_atim) &&
		       is_time(&st.st_ctim, &before->st_ctim);
		if (!same)
			say_all_times(i, &st);
		check(same);
	}
}

/* Set times as a setattr that comes again before the request for a copy. */
static void set_times(const struct node *node)
{
	const struct timespec times[2] = {{.tv_sec = SET}, {.tv_sec = SET}};
	struct copy *copy;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		struct dir_fd *dir = NULL;

		check(unionfs_dir_fd(fs, copy, &dir) == 0);
		check(utimensat(dir->fd, "", times, AT_EMPTY_PATH) == 0);
		dir_fd_put(dir);
	}
}

static void check_set(void)
{
	unsigned i;

	for (i = 0; i < DIRS; i++)
		if (dirs[i])
			check(seen(i).st_mtim.tv_sec == SET);
}

static void be_traced(void)
{
	check(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	(void)raise(SIGSTOP);
}

static void do_first(const struct act *act)
{
	start_first(act);
	be_traced();
	act->go();
	check_as_before();
}

static void do_next(const struct act *act)
{
	unsigned i;

	go_on();
	check_as_before();
	for (i = 0; i < DIRS; i++)
		if (dirs[i])
			set_times(dirs[i]);
	check_set();
	act->go();
	check_set();
	/* A server without that state finds them so, too. */
	for (i = 1; i < DIRS; i++)
		if (dirs[i])
			find_dir(i);
	check_set();
}

/* Trace @pid to its @kill_at'th stop; 0: to its end. Returns its stops. */
static unsigned trace(pid_t pid, unsigned kill_at)
{
	unsigned stops = 0;
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status)); /* or it failed to start */
	for (;;) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		if (++stops == kill_at) {
			assert_int_equal(kill(pid, SIGKILL), 0);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			return stops;
		}
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return stops;
}

static pid_t start(void (*function)(const struct act *act),
		   const struct act *act)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		function(act);
		_exit(0);
	}
	return pid;
}

static void make_branches(void)
{
	char path[BRANCHES_KIT_TOP + 16];
	unsigned i;

	assert_int_equal(branches_kit_remove(top), 0);
	assert_int_equal(mkdir(top, 0700), 0);
	for (i = 0; i < BRANCHES; i++) {
		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

/* @kill_at: 0, or a stop of the @of that there were without a kill */
static unsigned run(const struct act *act, unsigned kill_at, unsigned of)
{
	unsigned stops;
	int status;
	pid_t pid;

	make_branches();
	assert_int_equal(state_create(&state), 0);
	stops = trace(start(do_first, act), kill_at);
	pid = start(do_next, act);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	state_done(&state);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("killed at stop %u of %u", kill_at, of);
	return stops;
}

static bool can_be_done(void)
{
	struct branch_table table = {0};
	char path[BRANCHES_KIT_TOP];
	bool can = branches_kit_make(path, &table) == 0 &&
		   table.count == BRANCHES;

	branch_table_done(&table);
	(void)branches_kit_remove(path);
	return can && geteuid() == 0;
}

static void times_stay_wherever_it_is_killed(void **context)
{
	const struct act *act = *context;
	unsigned at, stops;

	if (!can_be_done())
		skip();
	stops = run(act, 0, 0);
	assert_true(stops > 10);
	for (at = 1; at <= stops; at++)
		(void)run(act, at, stops);
}

/*
 * A directory is cloned after a move of a file out of it has changed it, and
 * its stat is read meanwhile.
 */
static void what_changes_quietly_is_not_cloned(void **unused)
{
	static const struct act act = {.prepare = on_both};
	struct preserve_mtime quietly;
	struct dir_fd *dir = NULL;
	struct fuse_entry_param entry;

	(void)unused;
	if (!can_be_done())
		skip();
	make_branches();
	assert_int_equal(state_create(&state), 0);
	start_first(&act);
	assert_int_equal(mkdirat(root_fd(0), "only", 0755), 0);
	set_back(root_fd(0), "only");
	set_back(root_fd(0), "");
	assert_int_equal(lookup_entry(fs, NULL, dirs[0], "only", NULL, &entry),
			 0);
	dirs[1] = node_get(&fs->nodes, entry.ino);
	shared->before[0] = seen(0);
	shared->before[1] = seen(1);
	assert_int_equal(unionfs_dir_fd(fs, node_first(dirs[1]), &dir), 0);
	assert_int_equal(preserve_mtime_begin(fs, 0, dir->fd, &quietly), 0);
	assert_int_equal(mkdirat(dir->fd, "x", 0755), 0);
	check_as_before();
	clone_to(1, 1);
	check_as_before();
	assert_int_equal(unlinkat(dir->fd, "x", AT_REMOVEDIR), 0);
	preserve_mtime_end(fs, dir->fd, &quietly);
	dir_fd_put(dir);
	check_as_before();
	unionfs_done(fs);
	state_done(&state);
}

/*
 * Let the branches be of a file system of which the kernel forgets no names.
 * Where it has, by /proc/sys/vm/drop_caches or for want of memory, it reads the
 * parent of a directory that is opened by handle, and sets its access time.
 */
static int mount_place(void)
{
	if (unshare(CLONE_NEWNS) < 0)
		return errno == EPERM ? 0 : -1; /* no root: all is skipped */
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			       mount("none", place, "tmpfs", 0, "mode=700") < 0
		       ? -1
		       : 0;
}

static int setup(void **unused)
{
	(void)unused;
	log_setup("dir_times_test", LOG_LEVEL_ERROR);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	(void)snprintf(place, sizeof(place), "/tmp/trib-times-XXXXXX");
	if (shared == MAP_FAILED || !mkdtemp(place) || mount_place() < 0)
		return -1;
	(void)snprintf(top, sizeof(top), "%s/top", place); /* fits */
	return 0;
}

static int done(void **unused)
{
	int r = branches_kit_remove(top);

	(void)unused;
	(void)umount2(place, MNT_DETACH); /* there may be none */
	return rmdir(place) < 0 ? -1 : r;
}

int main(void)
{
	struct CMUnitTest tests[array_size(acts) + 1] = {
		cmocka_unit_test(what_changes_quietly_is_not_cloned),
	};
	size_t i;

	for (i = 0; i < array_size(acts); i++)
		tests[i + 1] = (struct CMUnitTest){
			.name = acts[i].name,
			.test_func = times_stay_wherever_it_is_killed,
			.initial_state = (void *)&acts[i],
		};
	return cmocka_run_group_tests(tests, setup, done);
}
