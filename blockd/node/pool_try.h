/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A try of a pool (struct pool_ops's retry() and try()) in a thread of its own.
 * A disk that hangs keeps that thread, and nobody else.
 */
#ifndef BLOCKD_POOL_TRY_H
#define BLOCKD_POOL_TRY_H

#include <stdbool.h>

#include "blockd/pool/pool.h"

struct pool_try;

/*
 * @pool   borrowed until pool_try_end()
 * @ended  called once, in that thread; brief
 *
 * -EAGAIN, -ENOMEM: there is no thread for it.
 */
int pool_try_begin(struct pool *pool, void (*ended)(void *context),
		   void *context, struct pool_try **ret);

/* Tell whether the try has ended, after at most @ms milliseconds. */
bool pool_try_wait(struct pool_try *t, int ms);

/*
 * Free a try that has ended. Returns 1 when the pool can be closed and opened
 * again (retry()); else the result of try().
 */
int pool_try_end(struct pool_try *t, struct error *err);

#endif
