/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's channel. It is made anew when its certificates were renewed: a
 * channel keeps what its files had when it was made.
 */
#ifndef RPC_CHANNEL_H
#define RPC_CHANNEL_H

#include <grpc/grpc.h>
#include <stdbool.h>

#include "rpc/rpc.h"
#include "rpc/rpc_address.h"

struct rpc_channel; /* any thread */

/*
 * Make a channel, which does not connect yet. @tls: NULL for none.
 * @server_name: NULL for the host of @address.
 */
int rpc_channel_new(const struct rpc_address *address,
		    const struct rpc_tls *tls, const char *server_name,
		    struct rpc_channel **ret, struct error *err);
void rpc_channel_free(struct rpc_channel *channel);

/* The files of its certificates; NULL: it has no TLS. */
const struct rpc_tls *rpc_channel_tls(const struct rpc_channel *channel);

bool rpc_channel_is_connected(struct rpc_channel *channel);

/*
 * Connect now, in case the server came back meanwhile. A call may have less
 * time than is left until the next attempt. Where no connection came about,
 * renewed certificates are read; calls that wait on the old ones end with
 * UNAVAILABLE.
 */
void rpc_channel_connect(struct rpc_channel *channel);

/* A call of the method @path, which gives its events to @cq. */
grpc_call *rpc_channel_call(struct rpc_channel *channel,
			    grpc_completion_queue *cq, const char *path,
			    gpr_timespec deadline);

#endif
