/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools' devices: a small pool on a file, and two loops with a
 * thread each. Requests come from outside of the loops and are waited for.
 */
#ifndef BLOCKD_RAW_DEV_KIT_H
#define BLOCKD_RAW_DEV_KIT_H

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "blockd/raw/dev/raw_dev.h"
#include "blockd/raw/store/raw_medium.h"

#define CLUSTER    (UINT64_C(1) << RAW_CLUSTER_SHIFT_MIN)
#define BLOCK      4096u
#define CLUSTERS   24
#define SIZE       (CLUSTERS * CLUSTER - 5 * BLOCK) /* the last one is cut */
#define LOOPS      2
#define AT_ONCE    16
#define MEDIUM_MIN ((UINT64_C(6) << 20) + 64 * CLUSTER)

struct pool {
	char path[64];
	int fd;
	struct raw_file_medium medium;
	struct raw_medium *instead; /* NULL: it is on @medium */
	int (*open_medium)(void *context, struct loop *loop,
			   struct blockdev **ret, struct error *err);
	struct raw_store *store;
	struct raw_users *users;
	struct loop *loops[LOOPS];
	pthread_t threads[LOOPS];
	unsigned dev_flags; /* enum raw_dev_flag, of what is opened */
	struct error err;
	unsigned random;
	atomic_uint faults; /* of the medium, that were told of */
};

enum what { READ, WRITE, ZERO, DISCARD, FLUSH, STATUS, OPEN, CLOSE };

struct io {
	struct loop_message message;
	struct op op;
	struct pool *pool;
	struct blockdev **dev; /* of its loop */
	enum what what;
	uint32_t id;
	uint64_t offset, length;
	unsigned flags;
	uint8_t *data;
	struct blockdev_status status[CLUSTERS + 1];
	sem_t *done;
	int res;
	bool starting;
};

/* Less than @n, by chance. */
unsigned raw_dev_kit_below(struct pool *pool, unsigned n);
unsigned raw_dev_kit_from_environment(const char *name, unsigned otherwise);
/* Fails the test when @r is negative; @what was tried. */
void raw_dev_kit_must(struct pool *pool, int r, const char *what);

/* On a file of @size bytes of its own, open. */
void raw_dev_kit_pool_make(struct pool *pool, uint64_t size);
/* The same without some features: RAW_INCOMPAT_... */
void raw_dev_kit_pool_make_without(struct pool *pool, uint64_t size,
				   uint64_t features);
/*
 * The same on @medium, which devices have by @open_medium; its context is the
 * pool. @without: features as above.
 */
void raw_dev_kit_pool_make_on(
	struct pool *pool, struct raw_medium *medium, uint64_t without,
	int (*open_medium)(void *context, struct loop *loop,
			   struct blockdev **ret, struct error *err));
void raw_dev_kit_pool_remove(struct pool *pool);
/* Changes that were not committed are lost between the two. */
void raw_dev_kit_pool_close(struct pool *pool);
void raw_dev_kit_pool_open(struct pool *pool);

/* Of CLUSTERS clusters. @from: whose content it has; 0: holes. */
void raw_dev_kit_object_make(struct pool *pool, uint32_t id, uint32_t from);
/* @loop: which of the pool's. */
struct blockdev *raw_dev_kit_dev_open(struct pool *pool, int loop, uint32_t id);
void raw_dev_kit_dev_close(struct pool *pool, int loop, struct blockdev *dev);

/* One request, from outside of the loop; its result. */
int raw_dev_kit_one(struct pool *pool, struct blockdev *dev, enum what what,
		    void *data, uint64_t length, uint64_t offset,
		    unsigned flags);
/* For more of them at once: a struct io's message.run and op.done. */
void raw_dev_kit_io_start(struct loop_message *message);
void raw_dev_kit_io_done(struct op *op, int res);

#endif
