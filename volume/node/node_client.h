/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to one node's blockd (proto/blockd.proto), in plain structs. A node's
 * answer is checked for size before it is copied: -EPROTO.
 *
 * Every error's text starts with the node's name. After -EHOSTUNREACH and
 * -ETIMEDOUT it is unknown whether the call was carried out; repeat.
 */
#ifndef VOLUME_NODE_CLIENT_H
#define VOLUME_NODE_CLIENT_H

#include "volume/record/node.h"

struct node_client; /* any thread */

/* Does not connect yet. */
int node_client_new(const struct node_record *node, int timeout_ms,
		    struct node_client **ret, struct error *err);
void node_client_free(struct node_client *client); /* NULL is fine */

/* Fills everything but record, reachable and problem; pools are owned. */
int node_client_get(struct node_client *client, struct node_state *ret,
		    struct error *err);

/*
 * Do the same for callers that can do without an answer. The call waits 3 s at
 * most, or 3/10 of @timeout_ms if that is longer. After a silence in the last
 * 10 s it waits 0.3 s.
 */
int node_client_get_soon(struct node_client *client, struct node_state *ret,
			 struct error *err);

int node_client_create_pool(struct node_client *client,
			    const struct pool_request *wanted,
			    struct node_pool *ret, struct error *err);
int node_client_list_pools(struct node_client *client, struct node_pool **ret,
			   size_t *ret_count, struct error *err);
int node_client_delete_pool(struct node_client *client, const char *name,
			    struct error *err);

/*
 * Functions that return an extent: @ret NULL: not wanted, else
 * node_extent_done() frees its members.
 */
struct node_extent_request {
	const char *pool; /* NULL or "": the one with the most room */
	const char *name;
	uint64_t size;               /* bytes */
	const struct labels *labels; /* NULL: none */
	/*
	 * Source of its content, an extent or snapshot; NULL: zeroes. Its state
	 * is NODE_COPYING while a pool copies byte by byte.
	 */
	const char *source;
	const char *source_id; /* NULL: whichever has the name */
	bool thick;
	struct node_limits limits;
};

int node_client_create_extent(struct node_client *client,
			      const struct node_extent_request *request,
			      struct node_extent *ret, struct error *err);
int node_client_get_extent(struct node_client *client, const char *name,
			   struct node_extent *ret, struct error *err);
/* @pool "": of all. */
int node_client_list_extents(struct node_client *client, const char *pool,
			     struct node_extent **ret, size_t *ret_count,
			     struct error *err);
int node_client_resize_extent(struct node_client *client, const char *name,
			      uint64_t size, struct node_extent *ret,
			      struct error *err);
/* @id "": whichever has the name. */
int node_client_delete_extent(struct node_client *client, const char *name,
			      const char *id, struct error *err);

/* Which LUN of which target; proto/blockd.proto, IscsiExport. */
struct node_lun {
	const char *target;  /* NULL: one of its own */
	unsigned lun;        /* 0 to 255 */
	const char *account; /* whose CHAP secret; NULL: the extent's */
};

struct node_export_request {
	const char *name;
	uint64_t epoch;
	const char *const *initiators;
	size_t n_initiators;
	bool read_only;
	/*
	 * Block size of the disk that iSCSI initiators see, in bytes: 512 or
	 * 4096; 0: the pool's.
	 */
	unsigned block_size;
	struct node_lun lun;
	const char *grant; /* grant of the epoch; NULL: "" */
	/* Grants whose epochs may end for it (blockd/export/exports.h). */
	const char *const *over;
	size_t n_over;
};

/*
 * -EEXIST: another extent is that LUN. -ENOENT: no such extent or account.
 * -ESTALE: the epoch is over, or another's, or the present grant is not in
 * @over.
 */
int node_client_set_export(struct node_client *client,
			   const struct node_export_request *request,
			   struct node_extent *ret, struct error *err);
/*
 * End an export whose epoch is @epoch or lower (0: any) and granted to one of
 * @n @grants (0: any).
 */
int node_client_remove_export(struct node_client *client, const char *name,
			      uint64_t epoch, const char *const *grants,
			      size_t n, struct error *err);
/*
 * Let requests to mapper device @uuid of that node pass by its blockd
 * (proto/blockd.proto, AttachDirect), until node_client_detach_direct().
 *
 * -EOPNOTSUPP: they can't, the text says why; -ESTALE: @epoch is over, or
 * another grant's.
 */
int node_client_attach_direct(struct node_client *client, const char *name,
			      uint64_t epoch, const char *grant,
			      const char *uuid, struct node_extent *ret,
			      struct error *err);
int node_client_detach_direct(struct node_client *client, const char *name,
			      uint64_t epoch, const char *grant,
			      struct node_extent *ret, struct error *err);
