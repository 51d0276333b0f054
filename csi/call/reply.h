/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of answers. Requests are copied field by field, so that fields unknown
 * to this version are not sent back.
 */
#ifndef CSI_REPLY_H
#define CSI_REPLY_H

#include "csi/call/call.h"
#include "volume/record/snapshot_record.h"
#include "volume/store/record_place.h"

/* A new, empty message of the call. */
void *reply_new(struct csi_call *c, const ProtobufCMessageDescriptor *type);

/*
 * Copy a map into one whose entries are of @type. The strings stay the
 * request's.
 */
void reply_map(struct csi_call *c, const ProtobufCMessageDescriptor *type,
	       ProtobufCMessage *const *entries, size_t n, size_t *ret_n,
	       void *ret_entries);

Csi__V1__VolumeCapability *reply_capability(
	struct csi_call *c, const Csi__V1__VolumeCapability *from);

Csi__V1__Volume *reply_volume(struct csi_call *c,
			      const struct volume_record *record);

/* Seconds since 1970. */
Google__Protobuf__Timestamp *reply_time(struct csi_call *c, int64_t seconds);

/* @record  of a snapshot that has been taken */
Csi__V1__Snapshot *reply_snapshot(struct csi_call *c,
				  const struct snapshot_record *record);

/* @problem "": all is well. */
Csi__V1__VolumeCondition *reply_condition(struct csi_call *c,
					  const char *problem);

/* A token for what comes after @place. */
char *reply_token(struct csi_call *c, const struct record_place *place);

/* The place of a node. */
Csi__V1__Topology *reply_topology(struct csi_call *c, const char *node);

#endif
