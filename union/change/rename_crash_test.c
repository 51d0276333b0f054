/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames over two branches, and a loss of power at every point of them. An
 * unsynced change is on the disk or not, in all the ways that a file system may
 * do it. The next mount must find all of a rename or nothing of it. Two
 * directories stand for branches; opening by handle needs root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/testkit/every.h"
#include "union/branch/branch_health.h"
#include "union/branch/intent.h"
#include "union/change/rename.h"
#include "union/recover/unionfs_life.h"
#include "union/testkit/branches_kit.h"
#include "union/view/name_filter.h"

#include <cmocka.h>

#define OPS_MAX 64
#define NO_STEP 1000

static char top[BRANCHES_KIT_TOP];
static struct unionfs fs;
static struct node *root;

/* A change of names as it was done, and how it is undone. */
struct change {
	enum { MADE, RENAMED, REMOVED } kind;
	int from_fd, to_fd;
	char from[64], to[64];
	unsigned flags;
	unsigned branch;
	bool synced;
	bool displaced; /* the file of the new name is in the attic */
};

static struct {
	bool on, in_order;
	unsigned step;     /* changes and syncs so far */
	unsigned stop;     /* the power fails before this one */
	unsigned bad_sync; /* this one of the syncs is EIO */
	unsigned syncs;    /* so far */
	int attic;         /* a directory on no branch */
	struct change changes[OPS_MAX];
	unsigned count;
} disk;

#define REAL(name, ...) \
	(*(void **)&real = dlsym(RTLD_NEXT, name), real(__VA_ARGS__))

/* In a process of its own, so not by assert_true(). */
static void must(bool good)
{
	if (!good)
		abort();
}

/* Is the power still there, for one step more? */
static bool powered(void)
{
	if (!disk.on || disk.step++ < disk.stop)
		return true;
	errno = EIO;
	return false;
}

/* Get the branch of the directory @fd, which is its root or in that. */
static unsigned branch_of_dir(int fd)
{
	struct stat of, at;
	unsigned i;

	must(fstat(fd, &of) == 0);
	for (i = 0; i < 2; i++) {
		char path[BRANCHES_KIT_TOP + 32];

		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		if (stat(path, &at) == 0 && at.st_ino == of.st_ino)
			return i;
		(void)strcat(path, "/" BRANCH_WORK_DIR);
		if (stat(path, &at) == 0 && at.st_ino == of.st_ino)
			return i;
	}
	abort();
}

static struct change *note(int kind, int from_fd, const char *from, int to_fd,
			   const char *to)
{
	struct change *change = &disk.changes[disk.count++];

	must(disk.count < OPS_MAX);
	*change = (struct change){
		.kind = kind,
		.from_fd = fcntl(from_fd, F_DUPFD_CLOEXEC, 0),
		.to_fd = fcntl(to_fd, F_DUPFD_CLOEXEC, 0),
		.branch = branch_of_dir(from_fd),
	};
	(void)snprintf(change->from, sizeof(change->from), "%s", from);
	(void)snprintf(change->to, sizeof(change->to), "%s", to);
	return change;
}

static int move_name(int from_fd, const char *from, int to_fd, const char *to,
		     unsigned flags)
{
	int (*real)(int, const char *, int, const char *, unsigned);

	return REAL("renameat2", from_fd, from, to_fd, to, flags);
}

static const char *attic_name(const struct change *change, char *buf)
{
	(void)sprintf(buf, "%d", (int)(change - disk.changes));
	return buf;
}

int symlinkat(const char *text, int fd, const char *name)
{
	int (*real)(const char *, int, const char *);
	int r;

	if (!powered())
		return -1;
	r = REAL("symlinkat", text, fd, name);
	if (r == 0 && disk.on)
		(void)note(MADE, fd, name, fd, name);
	return r;
}

int unlinkat(int fd, const char *name, int flags)
{
	int (*real)(int, const char *, int);
	struct change *change;
	struct stat st;
	char buf[16];

	if (!disk.on)
		return REAL("unlinkat", fd, name, flags);
	if (!powered() || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode) != !flags) {
		errno = flags ? ENOTDIR : EISDIR;
		return -1;
	}
	change = note(REMOVED, fd, name, fd, name);
	return move_name(fd, name, disk.attic, attic_name(change, buf), 0);
}

