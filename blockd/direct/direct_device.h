/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of device mapper over an extent, as blockd/direct/direct.h uses it.
 * Its table maps runs of clusters straight to the pool's medium. The rest goes
 * to the slow device: the extent's block device as it is without direct runs.
 *
 * Calls block, for as long as requests in flight take. Those requests may need
 * blockd. So no call is made by a thread that serves requests, nor under a lock
 * that one takes. Each call has a limit of its own, and fails
 * with -ETIMEDOUT.
 */
#ifndef BLOCKD_DIRECT_DEVICE_H
#define BLOCKD_DIRECT_DEVICE_H

#include <sys/types.h>

#include "base/error.h"
#include "blockd/direct/direct_runs.h"

struct direct_device;

/* How a device is found: after a blockd was killed it is as it was left. */
struct direct_found {
	struct direct_runs live; /* of the table in use */
	bool suspended;          /* requests wait */
	bool strange;            /* that table is not one of runs: no @live */
};

enum direct_suspend {
	DIRECT_FREEZE = 1 << 0, /* first the file system that is on it */
};

/*
 * load: -ENODEV: the device is not there any more, or was fenced. So no table
 * of it has runs, and it never gets one again.
 */
struct direct_device_ops {
	/* Load a table, for the next resume. It replaces one that waits. */
	int (*load)(struct direct_device *device,
		    const struct direct_runs *runs, struct error *err);
	/*
	 * Forget the table that waits for a resume, and end prepare(); without
	 * one: nothing.
	 */
	int (*clear)(struct direct_device *device, struct error *err);
	/*
	 * Optional. Make ready for a suspend with DIRECT_FREEZE and the resume
	 * after that: neither starts a process then, and the file system has
	 * little to write. Again: 0.
	 */
	int (*prepare)(struct direct_device *device, struct error *err);
	/*
	 * Let no request begin, and wait until those in flight have ended. On
	 * failure requests begin as before.
	 *
	 * @flags  DIRECT_FREEZE: after prepare(). It may end by itself when
	 *         the device has been suspended for MAPPER_LIMIT_MS
	 */
	int (*suspend)(struct direct_device *device, unsigned flags,
		       struct error *err);
	/*
	 * Put the loaded table, if there is one, in place of the one in use.
	 * Let requests begin. On failure the device is as it was. 1: it was not
	 * suspended any more.
	 */
	int (*resume)(struct direct_device *device, struct error *err);
	/* @ret: the caller's, to be emptied by direct_runs_done(). */
	int (*look)(struct direct_device *device, struct direct_found *ret,
		    struct error *err);
	/* After it has been given up: the next blockd does not find it. */
	int (*forget)(struct direct_device *device, struct error *err);
	/* Free what is in memory; the device stays as it is. */
	void (*close)(struct direct_device *device);
};

struct direct_device {
	const struct direct_device_ops *ops;
	uint64_t clusters; /* whole ones of the extent that it covers */
	uint64_t epoch;    /* of the export that it was attached at */
	const char *uuid; /* of device mapper, owned by it; NULL: it has none */
};

/* The medium of a pool, as tables have it. */
struct direct_medium {
	const char *pool_id;
	dev_t device;        /* 0: it is a file */
	uint64_t data_start; /* bytes, where cluster 0 is */
	unsigned shift;      /* of a cluster's size */
};

/* Device mapper, or what stands in for it in tests. */
struct direct_system {
	/*
	 * Devices get runs. Without it those that an earlier blockd left get a
	 * table without.
	 */
	bool enabled;
	/*
	 * Tell of each device that has or may have direct access to the medium
	 * of a pool, with the id of its extent. @visit takes the device. An
	 * error: they can't be known, so no map may be changed.
	 */
	int (*each)(struct direct_system *system,
		    const struct direct_medium *medium,
		    void (*visit)(void *context, const char *extent_id,
				  struct direct_device *device),
		    void *context, struct error *err);
	/*
	 * Optional. Open a device for direct_attach(), so that each() tells of
	 * it from now on. It has to lie on one device from its beginning to its
	 * end, which becomes the slow device.
	 *
	 * @uuid  of device mapper
	 *
	 * -EINVAL: no device of ours, or it does not lie so; -ENOENT.
	 */
	int (*open)(struct direct_system *system,
		    const struct direct_medium *medium, const char *uuid,
		    const char *extent_id, uint64_t epoch,
		    struct direct_device **ret, struct error *err);
};

/* Set before the first pool is opened; NULL, as at the start: there is none. */
void direct_system_set(struct direct_system *system);
struct direct_system *direct_system(void);

#endif
