/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that stays while the real pool under it goes and comes back: a device
 * may vanish under calls that are under way. A call without a pool under it is
 * -ENODEV; a call that has begun ends before the pool under it is closed.
 */
#ifndef BLOCKD_POOL_PROXY_H
#define BLOCKD_POOL_PROXY_H

#include "blockd/pool/pool.h"

/*
 * Make a proxy with the abilities of @inner. Takes @inner, but not on failure:
 * -ENOMEM.
 */
int pool_proxy_new(struct pool *inner, struct pool **ret, struct error *err);

/* Put a pool of the same kind under a proxy that has none. Takes @inner. */
void pool_proxy_fill(struct pool *seat, struct pool *inner);

/* Wait for calls under way, and close the pool under the proxy. */
void pool_proxy_clear(struct pool *seat);

#endif
