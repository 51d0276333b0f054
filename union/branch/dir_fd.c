/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/dir_fd.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"

#define HEADS 1024

/* One cache for the process: it stands for the process's descriptors. */
static struct {
	pthread_mutex_t lock;
	struct dir_fd *newest, *oldest;
	unsigned count;              /* in the list */
	struct dir_fd *heads[HEADS]; /* the same, by the copy */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Counters of changes that are made without a descriptor from here. */
struct changes {
	atomic_uint going_on;
	_Atomic uint64_t count; /* begun and ended so far */
};

static struct changes everywhere, on_branch[BRANCH_MAX];

static void begin_changes(struct changes *changes)
{
	atomic_fetch_add(&changes->going_on, 1);
	atomic_fetch_add(&changes->count, 1);
}

static void end_changes(struct changes *changes)
{
	atomic_fetch_add(&changes->count, 1);
	atomic_fetch_sub(&changes->going_on, 1);
}

void dir_fd_changes_begin(void)
{
	begin_changes(&everywhere);
}

void dir_fd_changes_end(void)
{
	end_changes(&everywhere);
}

void dir_fd_changes_begin_on(unsigned branch)
{
	begin_changes(&on_branch[branch]);
}

void dir_fd_changes_end_on(unsigned branch)
{
	end_changes(&on_branch[branch]);
}

/*
 * Get a time that stands still while there are no such changes on @branch; else
 * 0. Neither count goes back, so their sum is the same only when both are.
 */
static uint64_t now(unsigned branch)
{
	uint64_t count = 1 + atomic_load(&everywhere.count) +
			 atomic_load(&on_branch[branch].count);

	return atomic_load(&everywhere.going_on) ||
			       atomic_load(&on_branch[branch].going_on)
		       ? 0
		       : count;
}

bool dir_fd_is_told(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_LOOKUP:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_GETATTR:
	case FUSE_SETATTR:
	case FUSE_CREATE:
	case FUSE_TMPFILE:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_SYMLINK:
	case FUSE_LINK:
	case FUSE_UNLINK:
	case FUSE_READLINK:
	case FUSE_OPEN:
	case FUSE_RELEASE:
	case FUSE_FLUSH:
	case FUSE_FSYNC:
	case FUSE_READ:
	case FUSE_WRITE:
	case FUSE_LSEEK:
	case FUSE_FALLOCATE:
	case FUSE_STATFS:
	case FUSE_GETXATTR:
	case FUSE_LISTXATTR:
	case FUSE_INTERRUPT: return true;
	default: return false;
	}
}

/* The copies of directories looked up together are side by side. */
static struct dir_fd **head_of(const struct copy *copy)
{
	return &cache.heads[(uintptr_t)copy / sizeof(*copy) % HEADS];
}

static struct dir_fd *find_cached(const struct copy *copy)
{
	struct dir_fd *dir = *head_of(copy);

	while (dir && dir->copy != copy)
		dir = dir->next;
	return dir;
}

static void attach(struct dir_fd *dir, struct copy *copy)
{
	struct dir_fd **head = head_of(copy);

	dir->copy = copy;
	dir->next = *head;
	*head = dir;
}

static void list_remove(struct dir_fd *dir)
{
	if (dir->newer)
		dir->newer->older = dir->older;
	else
		cache.newest = dir->older;
	if (dir->older)
		dir->older->newer = dir->newer;
	else
		cache.oldest = dir->newer;
	cache.count--;
}

static void list_add(struct dir_fd *dir)
{
	dir->newer = NULL;
	dir->older = cache.newest;
	if (cache.newest)
		cache.newest->newer = dir;
	else
		cache.oldest = dir;
	cache.newest = dir;
	cache.count++;
}

static void destroy(struct dir_fd *dir)
{
	if (!dir)
		return;
	fd_close(dir->fd);
	free(dir);
}

/* Get the attributes of @copy, if they are kept. */
static bool use_stat(const struct copy *copy, struct stat *ret)
{
	const struct dir_fd *dir = find_cached(copy);

	if (!dir || !dir->since || dir->since != now(copy->branch))
		return false;
	*ret = dir->st;
	return true;
}

/* Take it off its copy and out of the list; true when nobody uses it. */
static bool detach_dir(struct dir_fd *dir)
{
	struct dir_fd **at = head_of(dir->copy);

	while (*at != dir)
		at = &(*at)->next;
	*at = dir->next;
	dir->copy = NULL;
	list_remove(dir);
	return dir->users == 0;
}

/* Detach the oldest unused one when there are too many. */
static struct dir_fd *evict(void)
{
	struct dir_fd *dir = cache.oldest;

