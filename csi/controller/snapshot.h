/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the RPCs about snapshots. The ids of snapshots and of groups are
 * "NAME@UID", as those of volumes; the three kinds have separate names.
 */
#ifndef CSI_SNAPSHOT_H
#define CSI_SNAPSHOT_H

#include "csi/call/call.h"
#include "volume/snapshot/snapshot.h"

/*
 * Find a snapshot that is cut, not being deleted, and not temporary for a
 * clone. -ENOENT: none; snapshot_record_free().
 */
int csi_snapshot_find(struct csi_call *c, const struct csi_id *id,
		      struct snapshot_record **ret);

/*
 * Update the progress: @record is replaced when the nodes report more. A silent
 * node changes nothing.
 */
void csi_snapshot_refresh(struct csi_call *c, struct snapshot_record **record);

/*
 * Read the parameters: metadata from the snapshotter (--extra-create-metadata)
 * as labels, and the CSI name. Other parameters are -EINVAL, which names the
 * known ones.
 */
int csi_snapshot_labels(ProtobufCMessage *const *parameters, size_t n,
			const char *csi_name, struct labels *ret,
			struct error *err);

/* As csi_lock(), for a "snapshot" or a "group" of that name. */
int csi_snapshot_lock(struct csi_call *c, const char *kind, const char *name);

#endif
