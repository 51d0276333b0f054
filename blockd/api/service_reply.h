/* SPDX-License-Identifier: Apache-2.0 */
/* What we know, as messages of proto/blockd.proto. All from the call's arena.
 */
#ifndef BLOCKD_SERVICE_REPLY_H
#define BLOCKD_SERVICE_REPLY_H

#include "blockd/api/service.h"
#include "blockd/local/loopdev_users.h"
#include "proto/blockd.pb-c.h"

/* @out was initialised. */
void service_fill_pool(struct rpc_call *call, const struct node_pool_info *info,
		       Tributary__V1__Pool *out);

/*
 * @users  the loop devices of this node, one scan for many extents
 *
 * -ENOENT when the extent has gone meanwhile, or is not made yet.
 */
int service_fill_extent(struct rpc_call *call, struct extent *extent,
			const struct loopdev_users *users,
			Tributary__V1__Extent *out, struct error *err);

/* All pools into @ret, an array from the arena. */
int service_list_pools(struct rpc_call *call, const char *name,
		       Tributary__V1__Pool ***ret, size_t *ret_n,
		       struct error *err);

#endif
