/* SPDX-License-Identifier: Apache-2.0 */
/* The live union of a volume on this machine, and its branches. */
#ifndef VOLUME_LOCAL_UNION_H
#define VOLUME_LOCAL_UNION_H

#include "volume/mount/union_process.h"
#include "volume/op/context.h"

/* The branch that @split is; at a mount the split's index is its number. */
void local_union_branch(const struct volume_context *ctx,
			const struct volume_record *record,
			const struct volume_split *split,
			struct union_branch *ret);

/*
 * Note on the branch of @split, mounted here, which place it has in inode
 * numbers (docs/union.md). A branch that joins a union that is mounted has the
 * note before. A successor has the place of the other split, in the next turn.
 */
int local_union_note_place(const struct operation *op,
			   const struct volume_split *split, struct error *err);

/*
 * Return the path where the union of @volume takes commands. The path is ""
 * when a socket cannot have it: then the union gets no branches while it is
 * mounted.
 *
 * @ret  PATH_MAX bytes
 */
void local_union_control(const struct volume_context *ctx, const char *volume,
			 char *ret);

/*
 * Does the union at @mount_point have the branches of the first @n splits?
 * Those that are lost do not count.
 */
bool local_union_has(const struct volume_context *ctx, const char *mount_point,
		     const struct volume_record *record, size_t n);

/* Does the union at @mount_point keep the places of all lost splits? */
bool local_union_keeps_places(const char *mount_point,
			      const struct volume_record *record);

/*
 * Add the branches of all splits, mounted here, which the union at
 * @mount_point does not have yet: new ones, and those at a place that is
 * absent.
 *
 * -EOPNOTSUPP: that one takes none while it is mounted, the text says why;
 * the next one will have them. -EIO: it does not answer, or refused.
 */
int local_union_follow(struct operation *op, const char *mount_point,
		       struct error *err);
/* The same for the branch of one split. */
int local_union_follow_one(struct operation *op, const char *mount_point,
			   const struct volume_split *split, struct error *err);

#endif