static bool same_file(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat of_a, of_b;

	return fstatat(a_fd, a, &of_a, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(b_fd, b, &of_b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       of_a.st_ino == of_b.st_ino;
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to,
	      unsigned flags)
{
	struct change *change;
	char buf[16];
	int r;

	if (!disk.on)
		return move_name(from_fd, from, to_fd, to, flags);
	if (!powered() || faccessat(from_fd, from, F_OK, AT_SYMLINK_NOFOLLOW))
		return -1;
	if (same_file(from_fd, from, to_fd, to)) /* then it does nothing */
		return 0;
	change = note(RENAMED, from_fd, from, to_fd, to);
	change->flags = flags & RENAME_EXCHANGE;
	change->displaced = !flags &&
			    move_name(to_fd, to, disk.attic,
				      attic_name(change, buf), 0) == 0;
	r = move_name(from_fd, from, to_fd, to, flags);
	if (r < 0)
		disk.count--;
	return r;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	return renameat2(from_fd, from, to_fd, to, 0);
}

static bool same_dir(int a, int b)
{
	struct stat of_a, of_b;

	return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 &&
	       of_a.st_ino == of_b.st_ino;
}

int fsync(int fd)
{
	struct change *change;
	unsigned branch;
	struct stat st;

	if (!disk.on)
		return 0;
	/* Of a nameless file: whether the branch works is tried (branch_try.h).
	 */
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
		errno = EIO;
		return disk.step > disk.stop ? -1 : 0;
	}
	if (!powered())
		return -1;
	if (disk.syncs++ == disk.bad_sync) {
		errno = EIO;
		return -1;
	}
	branch = branch_of_dir(fd);
	for (change = disk.changes; change < disk.changes + disk.count;
	     change++)
		if (change->branch == branch &&
		    (disk.in_order || same_dir(fd, change->to_fd)))
			change->synced = true;
	return 0;
}

int fstatfs(int fd, struct statfs *ret)
{
	int (*real)(int, struct statfs *);
	int r = REAL("fstatfs", fd, ret);

	ret->f_type = disk.in_order ? EXT4_SUPER_MAGIC : BTRFS_SUPER_MAGIC;
	return r;
}

static void undo(const struct change *change)
{
	char buf[16];

	switch (change->kind) {
	case MADE: (void)unlinkat(change->to_fd, change->to, 0); break;
	case RENAMED:
		(void)move_name(change->to_fd, change->to, change->from_fd,
				change->from, change->flags);
		if (change->displaced)
			(void)move_name(disk.attic, attic_name(change, buf),
					change->to_fd, change->to, 0);
		break;
	case REMOVED:
		(void)move_name(disk.attic, attic_name(change, buf),
				change->from_fd, change->from,
				RENAME_NOREPLACE);
		break;
	}
}

/*
 * Is the i-th of the changes that were not synced on the disk? The @way, from
 * 0 on: with an order each number of the first ones on each branch; else all
 * but one, only one, the first ones. False: there is no such way.
 */
static bool find_way(unsigned way, bool kept[OPS_MAX])
{
	unsigned open[2] = {0}, seen[2] = {0}, i, all, n = 0, first[2];

	for (i = 0; i < disk.count; i++)
		if (!disk.changes[i].synced)
			open[disk.changes[i].branch]++;
	all = open[0] + open[1];
	if (way >=
	    (disk.in_order ? (open[0] + 1) * (open[1] + 1) : 3 * (all + 1)))
		return false;
	first[0] = way % (open[0] + 1);
	first[1] = way / (open[0] + 1);
	for (i = 0; i < disk.count; i++) {
		const struct change *change = &disk.changes[i];

		kept[i] = true;
		if (change->synced)
			continue;
		if (disk.in_order)
			kept[i] = seen[change->branch]++ <
				  first[change->branch];
		else if (way % 3 == 0)
			kept[i] = n++ != way / 3;
		else if (way % 3 == 1)
			kept[i] = n++ == way / 3;
		else
			kept[i] = n++ < way / 3;
	}
	return true;
}

static bool lose_power(unsigned way)
{
	bool kept[OPS_MAX];
	unsigned i;

	disk.on = false;
	if (!find_way(way, kept))
		return false;
	for (i = disk.count; i > 0; i--)
		if (!kept[i - 1])
			undo(&disk.changes[i - 1]);
	return true;
}

struct rename_step {
	const char *from, *to;
	unsigned flags;
};

struct scene {
	const char *names[8]; /* "0/d/" is a directory on branch 0, "0/f" a
			       * file; "1/y=x": another name of x */
	struct rename_step steps[3];
	/* What may be there afterwards, each with all names of both; a file
	 * by the name that it had: "1/x=y". */
	const char *ends[6];
};

static void path_of(const char *name, char *ret)
{
	(void)sprintf(ret, "%s/%s", top, name);
}

static void make_names(const struct scene *scene)
{
	char path[128], other[128], text[64], *equals;
	unsigned i;

	for (i = 0; i < 8 && scene->names[i]; i++) {
		path_of(scene->names[i], path);
		equals = strchr(path, '=');
		if (path[strlen(path) - 1] == '/') {
			must(mkdir(path, 0755) == 0);
			continue;
		}
		if (equals) {
			*equals = '\0';
			(void)snprintf(other, sizeof(other), "%s", path);
			(void)strcpy(strrchr(other, '/') + 1, equals + 1);
			must(link(other, path) == 0);
			continue;
		}
		(void)snprintf(text, sizeof(text), "%s", scene->names[i] + 2);
		must(symlink(text, path) == 0);
	}
}

/* List every name of both, in order; for a file also which it is. */
static void list_names(char *ret)
{
	static const char *const known[] = {"d", "e", "n", "x", "y"};
	char path[128], text[64];
	unsigned branch, i;
	struct stat st;
	ssize_t n;

	*ret = '\0';
	for (branch = 0; branch < 2; branch++)
		for (i = 0; i < 5; i++) {
			(void)snprintf(path, sizeof(path), "%s/%u/%s", top,
				       branch, known[i]);
			if (lstat(path, &st) < 0)
				continue;
			n = S_ISDIR(st.st_mode)
				    ? 0
				    : readlink(path, text, sizeof(text) - 1);
			text[n > 0 ? n : 0] = '\0';
			ret += sprintf(ret, "%u/%s%s%s ", branch, known[i],
				       *text ? "=" : "/", text);
		}
}

static void rename_all(const struct scene *scene)
{
	const struct rename_step *step;

	for (step = scene->steps; step < scene->steps + 3 && step->from;
	     step++) {
		struct rename_args m = {.fs = &fs,
					.from_dir = root,
					.to_dir = root,
					.from_name = step->from,
					.to_name = step->to,
					.flags = step->flags};

		(void)rename_name(&m);
	}
}

/* The next mount. */
static void mount_again(void)
{
	struct branch_table table = {0};
	struct error err = {0};
	char path[BRANCHES_KIT_TOP + 8];
	unsigned i;

	atomic_store(&branch_failed_set[0], 0); /* of the server before */
	for (i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		if (branch_add(&table, path, 0, &err) < 0)
			print_error("the next mount: %s\n", err.msg);
	}
	if (intent_recover(&table, &err) < 0)
		print_error("the next mount: %s\n", err.msg);
	branch_table_done(&table);
}

enum { DONE, WRONG, NO_SUCH_WAY, NO_SUCH_STEP };

static int run(const struct scene *scene, unsigned way)
{
	char found[256];
	unsigned i;

	make_names(scene);
	disk.on = true;
	rename_all(scene);
	if ((disk.stop != NO_STEP && disk.step <= disk.stop) ||
	    (disk.bad_sync != NO_STEP && disk.syncs <= disk.bad_sync))
		return NO_SUCH_STEP;
	if (!lose_power(way))
		return NO_SUCH_WAY;
	mount_again();
	list_names(found);
	for (i = 0; i < 6 && scene->ends[i]; i++)
		if (strcmp(found, scene->ends[i]) == 0)
			return DONE;
	print_error("the power fails before step %u, sync %u is bad, %s, way "
		    "%u: %s\n",
		    disk.stop, disk.bad_sync,
		    disk.in_order ? "in order" : "in no order", way, found);
	return WRONG;
}

static int clear(void)
{
	static const char *const dirs[] = {
		"0/" BRANCH_WORK_DIR, "1/" BRANCH_WORK_DIR, "0", "1", "attic"};
	const struct dirent *entry;
	char path[128];
	unsigned i;
	DIR *dir;

	for (i = 0; i < 5; i++) {
		path_of(dirs[i], path);
		dir = opendir(path);
		while (dir && (entry = readdir(dir)))
			if (unlinkat(dirfd(dir), entry->d_name, 0) < 0 &&
			    strcmp(entry->d_name, BRANCH_WORK_DIR) != 0)
				(void)unlinkat(dirfd(dir), entry->d_name,
					       AT_REMOVEDIR);
		if (dir)
			(void)closedir(dir);
	}
	return 0;
}

/* Try it in a process of its own: its memory is lost like the power. */
static int try(const struct scene *scene, unsigned way)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run(scene, way));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)clear();
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int try_all_ways(const struct scene *scene)
{
	unsigned way;
	int r = DONE;

	for (way = 0; r == DONE; way++)
		r = try(scene, way);
	return r;
}

