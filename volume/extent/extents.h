/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single extents, for people who look under the hood: made, changed, exported
 * and attached by hand, with the conventions of volume.h.
 */
#ifndef VOLUME_EXTENTS_H
#define VOLUME_EXTENTS_H

#include "volume/node/node_client.h"
#include "volume/volume.h"

struct extent_request {
	const char *node;
	const char *pool; /* NULL: the one with the most room */
	const char *name;
	uint64_t size; /* bytes; rounded up to a multiple of 4096 */
	const struct labels *labels; /* NULL: none */
	bool thick;                  /* allocate it now */
	struct node_limits limits;
};

/* For functions that return an extent, node_extent_done() frees its members. */
int volume_extent_create(struct volume_context *ctx,
			 const struct extent_request *request,
			 struct node_extent *ret, struct error *err);
int volume_extent_get(struct volume_context *ctx, const char *node,
		      const char *name, struct node_extent *ret,
		      struct error *err);
/* @pool NULL: of all. node_extents_free(). */
int volume_extent_list(struct volume_context *ctx, const char *node,
		       const char *pool, struct node_extent **ret,
		       size_t *ret_count, struct error *err);
int volume_extent_resize(struct volume_context *ctx, const char *node,
			 const char *name, uint64_t size,
			 struct node_extent *ret, struct error *err);
/*
 * Delete an extent. Not there: 0. -EBUSY: in use, or part of a volume. The
 * latter only without @force, which is for extents whose volume's record is
 * lost. An extent with data stays even so if a record has it or looks for it by
 * its id.
 */
int volume_extent_delete(struct volume_context *ctx, const char *node,
			 const char *name, bool force, struct error *err);

struct extent_snapshot_request {
	const char *node;
	const char *extent;
	const char *name; /* of the snapshot; on the same node and pool */
};

/*
 * Make snapshots of extents, also of several nodes, at one instant: all of
 * them, or an error and none. Pools that copy byte by byte return them in state
 * NODE_COPYING.
 *
 * @labels  of each; NULL: none
 * @ret     @n of them, in the order of @requests; node_extents_free()
 *
 * -ESTALE: the hold of a node ended too early. -EBUSY: an extent is used by a
 * device that can't wait. -EEXIST: a name is taken. -EOPNOTSUPP: a pool can't.
 * After -EHOSTUNREACH or -ETIMEDOUT the text says which may be left.
 */
int volume_extent_snapshot(struct volume_context *ctx,
			   const struct extent_snapshot_request *requests,
			   size_t n, const struct labels *labels,
			   struct node_extent **ret, struct error *err);

struct extent_clone_request {
	const char *node;
	const char *source; /* an extent or snapshot of the node */
	const char *name;   /* of the new one, in the pool of its source */
	uint64_t size;      /* bytes; 0: its source's */
	const struct labels *labels; /* NULL: none */
	bool thick; /* allocate now all it does not share with its source */
	struct node_limits limits;
};

/* -ERANGE: smaller than its source. NODE_COPYING as above. */
int volume_extent_clone(struct volume_context *ctx,
			const struct extent_clone_request *request,
			struct node_extent *ret, struct error *err);
/*
 * Set an extent back to a snapshot of it. -EBUSY: it is exported or used by a
 * device, or part of a volume (then only without @force).
 */
int volume_extent_revert(struct volume_context *ctx, const char *node,
			 const char *name, const char *snapshot, bool force,
			 struct node_extent *ret, struct error *err);
/* Set the limits of an extent, at once, also while it is used. */
int volume_extent_limit(struct volume_context *ctx, const char *node,
			const char *name, const struct node_limits *limits,
			struct node_extent *ret, struct error *err);
/* As node_client_list_ranges(). */
int volume_extent_ranges(struct volume_context *ctx, const char *node,
			 const struct node_ranges_request *request,
			 node_range each, void *context, uint64_t *ret_size,
			 struct error *err);

struct extent_export_request {
	const char *node;
	const char *name;
	uint64_t epoch; /* 0: the one it has, or none */
	const char *const *initiators;
	size_t n_initiators;
	bool read_only;
	bool force; /* although it is part of a volume */
	struct node_lun lun;
};

int volume_extent_export(struct volume_context *ctx,
			 const struct extent_export_request *request,
			 struct node_extent *ret, struct error *err);
int volume_extent_unexport(struct volume_context *ctx, const char *node,
			   const char *name, struct error *err);

struct extent_attach_request {
	const char *node;
	const char *name;
	const char *transport; /* NULL: "auto" */
	bool read_only;
	/*
	 * Attach although it is part of a volume, or attached elsewhere: the
	 * other attachment is fenced.
	 */
	bool force;
};

/*
 * Make the extent a block device here, at its next epoch. A healthy device that
 * exists is returned. -EBUSY: see force.
 */
int volume_extent_attach(struct volume_context *ctx,
			 const struct extent_attach_request *request,
			 struct initiator_device *ret, struct error *err);
/* Not attached: 0. An unreachable node does not keep the device here. */
int volume_extent_detach(struct volume_context *ctx, const char *node,
			 const char *name, struct error *err);
/* Every extent that is a block device here. Returned owned, free(). */
int volume_device_list(struct volume_context *ctx,
		       struct initiator_device **ret, size_t *ret_count,
		       struct error *err);

#endif
