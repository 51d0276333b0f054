/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the kernel's device mapper, as a table of functions: the kernel's
 * own (mapper_kernel), or a stand-in for tests (base/testkit/mapper_stand.h).
 *
 * A device is known by its UUID, which begins with MAPPER_UUID_PREFIX. No call
 * changes a device of another UUID. Every change has a limit, after which it
 * returns -ETIMEDOUT: a device below that does not answer holds a suspend up
 * for ever. Such a suspend is undone by the kernel: the device goes on with the
 * table it had. The kernel's changes are made by a process of its own, trib-dm,
 * that is left alone when it can't be killed. Nothing waits for udev.
 *
 * Calls may come from any thread.
 */
#ifndef BASE_MAPPER_H
#define BASE_MAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/dm/mapper_table.h"
#include "base/error.h"

#define MAPPER_UUID_PREFIX "TRIB-"
#define MAPPER_FOLDER      "/dev/mapper/"
#define MAPPER_NAME_MAX    128 /* bytes with NUL, of a name and of a UUID */
#define MAPPER_LIMIT_MS    10000

enum mapper_flags {
	MAPPER_READ_ONLY = 1, /* create, load, swap: of the whole device */
	/*
	 * suspend, swap: begin no flush. Without it a suspend syncs the file
	 * system on the device, and freezes it until the resume.
	 */
	MAPPER_NO_FLUSH = 2,
	MAPPER_DEFERRED = 4, /* remove: in use, it goes at its last close */
};

struct mapper_device {
	char name[MAPPER_NAME_MAX]; /* its node is MAPPER_FOLDER NAME */
	char uuid[MAPPER_NAME_MAX];
	dev_t device;
	unsigned open_count; /* mounts and devices above count, too */
	bool suspended;
	bool live, inactive; /* which tables it has */
	bool read_only;
	bool deferred; /* its removal */
};

struct mapper;

/* All required. The contracts are those of the calls below. */
struct mapper_ops {
	int (*probe)(struct mapper *m, struct error *err);
	int (*create)(struct mapper *m, const char *name, const char *uuid,
		      const struct mapper_table *table, unsigned flags,
		      int limit_ms, struct error *err);
	int (*load)(struct mapper *m, const char *uuid,
		    const struct mapper_table *table, unsigned flags,
		    int limit_ms, struct error *err);
	int (*suspend)(struct mapper *m, const char *uuid, unsigned flags,
		       int limit_ms, struct error *err);
	int (*resume)(struct mapper *m, const char *uuid, unsigned flags,
		      int limit_ms, struct error *err);
	int (*clear)(struct mapper *m, const char *uuid, int limit_ms,
		     struct error *err);
	int (*remove)(struct mapper *m, const char *uuid, unsigned flags,
		      int limit_ms, struct error *err);
	int (*get)(struct mapper *m, const char *uuid,
		   struct mapper_device *ret, struct error *err);
	int (*read)(struct mapper *m, const char *uuid, bool inactive,
		    struct mapper_table *ret, struct error *err);
	int (*list)(struct mapper *m, const char *prefix,
		    struct mapper_device **ret, size_t *ret_count,
		    struct error *err);
};

struct mapper {
	const struct mapper_ops *ops;
};

/* 0, or -EPERM: no UUID of ours, so no call changes its device. */
int mapper_check_uuid(const char *uuid, struct error *err);

/* The kernel's. */
extern struct mapper mapper_kernel;

/*
 * Let the processes that make changes for this thread keep @fd open; -1: none.
 * Returns the one that they kept before.
 * So a lock on it (flock(2)) outlives a caller that is killed, until the change
 * under way has ended.
 */
int mapper_kernel_hold(int fd);

/*
 * Test whether devices can be made here. Loads the kernel's module where that
 * is possible. -ENODEV, with the reason in one line.
 */
int mapper_probe(struct mapper *m, struct error *err);

/*
 * Make a device, and its node; it is in use at once. -EEXIST: the name or the
 * UUID is taken, and the text says by whom. After a failure nothing is left.
 */
int mapper_create(struct mapper *m, const char *name, const char *uuid,
		  const struct mapper_table *table, unsigned flags,
		  int limit_ms, struct error *err);

/*
 * Load a table beside the one in use; the next resume takes it. On failure the
 * device has its old tables.
 */
int mapper_load(struct mapper *m, const char *uuid,
		const struct mapper_table *table, unsigned flags, int limit_ms,
		struct error *err);

/*
 * Hold new requests back and wait for those in flight. -ETIMEDOUT: these did
 * not end; the device is not suspended.
 */
int mapper_suspend(struct mapper *m, const char *uuid, unsigned flags,
		   int limit_ms, struct error *err);

/*
 * Let requests go on, by the table that was loaded if there is one. A device
 * that is not suspended and has a loaded table is suspended for a moment, with
 * the limit and @flags of mapper_suspend().
 */
int mapper_resume(struct mapper *m, const char *uuid, unsigned flags,
		  int limit_ms, struct error *err);

/* Drop a table that was loaded and not yet taken. */
int mapper_clear(struct mapper *m, const char *uuid, int limit_ms,
		 struct error *err);

/*
 * Take a device away. In use, it is tried again for @limit_ms: -EBUSY. With
 * MAPPER_DEFERRED the kernel then takes it away at its last close: 0. Not
 * there: 0.
 */
int mapper_remove(struct mapper *m, const char *uuid, unsigned flags,
		  int limit_ms, struct error *err);

/*
 * Get a device. -ENOENT: there is none of that UUID. Any other error: the
 * driver could not be asked.
 */
int mapper_get(struct mapper *m, const char *uuid, struct mapper_device *ret,
	       struct error *err);

/*
 * Read the table in use, or the one that was loaded (@inactive). Set on success
 * only; owned. -ENOENT.
 */
int mapper_read(struct mapper *m, const char *uuid, bool inactive,
		struct mapper_table *ret, struct error *err);

/* List devices whose UUID begins with @prefix. Returned owned. */
int mapper_list(struct mapper *m, const char *prefix,
		struct mapper_device **ret, size_t *ret_count,
		struct error *err);

/* ---- made of these ---- */

/*
 * Exchange the table of a device in use: mapper_load(), mapper_resume(). On
 * failure the old table is in use and none is loaded.
 */
int mapper_swap(struct mapper *m, const char *uuid,
		const struct mapper_table *table, unsigned flags, int limit_ms,
		struct error *err);

/*
 * Make every request of a device fail from now on, in whatever process and
 * mount namespace it is open. This is mapper_swap() with an error table of its
 * size, without a flush. -ETIMEDOUT: what is below does not answer; make that
 * fail its requests first.
 */
int mapper_fence(struct mapper *m, const char *uuid, int limit_ms,
		 struct error *err);

#endif
