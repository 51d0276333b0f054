/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/space_floor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"

/* A share is at most this, and this part of the space there is. */
#define SHARE_MAX  (UINT64_C(64) << 20) /* bytes */
#define SHARE_PART 16

struct space_floor {
	atomic_uint refs;
	int fd;
	const struct space_floor_ops *ops;
	atomic_ullong keep;   /* bytes */
	pthread_mutex_t lock; /* guards the list, and requests for a share */
	LIST_HEAD(shares, space_share) shares;
};

int space_free_bytes(int fd, uint64_t *ret)
{
	struct statvfs vfs;

	if (fstatvfs(fd, &vfs) < 0)
		return -errno;
	*ret = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	return 0;
}

struct space_floor *space_floor_new(int fd, const struct space_floor_ops *ops)
{
	struct space_floor *floor = calloc(1, sizeof(*floor));

	if (!floor)
		return NULL;
	atomic_init(&floor->refs, 1);
	floor->ops = ops;
	floor->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (floor->fd < 0) {
		free(floor);
		return NULL;
	}
	(void)pthread_mutex_init(&floor->lock, NULL);
	LIST_INIT(&floor->shares);
	return floor;
}

struct space_floor *space_floor_ref(struct space_floor *floor)
{
	atomic_fetch_add(&floor->refs, 1);
	return floor;
}

void space_floor_unref(struct space_floor *floor)
{
	if (!floor || atomic_fetch_sub(&floor->refs, 1) != 1)
		return;
	(void)pthread_mutex_destroy(&floor->lock); /* nobody has it */
	fd_close(floor->fd);
	free(floor);
}

void space_floor_set(struct space_floor *floor, uint64_t bytes)
{
	struct space_share *share;

	/* The shares were counted by the old floor. */
	pthread_mutex_lock(&floor->lock);
	if (bytes > atomic_exchange(&floor->keep, bytes))
		LIST_FOREACH (share, &floor->shares, in_floor)
			atomic_store(&share->left, 0);
	pthread_mutex_unlock(&floor->lock);
}

struct space_share *space_share_new(struct space_floor *floor, int fd)
{
	struct space_share *share = calloc(1, sizeof(*share));

	if (!share) {
		fd_close(fd);
		return NULL;
	}
	share->floor = space_floor_ref(floor);
	share->fd = fd;
	pthread_mutex_lock(&floor->lock);
	LIST_INSERT_HEAD(&floor->shares, share, in_floor);
	pthread_mutex_unlock(&floor->lock);
	return share;
}

void space_share_free(struct space_share *share)
{
	if (!share)
		return;
	pthread_mutex_lock(&share->floor->lock);
	LIST_REMOVE(share, in_floor);
	pthread_mutex_unlock(&share->floor->lock);
	space_floor_unref(share->floor);
	fd_close(share->fd);
	free(share);
}

bool space_share_take(struct space_share *share, uint64_t bytes)
{
	unsigned long long left = atomic_load(&share->left);

	if (left < bytes)
		return false;
	/*
	 * First: a thread that takes back the rest sees these bytes here or
	 * there.
	 */
	atomic_fetch_add(&share->writing, bytes);
	while (left >= bytes)
		if (atomic_compare_exchange_weak(&share->left, &left,
						 left - bytes))
			return true;
	atomic_fetch_sub(&share->writing, bytes);
	return false;
}

/* Held and being written, by all; the lock is held. */
static uint64_t spoken_for(struct space_floor *floor)
{
	struct space_share *share;
	uint64_t sum = 0;

	LIST_FOREACH (share, &floor->shares, in_floor)
		sum += atomic_load(&share->left) + atomic_load(&share->writing);
	return sum;
}

/*
 * Return the bytes above the floor that no share has. The file system is asked
 * last, so bytes written meanwhile are counted twice, and never missed.
 */
static uint64_t room(struct space_floor *floor)
{
	uint64_t taken = spoken_for(floor) + atomic_load(&floor->keep);
	uint64_t bytes = 0;

	if (taken < atomic_load(&floor->keep)) /* it is that large */
		return 0;
	if (floor->ops->free_bytes(floor->fd, &bytes) < 0)
		return SHARE_MAX; /* the write itself will tell why */
	return bytes > taken ? bytes - taken : 0;
}

static void space_floor_take_back(struct space_floor *floor)
{
	struct space_share *share;

	LIST_FOREACH (share, &floor->shares, in_floor)
		atomic_store(&share->left, 0);
}

/* Return the part of @has that a device gets which needs @bytes of it. */
static uint64_t share_of(uint64_t has, uint64_t bytes)
{
	uint64_t part = has / SHARE_PART;

	if (part > SHARE_MAX)
		part = SHARE_MAX;
	return part > bytes ? part : bytes;
}

/* Bytes that nobody has, @bytes of them if need be. The lock is held. */
static uint64_t room_for(struct space_floor *floor, uint64_t bytes)
{
	uint64_t has = room(floor);

	if (has >= bytes)
		return has;
	space_floor_take_back(floor);
	return room(floor);
}

static bool share_refill(struct space_share *share, uint64_t bytes)
{
	struct space_floor *floor = share->floor;
	uint64_t has;

	pthread_mutex_lock(&floor->lock);
	has = room_for(floor, bytes);
	if (has >= bytes) {
		atomic_fetch_add(&share->writing, bytes);
		atomic_fetch_add(&share->left, share_of(has, bytes) - bytes);
	}
	pthread_mutex_unlock(&floor->lock);
	return has >= bytes;
}

int space_share_ask(struct space_share *share, uint64_t offset, uint64_t length,
		    uint64_t *bytes)
{
	if (share_refill(share, *bytes))
		return 0;
	/* There is not so much; but does the write need so much? */
	*bytes = share->floor->ops->missing(share->fd, offset, length);
	return *bytes == 0 || share_refill(share, *bytes) ? 0 : -ENOSPC;
}

int space_floor_check(struct space_floor *floor, uint64_t bytes)
{
	uint64_t has;

	pthread_mutex_lock(&floor->lock);
	has = room_for(floor, bytes);
	pthread_mutex_unlock(&floor->lock);
	return has >= bytes ? 0 : -ENOSPC;
}
