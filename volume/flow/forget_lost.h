/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost splits of a union get new, empty splits in their place, of the same
 * number and size. The place is planned in the record, then the extent is made
 * there. One write of the record makes all new extents the splits'. Until then
 * the volume is as it was.
 */
#ifndef VOLUME_FORGET_LOST_H
#define VOLUME_FORGET_LOST_H

#include "volume/volume.h"

struct volume_forgotten {
	size_t splits; /* that were lost, and are new now */
	uint64_t size; /* bytes, of these */
};

/*
 * Forget what lost splits had, and make new ones. Where the volume is mounted,
 * they are formatted and join the union. Else that happens at the next mount.
 *
 * @name  NAME or NAME@UID, see volume_delete()
 * @ret   may be NULL
 *
 * 0: also when no split is lost. What the lost splits had is not known: the
 * union keeps no list of names. -EBUSY: the volume is a device, or all splits
 * are lost. -EBUSY, too: the volume is mounted on another node, for reading
 * only, or since before the split was lost. -ENOSPC: no pool takes one of them;
 * nothing was changed. After -EHOSTUNREACH, -ETIMEDOUT, -EAGAIN and -ECANCELED
 * repeat it.
 */
int volume_forget_lost(struct volume_context *ctx, const char *name,
		       struct volume_forgotten *ret, struct error *err);

#endif
