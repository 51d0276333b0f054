/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/api/service.h. */
#ifndef BLOCKD_SERVICE_INTERNAL_H
#define BLOCKD_SERVICE_INTERNAL_H

#include "base/cleanup.h"
#include "blockd/api/service_reply.h"

static inline void cleanup_extent(struct extent **extent)
{
	extent_unref(*extent);
}

#define auto_extent        auto_cleanup(cleanup_extent)
#define auto_loopdev_users auto_cleanup(loopdev_users_done)

/*
 * Translate errors whose gRPC code would be "internal" though the caller can do
 * something about them.
 */
int service_translate(int r, struct error *err);

/*
 * The same for a change in a pool that failed: @pool, or, where that is "", the
 * pool of @extent (NULL: it is not known).
 */
int service_failed(const struct service *service, const char *pool,
		   const char *extent, int r, struct error *err);

/* Fill the answer with what is known of the extent. */
int service_reply_extent(struct rpc_call *call, struct extent *extent,
			 ProtobufCMessage *out, struct error *err);

/* @ret: EXTENT_LABELS_MAX of them, which borrow. -EINVAL: too many. */
int service_take_labels(Tributary__V1__Label *const *labels, size_t n,
			struct extent_label *ret, struct error *err);

/* NULL: none. */
struct extent_limits service_take_limits(const Tributary__V1__Limits *limits);

/* Handlers that are elsewhere than the table. */
int service_get_export_stats(struct rpc_call *call, const ProtobufCMessage *in,
			     ProtobufCMessage *out, struct error *err);
int service_hold_writes(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err);
int service_release_writes(struct rpc_call *call, const ProtobufCMessage *in,
			   ProtobufCMessage *out, struct error *err);
int service_create_snapshots(struct rpc_call *call, const ProtobufCMessage *in,
			     ProtobufCMessage *out, struct error *err);
int service_pull_extent(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err);
int service_revert_extent(struct rpc_call *call, const ProtobufCMessage *in,
			  ProtobufCMessage *out, struct error *err);
int service_set_limits(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err);
int service_list_ranges(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err);
int service_check_pool(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err);
int service_grow_pool(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err);

#endif
