/* SPDX-License-Identifier: Apache-2.0 */
/* Which extents records have, by id or name and by place. */
#ifndef VOLUME_ORPHAN_MATCH_H
#define VOLUME_ORPHAN_MATCH_H

#include "volume/op/context.h"
#include "volume/snapshot/snapshot.h"

/*
 * Return the split whose extent has @id, or is called @name and has no id yet:
 * wherever the record looks for it. NULL: none that is not lost.
 */
const struct volume_split *orphan_split_of(const struct volume_record *record,
					   const char *id, const char *name);
/*
 * Tell whether the record has the extent on @node, as a split's or as the other
 * place of one that moves.
 */
bool orphan_record_has(const struct volume_record *record, const char *id,
		       const char *name, const char *node);
/* Return the snapshot's split of that name, if it is not lost. NULL is fine. */
const struct snapshot_split *orphan_snapshot_split(
	const struct snapshot_record *record, const char *name);

/*
 * Tell whether a finding is true by its record as the store has it now. It is,
 * if the store does not answer.
 */
bool orphan_is_confirmed(struct volume_context *ctx, const struct orphan *o);

#endif
