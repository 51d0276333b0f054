/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes that the kernel knows: nodes, by the 64-bit id it was told, and by the
 * file handle on a branch. So a million nodes hold no descriptor and no path. A
 * file has one copy, a directory one on each branch that has it.
 *
 * Nodes are kept in memory that outlives the server, and only there: see
 * node_record.h.
 *
 * The kernel keeps a node alive: it counts the replies that named it and gives
 * them back by FORGET. The server keeps nodes alive, too: each of its holds
 * counts. Every request that names a node has such a hold, so a node and its
 * copies stay valid for the length of a request. An exception is the opening of
 * a file handle. That names a node that may be forgotten (op_lookup()).
 *
 * Copies are added (made on another branch, moved there) and marked gone, never
 * taken off. So walking them needs no lock.
 */
#ifndef UNION_NODE_H
#define UNION_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "union/node/forgotten.h"
#include "union/state/node_record.h"
#include "union/sys/handle.h"

struct dir_fd;
struct lost_forget;
struct state;

/*
 * A descriptor (O_PATH; -1: none) of a file or directory that is about to be
 * removed. If the union is to survive its server, it is also in the fd store,
 * from before the removal on.
 */
struct orphan_fd {
	int fd;
	uint64_t token; /* fd_store.h; 0: it is not kept */
};

/* A copy as a lookup found it. */
struct node_found {
	unsigned branch;
	struct handle handle;
};

#define NODE_LOCKS 64

struct node_table {
	pthread_mutex_t lock; /* guards all but locks[] */
	struct state *state;  /* where nodes and copies are */
	bool owns_state;      /* it goes with the table */
	uint32_t *buckets;    /* of copies, by handle: see node_index.h */
	unsigned bucket_bits;
	uint32_t free_node, free_copy; /* see node_index.h */
	uint64_t copies, nodes;
	uint64_t forgotten_count; /* of the nodes: nobody has them, see
				     forgotten.h */
	bool takes_over; /* copies: see node_intern(); set before use */
	void (*forget_names)(uint64_t node); /* NULL; of a forgotten node */
	struct forgotten_ring forgotten;
	struct lost_forget *lost; /* see lost_forget.h */
	size_t lost_size;
	_Atomic size_t lost_count;
	unsigned
		quiet_free; /* no slot below is free; preserve_mtime.c's lock */
	pthread_mutex_t locks[NODE_LOCKS]; /* of nodes, by id */
};

/*
 * Make a table.
 *
 * @generation  the first to be given; the time, so that a mount never
 *              repeats what an earlier one gave
 * @state       memory for the nodes, so that they outlive this server;
 *              borrowed. NULL: in memory of the table's own
 *
 * No forgotten node is kept, unless the caller then sets forgotten.max. 0 or
 * -errno.
 */
int node_table_init(struct node_table *table, uint64_t generation,
		    struct state *state);
void node_table_done(struct node_table *table);

/*
 * Get the node @id; NULL: the id was not given, or was forgotten and is not
 * asleep.
 */
struct node *node_get(const struct node_table *table, uint64_t id);

/* Get a number above the ids of all nodes. */
uint64_t node_ids(const struct node_table *table);

/*
 * Get the node of the inode found (all copies of one directory), new if it was
 * not known. Its count of lookups is raised by one. Unknown copies are added.
 * @type and @ino are those of a new node.
 *
 * A copy that belongs to another node stays that node's. But where others
 * change the branches (takes_over) it is taken from that node: two directories
 * have become one, or one has become two.
 *
 * @doubted: of a new directory, which may have copies that could not be found.
 *
 * 0 or -ENOMEM.
 */
int node_intern_doubted(struct node_table *table, mode_t type, uint64_t ino,
			const struct node_found *found, unsigned count,
			bool doubted, struct node **ret);
static inline int node_intern(struct node_table *table, mode_t type,
			      uint64_t ino, const struct node_found *found,
			      unsigned count, struct node **ret)
{
	return node_intern_doubted(table, type, ino, found, count, false, ret);
}

/*
 * Add a copy on @branch to the directory that has the copy @known on
 * @known_branch, if that is known at all. 0 or -ENOMEM.
 */
int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle);

/*
 * Do the same before the copy is in its place. It is no copy to others until
 * node_add_copy() is called for it, or node_copy_gone() ends it. So the server
 * after a kill knows of each copy that is there.
 */
int node_begin_copy(struct node_table *table, unsigned known_branch,
		    const struct handle *known, unsigned branch,
		    const struct handle *handle);

