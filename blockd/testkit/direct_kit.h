/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: what stands in for device mapper. Devices keep their tables as the
 * kernel does, also while no blockd runs. A request of a test goes to the
 * medium's file where the table in use has a run, and to the extent's device
 * else.
 */
#ifndef BLOCKD_DIRECT_KIT_H
#define BLOCKD_DIRECT_KIT_H

#include "blockd/direct/direct.h"
#include "blockd/testkit/model_kit.h"

/* A device of the kernel. */
struct direct_kit_device {
	LIST_ENTRY(direct_kit_device) in_kit;
	struct direct_kit *kit;
	char extent_id[UUID_TEXT_SIZE];
	uint32_t object_id;
	uint64_t clusters;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	bool suspended, frozen;
	bool prepared;
	unsigned in_flight;
	bool waits; /* @next does, for a resume */
	struct direct_runs live, next;
	bool gone; /* it was removed, or fenced; set while nobody uses it */
};

struct direct_kit {
	struct direct_system system;
	const char *path; /* of the medium; borrowed */
	uint64_t data_start;
	LIST_HEAD(direct_kit_devices, direct_kit_device) devices;
	/*
	 * Calls until one fails, and until all do from then on, as those of a
	 * blockd that is killed. 0: none does.
	 */
	_Atomic unsigned fails_in;
	_Atomic unsigned dies_in;
	_Atomic bool dead;
	_Atomic unsigned calls; /* that were made */
	/* Calls that may take long, made while a device is frozen. */
	_Atomic unsigned frozen_calls;
	/* Requests that went straight to the medium. */
	_Atomic uint64_t direct_reads, direct_writes;
	/* Discards and write-zeroes that went to the slow device. */
	_Atomic uint64_t slow_zeroes;
};

/* The stand-in of the process, for pools on the medium at @path. */
void direct_kit_init(struct direct_kit *kit, const char *path);
void direct_kit_done(struct direct_kit *kit);

/* Put a device over an extent, and have the pool use it. */
struct direct_kit_device *direct_kit_attach(struct direct_kit *kit,
					    struct run *run,
					    struct object *object);
/* Have the pool use the same one once more. */
int direct_kit_try_attach(struct direct_kit_device *device, struct run *run,
			  struct object *object);
/* Take it away: from the pool, then for good. */
void direct_kit_detach(struct direct_kit_device *device, struct run *run,
		       struct object *object);
/* The device alone; no request is in flight. */
void direct_kit_remove(struct direct_kit_device *device);
/* direct_prepare() and direct_freeze(); on failure it is not held. */
int direct_kit_freeze(struct direct *direct, uint32_t object,
		      struct error *err);
/* NULL: it has none. */
struct direct_kit_device *direct_kit_find(struct direct_kit *kit,
					  const struct object *object);

/*
 * The invariant of blockd/direct/direct.h, now; any thread. Returns NULL, or
 * what is wrong, in memory of the kit's.
 */
const char *direct_kit_wrong(struct direct_kit *kit, struct run *run);

#endif