/* Cut short at each step, or with each sync bad. */
static void try_all_steps(const struct scene *scene)
{
	unsigned steps = 0;
	int r, order;

	if (!root)
		skip();
	for (order = 0; order < 2; order++) {
		disk.in_order = order;
		disk.stop = disk.bad_sync = NO_STEP;
		assert_int_equal(try_all_ways(scene), NO_SUCH_WAY);
		disk.stop = every_first();
		for (r = DONE; r != NO_SUCH_STEP; disk.stop += every()) {
			r = try_all_ways(scene);
			assert_int_not_equal(r, WRONG);
			steps++;
		}
		disk.stop = NO_STEP;
		disk.bad_sync = every_first();
		for (r = DONE; r != NO_SUCH_STEP; disk.bad_sync += every()) {
			r = try_all_ways(scene);
			assert_int_not_equal(r, WRONG);
		}
	}
	assert_true(steps * every() > 6);
}

static void a_directory_on_both(void **state)
{
	static const struct scene scene = {
		.names = {"0/d/", "1/d/"},
		.steps = {{"d", "e", 0}},
		.ends = {"0/d/ 1/d/ ", "0/e/ 1/e/ "},
	};

	(void)state;
	try_all_steps(&scene);
}

static void a_directory_on_both_over_an_empty_one(void **state)
{
	static const struct scene scene = {
		.names = {"0/d/", "1/d/", "0/e/", "1/e/"},
		.steps = {{"d", "e", 0}},
		.ends = {"0/d/ 0/e/ 1/d/ 1/e/ ", "0/e/ 1/e/ ",
			 /* it was empty, and one copy of it has gone */
			 "0/d/ 0/e/ 1/d/ ", "0/d/ 1/d/ 1/e/ "},
	};

	(void)state;
	try_all_steps(&scene);
}

