/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's device mapper (base/dm/mapper.h) as a struct direct_system.
 *
 * A note, a small file named by the device's UUID, says which extent, epoch and
 * slow device it is of. It is written before the first table with a run, so
 * that the next blockd finds what this one left. A device without a note that
 * has access to a pool's medium all the same is fenced: its requests fail.
 */
#ifndef BLOCKD_DIRECT_MAPPER_H
#define BLOCKD_DIRECT_MAPPER_H

#include "base/dm/mapper.h"
#include "blockd/direct/direct_device.h"

/*
 * Of the devices by which blockd itself has its media. They map nothing that
 * anybody uses (blockd/raw/disk_lock.h).
 */
#define DIRECT_LOCK_PREFIX MAPPER_UUID_PREFIX "disk-"

struct direct_mapper;

/*
 * @mapper  borrowed
 * @folder   of the notes; made when the first is written. It goes with a boot,
 * as the devices do
 * @frozen   STATE/frozen, where processes freeze devices
 *           (blockd/local/freeze.h). NULL: @mapper suspends them itself
 * @enabled  direct_system.enabled
 *
 * -ENOMEM.
 */
int direct_mapper_new(struct mapper *mapper, const char *folder,
		      const char *frozen, bool enabled,
		      struct direct_mapper **ret, struct error *err);
/* Notes stay. NULL is fine. */
void direct_mapper_free(struct direct_mapper *system);
/* For direct_system_set(); borrowed. */
struct direct_system *direct_mapper_system(struct direct_mapper *system);

struct direct_mapper_device {
	const char *uuid; /* of device mapper */
	const char *extent_id;
	uint64_t epoch;
	dev_t slow;    /* the extent's block device, from byte 0 on */
	uint64_t size; /* bytes */
	bool read_only;
};

/*
 * Note a device that is there, and open it for direct_attach().
 *
 * -EINVAL: no UUID of ours, or no id; -ENOENT: no such device; others: the note
 * could not be written.
 */
int direct_mapper_open(struct direct_mapper *system,
		       const struct direct_medium *medium,
		       const struct direct_mapper_device *which,
		       struct direct_device **ret, struct error *err);
/* ---- tables; no I/O ---- */

/* -ENOMEM. @ret: empty before. */
int direct_mapper_encode(const struct direct_medium *medium, dev_t slow,
			 uint64_t size, const struct direct_runs *runs,
			 struct mapper_table *ret);
/*
 * The runs of a table. -EBADMSG: no table that direct_mapper_encode() makes of
 * these; -ENOMEM. @ret: empty before, and after a failure.
 */
int direct_mapper_decode(const struct direct_medium *medium, dev_t slow,
			 const struct mapper_table *table,
			 struct direct_runs *ret);

#endif
