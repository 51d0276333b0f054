/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/ino_preserve.h"
#include "union/sys/empty_dir.h"
#include "union/sys/handle.h"

static int check_handles(int fd, const char *path, struct error *err)
{
	auto_close int again = -1;
	struct handle handle;
	int r = handle_get(fd, "", &handle);

	if (r >= 0)
		r = again = handle_open(fd, &handle, O_PATH);
	if (r >= 0)
		return 0;
	if (r == -EPERM)
		return error_set(err, EPERM,
				 "branch '%s': opening by file handle is not "
				 "permitted; run as root",
				 path);
	return error_set(err, -r,
			 "branch '%s': its file system gives no file handles "
			 "(%s); use ext4, XFS, Btrfs or tmpfs",
			 path, strerror(-r));
}

static struct branch *same_directory(const struct branch_table *table,
				     const struct stat *st)
{
	struct stat other;
	unsigned i;

	for (i = 0; i < table->count; i++)
		if (fstat(table->items[i]->root_fd, &other) == 0 &&
		    other.st_dev == st->st_dev && other.st_ino == st->st_ino)
			return table->items[i];
	return NULL;
}

struct branch *branch_find(const struct branch_table *table, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? same_directory(table, &st) : NULL;
}

/*
 * Find the absent branch with that resolved path; NULL: none. A path that did
 * not exist was kept as it was given.
 */
static struct branch *find_absent(const struct branch_table *table,
				  const char *real, const char *path)
{
	unsigned i;

	for (i = 0; i < table->count; i++)
		if (table->items[i]->flags & BRANCH_ABSENT &&
		    (strcmp(table->items[i]->path, real) == 0 ||
		     strcmp(table->items[i]->path, path) == 0))
			return table->items[i];
	return NULL;
}

static bool is_empty(int fd)
{
	DIR *dir = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	const struct dirent *entry = NULL;
	bool empty = dir;

	while (dir && empty && (entry = readdir(dir)))
		empty = name_is_dot(entry->d_name) ||
			strcmp(entry->d_name, BRANCH_WORK_DIR) == 0;
	if (dir)
		(void)closedir(dir);
	return empty;
}

bool branch_is_absent(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statx st;

	/* Without STATX_ATTR_MOUNT_ROOT the directory counts as a branch. */
	return fd >= 0 && statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_IMMUTABLE &&
	       st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT) && is_empty(fd);
}

static int check_new(const struct branch_table *table, int fd,
		     const struct stat *st, const char *path, const char *real,
		     struct error *err)
{
	const struct branch *other = same_directory(table, st);
	unsigned i;

	if (table->count == BRANCH_MAX && !find_absent(table, real, path))
		return error_set(err, E2BIG, "more than %d branches",
				 BRANCH_MAX);
	if (other)
		return error_set(err, EEXIST,
				 "branch '%s' is the same directory as "
				 "branch '%s'",
				 path, other->path);
	for (i = 0; i < table->count; i++) {
		other = table->items[i];
		if (branch_overlaps(other, fd, real))
			return error_set(err, EINVAL,
					 "branch '%s' and branch '%s' are one "
					 "in the other",
					 path, other->path);
	}
	return 0;
}

int branch_open(struct branch_table *table, const char *path, unsigned flags,
		struct branch **ret, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free char *real = NULL;
	struct branch_identity identity;
	struct branch *branch;
	struct statvfs space;
	struct handle handle;
	struct stat st;
	int r, mount_id = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || fstatvfs(fd, &space) < 0)
		return error_set(err, errno, "branch '%s': %s", path,
				 strerror(errno));
	real = realpath(path, NULL);
	if (!real)
		return error_set(err, errno, "branch '%s': %s", path,
				 strerror(errno));
	r = check_new(table, fd, &st, path, real, err);
	if (r == 0)
		r = check_handles(fd, path, err);
	if (r < 0)
		return r;
	r = branch_identity_get(fd, &identity);
	if (r == 0)
		r = handle_get_on(fd, "", &handle, &mount_id);
	if (r < 0)
		return error_set(err, -r, "branch '%s': %s", path,
				 strerror(-r));
	branch = calloc(1, sizeof(*branch));
	if (!branch)
		return error_set(err, ENOMEM, "branch '%s': %s", path,
				 strerror(ENOMEM));
	if (space.f_flag & ST_RDONLY)
		flags |= BRANCH_RO;
	branch->absent = find_absent(table, real, path);
	branch->id = branch->absent ? branch->absent->id : table->count;
	branch->flags = flags;
	branch->min_free = BRANCH_MIN_FREE_UNION;
	branch->path = take_ptr(real);
	branch->root_fd = take_fd(&fd);
	branch->device = st.st_dev;
	branch->mount_id = mount_id;
	ino_preserve_look(branch);
	branch->identity = identity;
	pthread_mutex_init(&branch->clone_lock, NULL);
	*ret = branch;
	return 0;
}

