/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of us: nodes, by the 64-bit id it was told, and by
 * the file handle on a branch. A node of a million holds no descriptor and
 * no path. A file has one copy, a directory one on each branch that has it.
 *
 * Nodes are kept in memory that outlives the server, and only there: see
 * node_record.h.
 *
 * The kernel keeps a node alive: it counts the replies that named it and
 * gives them back by FORGET. So do we, by holds of our own. Every request that
 * names a node holds such a count, so a node and its copies stay valid for the
 * length of a request; but for one: who opens a file handle names a node that
 * nobody may know any more (see op_lookup()); it may be asleep. Copies are
 * added (made on another branch, moved there) and marked gone, never taken off,
 * so that walking them needs no lock.
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

#include "union/node/node_sleep.h"
#include "union/state/node_record.h"
#include "union/sys/handle.h"

struct dir_fd;
struct node_lost;
struct state;

/*
 * A descriptor of what is about to be removed (O_PATH; -1: none). When the
 * union is to survive its server it is kept elsewhere, too, from before the
 * removal on.
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
	uint32_t free_node, free_copy; /* see node_slots.h */
	uint64_t copies, nodes;
	uint64_t asleep; /* of the nodes: nobody has them, see node_sleep.h */
	bool takes_over; /* copies: see node_intern(); set before use */
	void (*forget_names)(uint64_t node); /* NULL; of what is asleep */
	struct node_sleepers sleepers;
	struct node_lost *lost; /* see node_lost.h */
	size_t lost_size;
	_Atomic size_t lost_count;
	unsigned
		quiet_free; /* no slot below is free; preserve_mtime.c's lock */
	pthread_mutex_t locks[NODE_LOCKS]; /* of nodes, by id */
};

/*
 * @generation  the first to be given; the time, so that a mount never
 *              repeats what an earlier one gave
 * @state       where the nodes are to be, so that they outlive this server;
 *              borrowed. NULL: in memory of the table's own
 *
 * None sleeps, unless the caller then sets sleepers.max. 0 or -errno.
 */
int node_table_init(struct node_table *table, uint64_t generation,
		    struct state *state);
void node_table_done(struct node_table *table);

/*
 * The node @id, or NULL for an id that was not given, or was forgotten and is
 * not asleep.
 */
struct node *node_get(const struct node_table *table, uint64_t id);

/* Above the ids of all nodes. */
uint64_t node_ids(const struct node_table *table);

/*
 * The node of the inode found (all copies of one directory), new if it was
 * not known; its count of lookups is raised by one. Copies not known yet are
 * added. One that belongs to another node stays that one's; or is taken from
 * it, where others change the branches (takes_over): two directories that were
 * apart have become one, or are one no more. @type and @ino are those of a new
 * node.
 *
 * 0 or -ENOMEM.
 */
int node_intern(struct node_table *table, mode_t type, uint64_t ino,
		const struct node_found *found, unsigned count,
		struct node **ret);

/*
 * The same for a directory that may have copies that could not be found: it
 * is in doubt, unless it was known before.
 */
int node_intern_doubted(struct node_table *table, mode_t type, uint64_t ino,
			const struct node_found *found, unsigned count,
			bool doubted, struct node **ret);

/*
 * The directory that has the copy @known on @known_branch, if it is known at
 * all, is now on @branch too. 0 or -ENOMEM.
 */
int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle);

/*
 * The same before the copy is in its place: it is none to anybody until
 * node_add_copy() says so again, or is no more by node_copy_gone(). So whoever
 * goes on for a server that was killed knows of each that is there.
 */
int node_begin_copy(struct node_table *table, unsigned known_branch,
		    const struct handle *known, unsigned branch,
		    const struct handle *handle);

/*
 * Another number when a directory that was known has got a copy since; never
 * 0. What is remembered of a directory's copies can be told to be of all.
 */
uint64_t node_copies_changed(void);

/*
 * The node that has the copy @handle on @branch, or NULL. It is held: it
 * stays, whatever the kernel forgets, until node_let_go().
 */
struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle);

/*
 * This copy was removed from its branch, if it is known at all.
 *
 * @buried  of it; taken; or NULL. It serves who still uses the directory, if
 *          that was its last copy.
 */
void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, struct orphan_fd *buried);

/*
 * The file with this copy, if it is known at all, lost its last name; takes
 * @buried, so that its inode stays as long as the node.
 */
void orphan_inode_add(struct node_table *table, unsigned branch,
		      const struct handle *handle, struct orphan_fd *buried);

/*
 * The copy @handle on @branch, if it is known at all, had a change that is
 * not to be seen. Without memory it is seen.
 */
void preserve_ctime_change(struct node_table *table, unsigned branch,
			   const struct handle *handle,
			   const struct quiet_change *change);

/* The change time to show for @copy, whose times are in @st. */
struct timespec preserve_ctime_shown(struct node_table *table,
				     const struct copy *copy,
				     const struct stat *st);

/*
 * The file @node, whose one copy is @from on @from_branch, is now @to on
 * @to_branch: it is moved. Who asks for its copy while that happens finds the
 * one or the other; so nobody should (see move_lock.h). Its open files are to
 * be opened anew: node_moves() says how often. 0, -ENOMEM, or -ESTALE: that
 * copy is not its.
 */
int node_move(struct node_table *table, struct node *node, unsigned from_branch,
	      const struct handle *from, unsigned to_branch,
	      const struct handle *to);

/* How often it did; a directory never does. */
unsigned node_moves(const struct node *node);

/* Has a node this copy? */
bool node_has(struct node_table *table, unsigned branch,
	      const struct handle *handle);

/* Call @visit for each node with a copy on @branch that is not gone. */
void node_each_on(struct node_table *table, unsigned branch,
		  void (*visit)(void *context, const struct node *node),
		  void *context);

/*
 * The node @id, held; or NULL: there is none. For who names a node that the
 * kernel may be about to forget.
 */
struct node *node_hold_id(struct node_table *table, uint64_t id);

/* Give a hold back. */
void node_let_go(struct node_table *table, struct node *node);

/*
 * Those that are asleep and have a copy on @branch are no more: it is about to
 * go.
 */
void node_drop_asleep(struct node_table *table, unsigned branch);

/* As that table would be left to the next server; takes @fd (-1: none). */
struct orphan_fd orphan_inode_open(struct node_table *table, int fd);
void orphan_inode_done(struct orphan_fd *buried);

/* Give back @count lookups; too many are taken as all of them. */
void node_forget(struct node_table *table, uint64_t id, uint64_t count);

/* Those that are not asleep. */
uint64_t node_count(struct node_table *table);

/*
 * The copy on the lowest branch that is not gone, or NULL. Those of a
 * directory on failed branches (branch_health.h) are passed over, here and in
 * the two that follow; that of a file is not.
 */
struct copy *node_first(const struct node *node);
/* The next one that is not gone, or NULL. */
struct copy *copy_next(const struct copy *copy);
/* The copy on @branch, or NULL. */
struct copy *node_copy_on(const struct node *node, unsigned branch);

/* The copy on a failed branch that comes after @after (NULL: the first). */
struct copy *node_failed_copy(const struct node *node,
			      const struct copy *after);

/* Has it copies, all of them on failed branches? */
bool node_is_failed(const struct node *node);

/* Was the directory found while it may have had a copy that was not? */
bool node_in_doubt(const struct node *node);

void node_lock(struct node_table *table, const struct node *node);
void node_unlock(struct node_table *table, const struct node *node);

#endif