	if (cache.count <= DIR_FD_MAX)
		return NULL;
	while (dir && dir->users)
		dir = dir->newer;
	if (dir)
		(void)detach_dir(dir); /* unused, as was just seen */
	return dir;
}

static struct dir_fd *use_cached(struct copy *copy)
{
	struct dir_fd *dir = find_cached(copy);

	if (!dir)
		return NULL;
	dir->users++;
	dir->gets++;
	dir->since = 0;
	if (dir != cache.newest) {
		list_remove(dir);
		list_add(dir);
	}
	return dir;
}

int dir_fd_get(struct copy *copy, int mount_fd, int access, struct dir_fd **ret)
{
	struct dir_fd *dir, *fresh, *old;
	struct handle handle;
	int fd;

	pthread_mutex_lock(&cache.lock);
	dir = use_cached(copy);
	pthread_mutex_unlock(&cache.lock);
	if (dir) {
		*ret = dir;
		return 0;
	}
	handle = copy_handle(copy);
	fd = handle_open(mount_fd, &handle, access | O_DIRECTORY);
	if (fd < 0)
		return fd;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh) {
		fd_close(fd);
		return -ENOMEM;
	}
	fresh->fd = fd;
	pthread_mutex_lock(&cache.lock);
	dir = use_cached(copy); /* another may have opened it meanwhile */
	if (!dir) {
		dir = fresh;
		fresh = NULL;
		dir->users = dir->gets = 1;
		attach(dir, copy);
		list_add(dir);
	}
	old = evict();
	assert(old != dir); /* it is used */
	pthread_mutex_unlock(&cache.lock);
	destroy(fresh);
	destroy(old);
	*ret = dir;
	return 0;
}

void dir_fd_put(struct dir_fd *dir)
{
	bool last;

	if (!dir)
		return;
	pthread_mutex_lock(&cache.lock);
	last = --dir->users == 0 && !dir->copy;
	pthread_mutex_unlock(&cache.lock);
	if (last)
		destroy(dir);
}

/* Keep @st, asked for at @since by the only user, which came last. */
static void keep_stat(struct dir_fd *dir, unsigned gets, uint64_t since,
		      const struct stat *st)
{
	pthread_mutex_lock(&cache.lock);
	if (dir->users == 1 && dir->gets == gets) {
		dir->st = *st;
		dir->since = since;
	}
	pthread_mutex_unlock(&cache.lock);
}

/* Is there no other user? @ret_gets: as dir_fd_get() counted for this one. */
static bool is_alone(const struct dir_fd *dir, unsigned *ret_gets)
{
	bool alone;

	pthread_mutex_lock(&cache.lock);
	alone = dir->users == 1;
	*ret_gets = dir->gets;
	pthread_mutex_unlock(&cache.lock);
	return alone;
}

int dir_fd_stat(struct copy *copy, int mount_fd, int access, bool keeps,
		struct stat *ret)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	bool known = false, alone;
	uint64_t since;
	unsigned gets;
	struct stat st;
	int r;

	if (keeps) {
		pthread_mutex_lock(&cache.lock);
		known = use_stat(copy, ret);
		pthread_mutex_unlock(&cache.lock);
	}
	if (known)
		return 0;
	r = dir_fd_get(copy, mount_fd, access, &dir);
	if (r < 0)
		return r;
	since = now(copy->branch);
	alone = is_alone(dir, &gets);
	if (fstat(dir->fd, &st) < 0)
		return -errno;
	if (keeps && alone && since)
		keep_stat(dir, gets, since, &st);
	*ret = st;
	return 0;
}

void dir_fd_drop(struct copy *copy)
{
	struct dir_fd *dir;

	pthread_mutex_lock(&cache.lock);
	dir = find_cached(copy);
	if (dir && !detach_dir(dir))
		dir = NULL; /* its last user closes it */
	pthread_mutex_unlock(&cache.lock);
	destroy(dir);
}

/* Detach one of @branch, or NULL; *@ret_idle: nobody uses it. */
static struct dir_fd *detach_one(unsigned branch, bool *ret_idle)
{
	struct dir_fd *dir = cache.newest;

	while (dir && dir->copy->branch != branch)
		dir = dir->older;
	if (dir)
		*ret_idle = detach_dir(dir);
	return dir;
}

void dir_fd_drop_branch(unsigned branch)
{
	struct dir_fd *dir;
	bool idle;

	do {
		idle = false;
		pthread_mutex_lock(&cache.lock);
		dir = detach_one(branch, &idle);
		pthread_mutex_unlock(&cache.lock);
		if (idle)
			destroy(dir);
	} while (dir);
}