/*
 * Get a number that changes when a known directory has got a copy; never 0. A
 * caller that remembers a directory's copies tells by it whether they are all.
 */
uint64_t node_copies_changed(void);

/*
 * Hold the node that has the copy @handle on @branch, or NULL. It stays, even
 * if the kernel forgets it, until node_let_go().
 */
struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle);

/*
 * Note that this copy was removed from its branch, if it is known at all.
 *
 * @orphan  of the copy; taken; or NULL. It serves users of the directory, if
 *          that was its last copy.
 */
void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, struct orphan_fd *orphan);

/*
 * Note that the file with this copy, if it is known at all, lost its last
 * name. Takes @orphan, so that its inode stays as long as the node.
 */
void orphan_inode_add(struct node_table *table, unsigned branch,
		      const struct handle *handle, struct orphan_fd *orphan);

/*
 * Note that the copy @handle on @branch, if it is known at all, had a change
 * that is not to be seen. Without memory it is seen.
 */
void preserve_ctime_change(struct node_table *table, unsigned branch,
			   const struct handle *handle,
			   const struct quiet_change *change);

/* Get the change time to show for @copy, whose times are in @st. */
struct timespec preserve_ctime_shown(struct node_table *table,
				     const struct copy *copy,
				     const struct stat *st);

/*
 * Note that the file @node, whose one copy is @from on @from_branch, has moved:
 * it is now @to on @to_branch. A request that asks for its copy meanwhile finds
 * the one or the other; so there should be none (migrate_lock.h). Its open
 * files are to be opened anew: node_moves() counts the moves. 0, -ENOMEM, or
 * -ESTALE:
 * @from is not its copy.
 */
int node_move(struct node_table *table, struct node *node, unsigned from_branch,
	      const struct handle *from, unsigned to_branch,
	      const struct handle *to);

/* Get the number of its moves; a directory never moves. */
static inline unsigned node_moves(const struct node *node)
{
	return S_ISDIR(node->type) ? 0 : atomic_load(&node->of.file.moves);
}

/* Has a node this copy? */
bool node_has(struct node_table *table, unsigned branch,
	      const struct handle *handle);

/* Call @visit for each node with a copy on @branch that is not gone. */
void node_each_on(struct node_table *table, unsigned branch,
		  void (*visit)(void *context, const struct node *node),
		  void *context);

/*
 * Hold the node @id; NULL: there is none. For callers that name a node that the
 * kernel may be about to forget.
 */
struct node *node_hold_id(struct node_table *table, uint64_t id);

/* Give a hold back. */
void node_let_go(struct node_table *table, struct node *node);

/*
 * Drop forgotten nodes that have a copy on @branch, which is about to go.
 */
void node_drop_asleep(struct node_table *table, unsigned branch);

/* Keep @fd (-1: none) as the table is left to the next server; takes @fd. */
struct orphan_fd orphan_inode_open(struct node_table *table, int fd);
void orphan_inode_done(struct orphan_fd *orphan);

/* Give back @count lookups; too many are taken as all of them. */
void node_forget(struct node_table *table, uint64_t id, uint64_t count);

/* Count the nodes that are not forgotten. */
uint64_t node_count(struct node_table *table);

/* Get @copy (may be NULL), or the one after it that node_first() may get. */
struct copy *copy_live(struct copy *copy);
/*
 * Get the copy on the lowest branch that is not gone, or NULL. Copies of a
 * directory on failed branches (branch_health.h) are passed over, here and in
 * the two functions that follow. The copy of a file is not.
 */
static inline struct copy *node_first(const struct node *node)
{
	return copy_live(node_copies(node));
}
/* Get the next copy that is not gone, or NULL. */
static inline struct copy *copy_next(const struct copy *copy)
{
	return copy_live(copy_after(copy));
}
/* Get the copy on @branch, or NULL. */
struct copy *node_copy_on(const struct node *node, unsigned branch);

/* Get the copy on a failed branch that comes after @after (NULL: the first). */
struct copy *node_failed_copy(const struct node *node,
			      const struct copy *after);

/* Has the node copies, all of them on failed branches? */
bool node_is_failed(const struct node *node);

/* Was the directory found while it may have had an unknown copy? */
bool node_in_doubt(const struct node *node);

static inline void node_lock(struct node_table *table, const struct node *node)
{
	pthread_mutex_lock(&table->locks[node->id % NODE_LOCKS]);
}

static inline void node_unlock(struct node_table *table,
			       const struct node *node)
{
	pthread_mutex_unlock(&table->locks[node->id % NODE_LOCKS]);
}

#endif
