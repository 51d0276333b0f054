/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct runs and the rules of epochs. The device of an attachment of this node
 * passes by blockd only while its epoch and grant are the extent's. Whatever
 * ends that ends the direct runs first (exports.h).
 */
#ifndef BLOCKD_EXPORTS_DIRECT_H
#define BLOCKD_EXPORTS_DIRECT_H

#include "base/error.h"
#include "blockd/extent/extent.h"

/*
 * pool_ops.direct_attach().
 *
 * @uuid  of the mapper device that the attachment's users have
 *
 * -ESTALE: it is not the epoch's attachment (any more); -EOPNOTSUPP: it has no
 * direct runs, the text says why, and all goes through blockd.
 */
int exports_direct_attach(struct extent *extent, uint64_t epoch,
			  const char *grant, const char *uuid,
			  struct error *err);

/*
 * pool_ops.direct_detach(). An epoch that is not the extent's, or of another
 * grant, has none: 0.
 */
int exports_direct_detach(struct extent *extent, uint64_t epoch,
			  const char *grant, struct error *err);

#endif