static void a_directory_over_one_elsewhere(void **state)
{
	static const struct scene scene = {
		.names = {"0/d/", "1/e/"},
		.steps = {{"d", "e", 0}},
		/* The replaced directory, which is empty, is put away first. */
		.ends = {"0/d/ 1/e/ ", "0/d/ ", "0/e/ ", "0/e/ 1/e/ "},
	};

	(void)state;
	try_all_steps(&scene);
}

static void a_directory_and_back(void **state)
{
	static const struct scene scene = {
		.names = {"0/d/", "1/d/"},
		.steps = {{"d", "e", 0}, {"e", "d", 0}},
		.ends = {"0/d/ 1/d/ ", "0/e/ 1/e/ "},
	};

	(void)state;
	try_all_steps(&scene);
}

static void names_of_both_exchanged(void **state)
{
	static const struct scene scene = {
		.names = {"0/x", "1/y"},
		.steps = {{"x", "y", RENAME_EXCHANGE}},
		.ends = {"0/x=x 1/y=y ", "0/y=x 1/x=y "},
	};

	(void)state;
	try_all_steps(&scene);
}

static void a_file_over_one_elsewhere(void **state)
{
	static const struct scene scene = {
		.names = {"0/n", "1/x"},
		.steps = {{"n", "x", 0}},
		.ends = {"0/n=n 1/x=x ", "0/x=n "},
	};

	(void)state;
	try_all_steps(&scene);
}

/* The replaced file gets the name once more, from its other name. */
static void a_file_that_comes_back(void **state)
{
	static const struct scene scene = {
		.names = {"0/n", "1/x", "1/y=x"},
		.steps = {{"n", "x", 0}, {"y", "x", 0}},
		.ends = {"0/n=n 1/x=x 1/y=x ", "0/x=n 1/y=x ", "1/x=x "},
	};

	(void)state;
	try_all_steps(&scene);
}

static int setup(void **state)
{
	char path[128];
	unsigned i;
	int r;

	(void)state;
	log_setup("rename_crash_test", LOG_LEVEL_ERROR);
	r = branches_kit_union(top, &fs, &root);
	if (r < 0)
		return r;
	fs.shared = true;
	for (i = 0; i < 3; i++) {
		path_of(i == 2 ? "attic"
			: i    ? "1/" BRANCH_WORK_DIR
			       : "0/" BRANCH_WORK_DIR,
			path);
		if (mkdir(path, 0700) < 0)
			return -1;
	}
	disk.attic = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return disk.attic < 0 ? -1 : 0;
}

static int done(void **state)
{
	(void)state;
	if (root)
		unionfs_done(&fs);
	fd_close(disk.attic);
	return branches_kit_remove(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_on_both),
		cmocka_unit_test(a_directory_on_both_over_an_empty_one),
		cmocka_unit_test(a_directory_over_one_elsewhere),
		cmocka_unit_test(a_directory_and_back),
		cmocka_unit_test(names_of_both_exchanged),
		cmocka_unit_test(a_file_over_one_elsewhere),
		cmocka_unit_test(a_file_that_comes_back),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
