/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "union/branch/branch_path.h"
#include "union/state/fd_store.h"

#define PROGRAM       "trib-union"
#define TYPE          " - fuse." PROGRAM " "
#define ARGUMENTS_MAX (2u << 20)  /* bytes; ARG_MAX, sysconf(3) */
#define TABLE_MAX     (64u << 20) /* bytes of a table of mounts */

/* A process of a union, and its command line. */
struct process {
	pid_t pid;
	int dir; /* /proc/PID */
	bool is_server;
	char *line;         /* owned; the words below are in it */
	const char *list;   /* of branches */
	const char *target; /* where it is mounted; may be relative */
};

static void take_word(struct process *p, const char *word, bool *is_value)
{
	bool is_option = !*is_value && word[0] == '-' && word[1];

	if (is_option && strncmp(word, "--holder-fd=", 12) == 0)
		p->is_server = true;
	else if (!is_option && !*is_value && !p->list)
		p->list = word;
	else if (!is_option && !*is_value)
		p->target = word;
	*is_value = is_option && strcmp(word, "-o") == 0;
}

/* Read the process. False: it is of no union. */
static bool read_process(struct process *p)
{
	bool is_value = false;
	const char *at, *name;
	size_t length;

	if (file_read(p->dir, "cmdline", ARGUMENTS_MAX, &p->line, &length,
		      NULL) < 0 ||
	    !length)
		return false;
	name = strrchr(p->line, '/');
	if (strcmp(name ? name + 1 : p->line, PROGRAM) != 0)
		return false;
	for (at = p->line + strlen(p->line) + 1; at < p->line + length;
	     at += strlen(at) + 1)
		take_word(p, at, &is_value);
	return p->target;
}

static bool is_own(pid_t pid)
{
	return pid == getpid() || (fd_store_is_on() && pid == getppid());
}

/* Call @visit for each process of another union until it says true. */
static void each_process(bool (*visit)(void *context, const struct process *p),
			 void *context)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	bool end = false;

	while (dir && !end && (entry = readdir(dir))) {
		struct process p = {.dir = -1};

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		p.pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (is_own(p.pid))
			continue;
		p.dir = openat(dirfd(dir), entry->d_name,
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (p.dir >= 0 && read_process(&p))
			end = visit(context, &p);
		free(p.line);
		fd_close(p.dir);
	}
	if (dir)
		(void)closedir(dir);
}

/* Read the path of @fd, or the link @name in @fd. False: it is too long. */
static bool link_of(int fd, const char *name, char *ret)
{
	ssize_t n = readlinkat(fd, name, ret, PATH_MAX - 1);

	if (n < 0)
		return false;
	ret[n] = '\0';
	return n < PATH_MAX - 1;
}

/* Resolve the mount point, without asking the file system on it. */
static void resolve_target(const struct process *p, char *ret)
{
	auto_close int cwd = openat(p->dir, "cwd", O_PATH | O_CLOEXEC);
	auto_close int fd = -1;
	char name[32];

	fd = openat(cwd, p->target, O_PATH | O_CLOEXEC);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd); /* fits */
	if (fd < 0 || !link_of(AT_FDCWD, name, ret))
		(void)snprintf(ret, PATH_MAX, "%s", p->target); /* or cut */
}

/* Escape @path as in the table of mounts: proc(5). */
static void escape_path(const char *path, char *ret, size_t size)
{
	size_t n = 0;

	for (; *path && n + 5 < size; path++)
		if (strchr(" \t\n\\", *path))
			n += (size_t)snprintf(ret + n, size - n, "\\%03o",
					      (unsigned char)*path);
		else
			ret[n++] = *path;
	ret[n] = '\0';
}

/* Is a union mounted there, as the process sees it? */
static bool is_mounted(const struct process *p, const char *mountpoint)
{
	auto_free char *table = NULL;
	char escaped[4 * PATH_MAX], point[PATH_MAX];
	char *line, *rest = NULL;
	size_t length;

	if (file_read(p->dir, "mountinfo", TABLE_MAX, &table, &length, NULL) <
	    0)
		return false;
	escape_path(mountpoint, escaped, sizeof(escaped));
	for (line = strtok_r(table, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, TYPE) &&
		    sscanf(line, "%*d %*d %*s %*s %4095s", point) == 1 &&
		    strcmp(point, escaped) == 0)
			return true;
	return false;
}

enum held {
	HELD_IN_PASSING, /* by one that looks for owners, as we do here */
	HELD_TO_READ,
	HELD_TO_WRITE,
};

/* How does @p hold its descriptor @name? By fdinfo of proc(5). */
static enum held held_as(const struct process *p, const char *name)
{
	auto_free char *text = NULL;
	char path[300];
	const char *flags;
	size_t length;

	(void)snprintf(path, sizeof(path), "fdinfo/%.255s", name); /* fits */
	if (file_read(p->dir, path, ARGUMENTS_MAX, &text, &length, NULL) < 0)
		return HELD_IN_PASSING; /* it is closed */
	flags = strstr(text, "flags:");
	if (flags && strtoul(flags + strlen("flags:"), NULL, 8) & O_PATH)
		return HELD_IN_PASSING;
	return strstr(text, "FLOCK  ADVISORY  READ") ? HELD_TO_READ
						     : HELD_TO_WRITE;
}

/* A mount that a killed union leaves behind does not serve any more. */
static bool process_was_killed(pid_t pid)
{
	unsigned long long ticks;

	return process_start_time(pid, &ticks) < 0 ||
	       process_is_ending(pid, ticks);
}

struct search {
	struct branch *const *branches;
	unsigned count;
	bool writes;
	struct owner *found;
};

