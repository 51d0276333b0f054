/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the RPCs about snapshots share. The ids of snapshots and of groups of
 * them are "NAME@UID", as those of volumes; the three kinds have names of
 * their own.
 */
#ifndef CSI_SNAPSHOT_H
#define CSI_SNAPSHOT_H

#include "csi/call/call.h"
#include "volume/snapshot/snapshot.h"

/*
 * One that is cut, not being deleted, and no clone's for a moment. -ENOENT:
 * there is none; snapshot_record_free().
 */
int csi_snapshot_find(struct csi_call *c, const struct csi_id *id,
		      struct snapshot_record **ret);

/*
 * How far it is by now: @record is replaced when the nodes say more. A node
 * that does not answer changes nothing.
 */
void csi_snapshot_refresh(struct csi_call *c, struct snapshot_record **record);

/*
 * Of the parameters, what the snapshotter tells of its objects
 * (--extra-create-metadata) as labels, and the CSI name. There are no others:
 * -EINVAL names what is known.
 */
int csi_snapshot_labels(ProtobufCMessage *const *parameters, size_t n,
			const char *csi_name, struct labels *ret,
			struct error *err);

/* As csi_lock(), for a "snapshot" or a "group" of that name. */
int csi_snapshot_lock(struct csi_call *c, const char *kind, const char *name);

#endif
