/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher does for a request: who may ask, and for which programs. */
#ifndef LAUNCH_LAUNCH_HANDLE_H
#define LAUNCH_LAUNCH_HANDLE_H

#include <stddef.h>

#include "base/error.h"
#include "launch/launch_proto.h"
#include "launch/launch_server.h"
#include "launch/launch_store.h"

struct launch_handler {
	const struct launch_config *config; /* borrowed */
	struct launch_store store;          /* the caller polls and ends it */
};

/* Begin. @handler may not move from then on. */
void launch_handler_init(struct launch_handler *handler,
			 const struct launch_config *config);

/*
 * Do what a peer asks.
 *
 * @fd      its connection. Taken, and -1 then, if descriptors of the peer are
 *          stored
 * @data    @length bytes, the request as it came
 * @fds     @n_fds that came with it; one that is taken is -1 then
 * @reply   set on success, unless @fd is taken
 *
 * 0, or -errno with @err for the peer.
 */
int launch_handle(struct launch_handler *handler, int *fd, const void *data,
		  size_t length, int *fds, size_t n_fds,
		  struct launch_reply *reply, struct error *err);

#endif
