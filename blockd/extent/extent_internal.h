/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/extent/extent.h. */
#ifndef BLOCKD_EXTENT_INTERNAL_H
#define BLOCKD_EXTENT_INTERNAL_H

#include "blockd/extent/extent.h"
#include "blockd/extent/node_space.h"
#include "blockd/extent/node_tables.h"

/* Make @record, and what it owns, the extent's. Op is held. */
void extent_publish(struct extent *extent, const struct extent_record *record);

/* Set the state that the extent is in, or will be. Op is held. */
void extent_set_state(struct extent *extent, enum extent_state state);

/* Out of the table. Op is held. */
void extent_take_out(struct extent *extent);

/*
 * A new one in state EXTENT_CREATING with a name, labels, an id; @size, the
 * pool and the rest are the caller's. -EINVAL, -ENOMEM.
 */
int extent_fresh(struct node *node, const char *name,
		 const struct extent_label *labels, size_t n_labels,
		 struct extent **ret, struct error *err);

/* Lock one that is not in the table: nobody else can have it. */
void extent_lock_fresh(struct extent *extent);

/*
 * begin() for several, sorted by name, none twice: all of them or none. The
 * error is that of the first that could not be.
 */
int extents_begin(struct extent *const *extents, size_t n, struct error *err);
void extents_end(struct extent *const *extents, size_t n);

struct cut_request;

/*
 * The snapshots of a cut, if they are there. 0: all are, and @ret has
 * references; 1: none is; -ESTALE: some are; -EEXIST, -EAGAIN: a name is
 * somebody else's.
 */
int extents_of_cut(struct node *node, const struct cut_request *request,
		   struct extent **ret, struct error *err);

/* Remove the data of a new one. Op is held. False, and logged: it failed. */
bool extent_undo_data(struct extent *extent);

/* -ESTALE when @id is set and not its. */
int extent_check_id(const struct extent *extent, const char *id,
		    struct error *err);

/*
 * Find how the extent is copied: POOL_COPY_SHARED and so on. Op is held.
 * -EOPNOTSUPP names the pool, which can't.
 */
int extent_copy_method(const struct extent *extent, enum pool_copy_method *ret,
		       struct error *err);

/* Of @extent now, made by @method. Op is held. */
struct extent_origin extent_origin_of(const struct extent *extent,
				      enum pool_copy_method method);

#endif
