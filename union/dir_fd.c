/* SPDX-License-Identifier: Apache-2.0 */
#include "union/dir_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* One cache for the process: it stands for the process's descriptors. */
static struct {
	pthread_mutex_t lock;
	struct dir_fd *newest, *oldest;
	unsigned count; /* in the list */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* Off its copy and out of the list; true when nobody uses it. */
static bool detach(struct dir_fd *dir)
{
	dir->copy->cached = NULL;
	dir->copy = NULL;
	list_remove(dir);
	return dir->users == 0;
}

/* The oldest unused one when there are too many; detached. */
static struct dir_fd *evict(void)
{
	struct dir_fd *dir = cache.oldest;

	if (cache.count <= DIR_FD_MAX)
		return NULL;
	while (dir && dir->users)
		dir = dir->newer;
	if (dir)
		(void)detach(dir); /* unused, as was just seen */
	return dir;
}

static struct dir_fd *use_cached(struct copy *copy)
{
	struct dir_fd *dir = copy->cached;

	if (!dir)
		return NULL;
	dir->users++;
	if (dir != cache.newest) {
		list_remove(dir);
		list_add(dir);
	}
	return dir;
}

int dir_fd_get(struct copy *copy, int mount_fd, struct dir_fd **ret)
{
	struct dir_fd *dir, *fresh, *old;
	int fd;

	pthread_mutex_lock(&cache.lock);
	dir = use_cached(copy);
	pthread_mutex_unlock(&cache.lock);
	if (dir) {
		*ret = dir;
		return 0;
	}
	fd = handle_open(mount_fd, &copy->handle, O_PATH | O_DIRECTORY);
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
		dir->users = 1;
		dir->copy = copy;
		copy->cached = dir;
		list_add(dir);
	}
	old = evict();
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

void dir_fd_drop(struct copy *copy)
{
	struct dir_fd *dir;

	pthread_mutex_lock(&cache.lock);
	dir = copy->cached;
	if (dir && !detach(dir))
		dir = NULL; /* its last user closes it */
	pthread_mutex_unlock(&cache.lock);
	destroy(dir);
}
