/* SPDX-License-Identifier: Apache-2.0 */
/* A volume whose content begins with that of a snapshot, or of a volume. */
#ifndef VOLUME_CLONE_SOURCE_H
#define VOLUME_CLONE_SOURCE_H

#include "volume/op/context.h"

/*
 * Fill in what @spec leaves to its source, and the source's uid.
 *
 * @there  the volume as it was made before, for which the source may be gone;
 *	   NULL: it is new
 *
 * -ENOENT: no such source. -EINVAL: it does not suit the spec. -ERANGE: it is
 * larger. -EAGAIN: it can't be used yet. -EBUSY: it is being deleted.
 */
int clone_source_resolve(struct volume_context *ctx, struct volume_spec *spec,
			 const struct volume_record *there, struct error *err);

/*
 * Plan the splits of the operation's volume: those of its source, where they
 * are, and more where it is larger. A volume as source is cut first.
 */
int clone_source_plan(struct operation *op, struct error *err);

/* Wait until the clone's extents, which are made, have all of their content. */
int clone_source_wait(struct operation *op, struct error *err);

/* Delete the snapshot that was only there to clone from. Nothing there: 0. */
int clone_source_drop(struct operation *op, struct error *err);

#endif