/* Is the root @fd, which is @path, that of the branch, or in or around it? */
static bool is_of_branch(const struct branch *branch, int fd, const char *path)
{
	struct stat own, st;

	return fstat(fd, &st) == 0 && fstat(branch->root_fd, &own) == 0 &&
	       st.st_dev == own.st_dev &&
	       (st.st_ino == own.st_ino || branch_overlaps(branch, fd, path));
}

/*
 * Is a descriptor of the file system of a branch of ours? Others are not
 * opened: their unmount would fail meanwhile.
 */
static bool is_on_our_fs(const struct search *s, int fds, const char *name)
{
	struct statx st, own;

	if (statx(fds, name, AT_STATX_DONT_SYNC, 0, &st) < 0)
		return false;
	for (unsigned i = 0; i < s->count; i++)
		if (statx(s->branches[i]->root_fd, "",
			  AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &own) == 0 &&
		    st.stx_dev_major == own.stx_dev_major &&
		    st.stx_dev_minor == own.stx_dev_minor)
			return true;
	return false;
}

/* Find our branch that is, or overlaps, the one with BRANCH_WORK_DIR @fd. */
static const struct branch *find_ours(const struct search *s, int fd,
				      char *path, bool reads)
{
	auto_close int root = openat(fd, "..",
				     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *end = strrchr(path, '/');
	const struct branch *branch;
	unsigned i;

	end[end == path] = '\0'; /* the rest is the root's path */
	for (i = 0; root >= 0 && i < s->count; i++) {
		branch = s->branches[i];
		if (reads && !s->writes && branch->flags & BRANCH_RO)
			continue;
		if (is_of_branch(branch, root, path))
			return branch;
	}
	return NULL;
}

/* Find a branch of ours that @p has; @ret: its path there, PATH_MAX bytes. */
static const struct branch *find_owner_branch(const struct search *s,
					      const struct process *p,
					      char *ret)
{
	static const char end[] = "/" BRANCH_WORK_DIR;
	const struct branch *found = NULL;
	auto_close int fds = openat(p->dir, "fd",
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fds < 0 ? NULL : fdopendir(dup(fds));
	const struct dirent *entry;
	size_t length;

	while (dir && !found && (entry = readdir(dir))) {
		auto_close int fd = -1;
		enum held held;

		if (!link_of(fds, entry->d_name, ret))
			continue;
		length = strlen(ret);
		if (length + 1 < sizeof(end) ||
		    strcmp(ret + length + 1 - sizeof(end), end) != 0)
			continue;
		held = held_as(p, entry->d_name);
		if (held == HELD_IN_PASSING ||
		    !is_on_our_fs(s, fds, entry->d_name))
			continue;
		fd = openat(fds, entry->d_name, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			found = find_ours(s, fd, ret, held == HELD_TO_READ);
	}
	if (dir)
		(void)closedir(dir);
	return found;
}

static bool note_owner(void *context, const struct process *p)
{
	const struct search *s = context;
	struct owner *owner = s->found;
	const struct branch *ours;
	char branch[PATH_MAX], target[PATH_MAX];

	ours = find_owner_branch(s, p, branch);
	if (!ours)
		return false;
	resolve_target(p, target);
	if (owner->mountpoint[0] && strcmp(owner->mountpoint, target) != 0)
		return false; /* one of them is enough */
	memcpy(owner->mountpoint, target, sizeof(target));
	memcpy(owner->branch, branch, sizeof(branch));
	owner->ours = ours;
	owner->mounted |= !process_was_killed(p->pid) && is_mounted(p, target);
	if (p->is_server || !owner->pid) {
		if (p->is_server)
			owner->supervisor = owner->pid;
		owner->pid = p->pid;
	} else {
		owner->supervisor = p->pid;
	}
	return false;
}

bool owner_find(struct branch *const *branches, unsigned count, bool writes,
		struct owner *ret)
{
	struct search search = {branches, count, writes, ret};

	memset(ret, 0, sizeof(*ret));
	each_process(note_owner, &search);
	return ret->pid > 0;
}

int owner_refuse(const struct owner *owner, const struct branch *branch,
		 struct error *err)
{
	char supervisor[32] = "";
	bool nested;

	if (!owner->pid)
		return error_set(err, EBUSY,
				 "branch '%s' is in use by another union, "
				 "whose process is not seen from here",
				 branch->path);
	if (owner->supervisor)
		(void)snprintf(supervisor, sizeof(supervisor), ", kept by %d",
			       owner->supervisor); /* fits */
	nested = strcmp(owner->branch, owner->ours->path) != 0;
	return error_set(err, EBUSY,
			 "branch '%s' is in use by the union at '%s' "
			 "(pid %d%s)%s%s%s%s",
			 owner->ours->path, owner->mountpoint, owner->pid,
			 supervisor, nested ? ", as '" : "",
			 nested ? owner->branch : "", nested ? "'" : "",
			 owner->mounted ? ""
					: ", which is not mounted there and "
					  "has not ended");
}

struct same {
	const char *list, *mountpoint;
	bool found;
};

static bool is_same(void *context, const struct process *p)
{
	struct same *same = context;
	char target[PATH_MAX];

	if (strcmp(p->list, same->list) != 0)
		return false;
	resolve_target(p, target);
	same->found = strcmp(target, same->mountpoint) == 0 &&
		      is_mounted(p, target);
	return same->found;
}

bool owner_has_mounted(const char *list, const char *mountpoint)
{
	struct same same = {list, mountpoint, false};

	each_process(is_same, &same);
	return same.found;
}
