/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of a node: its pools, the extents in them, and its notes of the
 * pools (STATE/pools/NAME.pool). Everything about extents is in the pools
 * themselves.
 */
#ifndef BLOCKD_NODE_H
#define BLOCKD_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "blockd/extent/node_space.h"
#include "blockd/extent/node_tables.h"

struct node_options {
	const char *state_dir; /* made if missing */
	uint64_t floor;        /* bytes each medium keeps free; 0: default */
};

/* -EBUSY: another blockd uses the state directory. */
int node_new(const struct node_options *options, struct node **ret,
	     struct error *err);
/* Nothing uses it any more. NULL is fine. */
void node_free(struct node *node);

/*
 * Open the pools that are remembered. One that is missing, foreign or damaged
 * is reported in the log and in its state; -EBUSY: another blockd has one.
 */
int node_open_known(struct node *node, struct error *err);

struct node_pool_request {
	const char *name;
	const char *path;
	/* An existing pool gets both values; 0 leaves one unchanged. */
	unsigned overcommit_percent; /* of a new pool 0: the default */
	uint64_t capacity;     /* bytes; of a new pool 0: what the medium has */
	bool may_format;       /* false: only a pool that is there */
	uint64_t cluster_size; /* bytes; 0: the default of its kind */
	bool raw;              /* a directory is -EINVAL */
	bool force;            /* format what holds something else */
};

bool node_knows_pool(struct node *node, const char *name);

/*
 * Serve the pool at a path: open a pool of ours that is there, format an empty
 * directory. Repeating it is 0, also to bring back a pool that was missing.
 *
 * @ret_note  ERROR_TEXT_MAX bytes: changes to a pool that was there, in words
 *            for a person, which are in the log, too; "": none. NULL is fine
 *
 * -ENOENT: no such directory; or no pool in it, while may_format is not set or
 * a pool was known to be there. -EEXIST: the name or the directory belongs to
 * another pool, or the pool has another cluster size.
 * -ENOTEMPTY: holds other files; -EBUSY: another blockd has it; -ESTALE,
 * -EBADMSG: foreign or damaged; -EINVAL: a bad name or figure.
 */
int node_add_pool(struct node *node, const struct node_pool_request *request,
		  char *ret_note, struct error *err);

/* -EBUSY: it has extents; -ENODEV: not online. Not there: 0. */
int node_delete_pool(struct node *node, const char *name, struct error *err);

/*
 * struct pool_ops has what these do. -ENOENT: no such pool; -ENODEV: it is
 * not online; -EOPNOTSUPP: its kind has no such thing. Pools are neither made
 * nor deleted meanwhile.
 */
int node_check_pool(struct node *node, const char *name, bool repair,
		    void (*finding)(void *context, const char *text,
				    bool repaired),
		    void *context, struct error *err);
int node_grow_pool(struct node *node, const char *name, struct error *err);

#endif
