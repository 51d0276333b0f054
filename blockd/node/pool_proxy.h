/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that stays while what is under it goes and comes back: a device may
 * vanish under calls that are under way. A call without a pool under it is
 * -ENODEV; a call that has begun ends before the pool under it is closed.
 */
#ifndef BLOCKD_POOL_PROXY_H
#define BLOCKD_POOL_PROXY_H

#include "blockd/pool/pool.h"

/*
 * A pool that does what @inner can. Takes @inner, but not on failure: -ENOMEM.
 */
int pool_proxy_new(struct pool *inner, struct pool **ret, struct error *err);

/* Another one under it, of the same kind, where there is none. Takes it. */
void pool_proxy_fill(struct pool *seat, struct pool *inner);

/* Waits for calls under way, and closes what is under it. */
void pool_proxy_clear(struct pool *seat);

#endif
