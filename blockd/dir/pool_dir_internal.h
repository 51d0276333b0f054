/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of blockd/dir/pool_dir.h share. */
#ifndef BLOCKD_POOL_DIR_INTERNAL_H
#define BLOCKD_POOL_DIR_INTERNAL_H

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "blockd/pool/pool.h"
#include "blockd/pool/space_floor.h"

#define POOL_DIR_LOCK    "lock"
#define POOL_DIR_EXTENTS "extents"
#define POOL_DIR_SPARE   "spare"

/* What pool_dir_sharing() has found. */
struct pool_dir_counted {
	pthread_mutex_t lock; /* guards the rest */
	int64_t until;        /* clock_ns(): it is good for so long ... */
	unsigned changes;     /* ... while there are no more of them */
	int r;
	struct pool_sharing sharing;
};

struct pool_dir {
	struct pool pool;
	int fd;         /* the directory */
	int lock_fd;    /* held while the pool is open */
	int extents_fd; /* its extents */
	enum pool_copy_method method;
	struct space_floor *floor; /* a reference */
	atomic_uint changes;       /* of who has which blocks, but by writes */
	struct pool_dir_counted counted;
};

static inline struct pool_dir *pool_dir_of(struct pool *pool)
{
	return container_of(pool, struct pool_dir, pool);
}

/* A stream over a directory that is already open; the descriptor stays. */
DIR *pool_dir_stream(int fd);
void pool_dir_stream_end(DIR **dir); /* for auto_cleanup() */
bool pool_dir_is_dots(const char *name);

int pool_dir_open_at(const char *path, int *ret_fd, struct error *err);
/* 0, -ENOENT: no identity, -EBADMSG: damaged. */
int pool_dir_identity(int fd, const char *path, struct pool_record *ret,
		      struct error *err);
int pool_dir_lock(int fd, const char *path, int *ret_fd, struct error *err);

/* errno, about a file of extents/. */
int pool_dir_fail(struct pool *pool, const char *what, const char *name,
		  struct error *err);
/*
 * Write @record into NAME and SUFFIX, durably; where the file system is full
 * with the space that is kept for it.
 */
int pool_dir_save(struct pool *pool, const struct extent_record *record,
		  const char *suffix, struct error *err);
/* -EEXIST: there is data of that name, which is nobody's. */
int pool_dir_check_unused(struct pool *pool, const char *name,
			  struct error *err);

/* ---- pool_dir_content.c: the content of data files ---- */

/* By trying; -1: the directory. Never POOL_COPY_NONE. */
enum pool_copy_method pool_dir_probe(int extents_fd);

/* All blocks of the first @size bytes; -1 with errno, as system calls do. */
int pool_dir_allocate(const struct pool_dir *dir, int fd, uint64_t size);

struct pool_dir_progress {
	pool_copied copied; /* NULL: nobody asks */
	void *context;
	uint64_t done, total; /* bytes of all */
};

/*
 * A new file @to, @size bytes, with the content of @from and zeroes behind
 * it; durable but for its name. What a failure leaves is removed. @thick: it
 * has all its blocks, some of which may be shared.
 */
int pool_dir_content_copy(struct pool *pool, const char *from, const char *to,
			  uint64_t size, bool thick,
			  struct pool_dir_progress *progress,
			  struct error *err);

/* ---- pool_ops of these names ---- */

int pool_dir_copy(struct pool *pool, const struct pool_copy *copies, size_t n,
		  pool_copied copied, void *context, struct error *err);
int pool_dir_revert(struct pool *pool, const struct extent_record *record,
		    const char *from, struct error *err);
int pool_dir_ranges(struct pool *pool, const char *name, const char *base,
		    uint64_t start, pool_range visit, void *context,
		    struct error *err);
int pool_dir_sharing(struct pool *pool, const char *const *snapshots, size_t n,
		     struct pool_sharing *ret, struct error *err);
int pool_dir_try(struct pool *pool, struct error *err);
int pool_dir_renew(struct pool *pool, struct error *err);
/* Replaces its identity, durably; pool->record follows. */
int pool_dir_put_record(struct pool *pool, const struct pool_record *record,
			struct error *err);
/*
 * Fill in the bytes that are shared, and those that a delete would free, from
 * allocated.
 */
void pool_dir_usage_shared(struct pool *pool, const char *name,
			   struct extent_usage *usage);

#endif