/* Put @branch in the place of @old (NULL: of none). */
static void put_branch(struct branch_table *table, struct branch *branch,
		       struct branch *old)
{
	__atomic_store_n(&table->items[branch->id], branch, __ATOMIC_RELEASE);
	if (!old)
		return;
	old->next_replaced = table->replaced;
	table->replaced = old;
}

void branch_enter(struct branch_table *table, struct branch *branch)
{
	if (branch->absent) /* it is among those that are counted */
		atomic_fetch_or(&branch->flags, BRANCH_RO);
	put_branch(table, branch, branch->absent);
}

void branch_publish(struct branch_table *table, struct branch *branch,
		    unsigned flags)
{
	if (branch->absent)
		atomic_store(&branch->flags, flags);
	else
		atomic_fetch_add(&table->count, 1);
}

static void free_branch(struct branch *branch)
{
	fd_close(branch->root_fd);
	fd_close(atomic_load(&branch->own_root) - 1);
	fd_close(atomic_load(&branch->own_mount) - 1);
	fd_close(atomic_load(&branch->lock) - 1);
	pthread_mutex_destroy(&branch->clone_lock);
	free(branch->path);
	free(branch);
}

static bool is_entered(const struct branch_table *table,
		       const struct branch *branch)
{
	return table->items[branch->id] == branch;
}

/* Take a branch out of the list of replaced ones. */
static void drop_last_branch(struct branch_table *table,
			     const struct branch *branch)
{
	struct branch **at = &table->replaced;

	while (*at != branch)
		at = &(*at)->next_replaced;
	*at = branch->next_replaced;
}

void branch_drop(struct branch_table *table, struct branch *branch)
{
	if (!branch->absent) {
		table->items[branch->id] = NULL;
		free_branch(branch);
	} else if (is_entered(table, branch)) {
		drop_last_branch(table, branch->absent);
		put_branch(table, branch->absent, branch);
	} else {
		free_branch(branch);
	}
}

int branch_add(struct branch_table *table, const char *path, unsigned flags,
	       struct error *err)
{
	struct branch *branch;
	int r = branch_open(table, path, flags, &branch, err);

	if (r < 0)
		return r;
	branch->shown = true; /* there is nobody yet */
	branch_enter(table, branch);
	branch_publish(table, branch, flags);
	return 0;
}

static int add_closed(struct branch_table *table, const char *path,
		      unsigned flags, struct branch **ret, struct error *err)
{
	struct branch *branch = calloc(1, sizeof(*branch));

	if (table->count == BRANCH_MAX) {
		free(branch);
		return error_set(err, E2BIG, "more than %d branches",
				 BRANCH_MAX);
	}
	if (branch)
		branch->path = strdup(path);
	if (!branch || !branch->path) {
		free(branch);
		return error_set(err, ENOMEM, "branch '%s': %s", path,
				 strerror(ENOMEM));
	}
	branch->id = table->count;
	branch->place = branch->id;
	branch->flags = flags;
	branch->min_free = BRANCH_MIN_FREE_UNION;
	branch->root_fd = -1;
	branch->shown = true;
	pthread_mutex_init(&branch->clone_lock, NULL);
	branch_enter(table, branch);
	branch_publish(table, branch, flags);
	*ret = branch;
	return 0;
}

int branch_add_gone(struct branch_table *table, const char *path,
		    unsigned flags, struct error *err)
{
	auto_free char *real = realpath(path, NULL);
	struct branch *branch;

	if (flags & BRANCH_ABSENT &&
	    find_absent(table, real ? real : path, path))
		return error_set(err, EEXIST, "branch '%s' is there twice",
				 path);
	return add_closed(table, real ? real : path,
			  BRANCH_GONE | BRANCH_RO | flags, &branch, err);
}