int node_client_set_limits(struct node_client *client, const char *name,
			   const struct node_limits *limits,
			   struct node_extent *ret, struct error *err);

/* ---- snapshots ---- */

#define NODE_CUT_MAX     256   /* extents of one cut or hold on a node */
#define NODE_HOLD_MS_MAX 10000 /* how long one may last */

/*
 * Hold the writes to these extents. From the return of this call, their content
 * does not change until the release, or the end of the time. @id is a UUID of
 * the caller. A repeated call begins the time anew. -ESTALE: the hold has
 * lapsed. -EBUSY: a device that can't be held uses an extent, the text says
 * which.
 *
 * @device   UUID of a mapper device of that node, which is suspended first, and
 *           the file system on it frozen. NULL: none
 * @prepare  only make ready, so that the same call without it is quick. Writes
 *           go on
 */
int node_client_hold_writes(struct node_client *client, const char *id,
			    const char *const *extents, size_t n,
			    const char *device, unsigned timeout_ms,
			    bool prepare, struct error *err);
/* @ret_held  the hold lasted until now, without a break */
int node_client_release_writes(struct node_client *client, const char *id,
			       bool *ret_held, struct error *err);

struct node_snapshot_request {
	const char *extent;
	const char *extent_id;       /* NULL: whichever has the name */
	const char *name;            /* of the snapshot */
	const struct labels *labels; /* NULL: none */
};

/*
 * Make all snapshots or none, at one instant.
 *
 * @cut   a UUID, kept with each; a repeated call returns the existing ones
 * @hold  the hold that they are made in; -ESTALE: it has lapsed, or lacks one
 *        of them. NULL: one is made for the time it takes
 * @ret   @n of them, in the order of @requests; node_extents_free(). NULL:
 *        not wanted
 */
int node_client_create_snapshots(struct node_client *client, const char *cut,
				 const char *hold,
				 const struct node_snapshot_request *requests,
				 size_t n, struct node_extent **ret,
				 struct error *err);

/*
 * Give the extent the content of @snapshot, one of its snapshots. @id NULL: any
 * extent of that name. -EBUSY: exported, or held by a device.
 */
int node_client_revert_extent(struct node_client *client, const char *name,
			      const char *id, const char *snapshot,
			      struct node_extent *ret, struct error *err);

struct node_ranges_request {
	const char *name;     /* a snapshot */
	const char *id;       /* NULL: whichever has the name */
	const char *older;    /* NULL: allocated ranges, not differing ones */
	const char *older_id; /* NULL: whichever has the name */
	uint64_t start;       /* bytes: ranges that end after it */
};

/* Other than 0 ends the listing and is returned. @size of the snapshot. */
typedef int (*node_range)(void *context, uint64_t size, uint64_t offset,
			  uint64_t length);

/*
 * In order, without overlap; all inside the snapshot: -EPROTO.
 *
 * @ret_size  its size in bytes, also when there are no ranges; may be NULL
 *
 * -EINVAL: not snapshots, or not of one extent; -ERANGE: @start is past the
 * end. A connection that breaks is -EHOSTUNREACH: go on from where it was.
 */
int node_client_list_ranges(struct node_client *client,
			    const struct node_ranges_request *request,
			    node_range each, void *context, uint64_t *ret_size,
			    struct error *err);

struct node_piece {
	uint64_t offset, length; /* bytes */
};

struct node_pull_request {
	const char *name; /* the extent that pulls */
	const char *id;   /* NULL: whichever has the name */
	const char *address,
		*export; /* of an NBD server, as that node sees it */
	const struct node_piece *ranges; /* proto/blockd.proto, PullExtent */
	size_t n_ranges;                 /* 0: only ask */
};

struct node_pulled {
	bool runs;
	uint64_t position; /* bytes: all ranges below it are there, durably */
};

/*
 * Let an extent pull ranges of an export, or ask how far it is. The error of a
 * pull is returned once. -EBUSY: the extent is exported to a writer.
 */
int node_client_pull(struct node_client *client,
		     const struct node_pull_request *request,
		     struct node_pulled *ret, struct error *err);

/* ---- looking after pools ---- */

/* node_check_done() frees its members. */
struct node_check {
	bool clean;      /* nothing wrong is left */
	char **findings; /* owned; sentences */
	size_t n_findings;
	uint64_t repaired; /* of them */
};

void node_check_done(struct node_check *check);

/* -EOPNOTSUPP: this kind of pool has nothing to verify. */
int node_client_check_pool(struct node_client *client, const char *name,
			   bool repair, struct node_check *ret,
			   struct error *err);
int node_client_grow_pool(struct node_client *client, const char *name,
			  struct node_pool *ret, struct error *err);

#endif
