/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two files of the fake node. Under node->lock, but for calls. */
#ifndef CSI_FAKE_NODE_INTERNAL_H
#define CSI_FAKE_NODE_INTERNAL_H

#include "csi/testkit/fake_node.h"
#include "proto/blockd.pb-c.h"

/* "": a free one. NULL: there is none. */
struct fake_extent *fake_find(struct fake_node *node, const char *name);
uint64_t fake_room(const struct fake_node *node);
/* Whose call it is; it is counted. */
struct fake_node *fake_node_of(struct rpc_call *call);
/* Sleep for pause_ms, or until the test wants no pause any more. */
void fake_pause(struct fake_node *node);
void fake_answer(struct rpc_call *call, const struct fake_extent *e,
		 Tributary__V1__Extent *out);
/* @to, which has a name and a size, begins with what @from holds. */
void fake_copy(struct fake_node *node, const struct fake_extent *from,
	       struct fake_extent *to);

int fake_remove_export(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err);
int fake_hold_writes(struct rpc_call *call, const ProtobufCMessage *in,
		     ProtobufCMessage *out, struct error *err);
int fake_release_writes(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err);
int fake_create_snapshots(struct rpc_call *call, const ProtobufCMessage *in,
			  ProtobufCMessage *out, struct error *err);
int fake_revert_extent(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err);
int fake_set_limits(struct rpc_call *call, const ProtobufCMessage *in,
		    ProtobufCMessage *out, struct error *err);
/*
 * List one range for each snapshot: its first content bytes; a delta: between.
 */
int fake_list_ranges(struct rpc_call *call, const ProtobufCMessage *in,
		     ProtobufCMessage *out, struct error *err);

#endif