int branch_add_failed(struct branch_table *table, const char *path,
		      unsigned flags, const struct branch_identity *identity,
		      int error, struct error *err)
{
	struct branch *branch;
	int r = add_closed(table, path, flags, &branch, err);

	if (r < 0)
		return r;
	branch->identity = *identity;
	/* A placeholder for the descriptor of branch_fail(). */
	branch->root_fd = open("/", O_PATH | O_CLOEXEC);
	branch_fail(branch, error);
	return 0;
}

void branch_table_done(struct branch_table *table)
{
	struct branch *next;

	while (table->count)
		free_branch(table->items[--table->count]);
	for (; table->replaced; table->replaced = next) {
		next = table->replaced->next_replaced;
		free_branch(table->replaced);
	}
}

static void ask_space(struct branch *branch, int64_t now_ms)
{
	struct statvfs space = {0};
	uint64_t block;

	if (!branch_usable(branch->id) || fstatvfs(branch->root_fd, &space) < 0)
		memset(&space, 0, sizeof(space));
	block = space.f_frsize;
	atomic_store(&branch->available, space.f_bavail * block);
	atomic_store(&branch->used, (space.f_blocks - space.f_bfree) * block);
	atomic_store(&branch->space_checked_ms, now_ms);
}

static bool space_is_old(const struct branch *branch, int64_t now_ms)
{
	int64_t checked_ms = atomic_load(&branch->space_checked_ms);

	return !checked_ms || now_ms - checked_ms >= BRANCH_SPACE_AGE_MS;
}

void branch_space(struct branch *branch, int64_t now_ms,
		  struct branch_space *ret)
{
	bool never = !atomic_load(&branch->space_checked_ms);

	/* One thread asks; the others take the old result, if there is one. */
	if (space_is_old(branch, now_ms) &&
	    (never ? pthread_mutex_lock(&branch->space_lock)
		   : pthread_mutex_trylock(&branch->space_lock)) == 0) {
		if (space_is_old(branch, now_ms))
			ask_space(branch, now_ms);
		pthread_mutex_unlock(&branch->space_lock);
	}
	ret->available = atomic_load(&branch->available);
	ret->used = atomic_load(&branch->used);
}

void branch_space_changed(struct branch *branch)
{
	atomic_store(&branch->space_checked_ms, 1); /* long ago */
}

bool branch_shares_space(const struct branch *a, const struct branch *b)
{
	return a->device == b->device ||
	       branch_identity_shares_space(&a->identity, &b->identity);
}

static bool device_seen(const struct branch_table *table, unsigned upto)
{
	unsigned i;

	for (i = 0; i < upto; i++)
		if (branch_usable(i) &&
		    !(table->items[i]->flags & BRANCH_GONE) &&
		    branch_shares_space(table->items[i], table->items[upto]))
			return true;
	return false;
}

bool branch_counts(const struct branch_table *table, unsigned i)
{
	return branch_usable(i) && !(table->items[i]->flags & BRANCH_GONE) &&
	       !device_seen(table, i);
}

static void add_space(struct statvfs *sum, const struct statvfs *one)
{
	sum->f_blocks += one->f_blocks * one->f_frsize / sum->f_frsize;
	sum->f_bfree += one->f_bfree * one->f_frsize / sum->f_frsize;
	sum->f_bavail += one->f_bavail * one->f_frsize / sum->f_frsize;
	sum->f_files += one->f_files;
	sum->f_ffree += one->f_ffree;
	sum->f_favail += one->f_favail;
	if (one->f_namemax < sum->f_namemax)
		sum->f_namemax = one->f_namemax;
}

int branch_table_statvfs(const struct branch_table *table, unsigned ignored,
			 struct statvfs *ret)
{
	struct statvfs sum = {0}, one;
	unsigned i, n = 0;
	int r;

	for (i = 0; i < table->count; i++) {
		if (!branch_counts(table, i))
			continue;
		r = branch_report(table->items[i],
				  fstatvfs(table->items[i]->root_fd, &one) < 0
					  ? -errno
					  : 0);
		if (r < 0 && branch_usable(i))
			return r;
		if (r < 0)
			continue;
		if (table->items[i]->flags & ignored)
			one.f_bfree = one.f_bavail = 0;
		if (n++)
			add_space(&sum, &one);
		else
			sum = one;
	}
	if (!n)
		return -EIO;
	*ret = sum;
	return 0;
}
