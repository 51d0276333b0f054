/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of us: nodes, by the 64-bit id it was told, and by
 * the file handle on a branch. A node of a million holds no descriptor and
 * no path. A file has one copy, a directory one on each branch that has it.
 *
 * The kernel keeps a node alive: it counts the replies that named it and
 * gives them back by FORGET. Every request that names a node holds such a
 * count, so a node and its copies stay valid for the length of a request.
 * Copies are added (a directory made on another branch) and marked gone,
 * never taken off, so that walking them needs no lock.
 */
#ifndef UNION_NODE_H
#define UNION_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "union/handle.h"

#define NODE_ROOT_ID 1 /* FUSE_ROOT_ID */

struct dir_fd;

/*
 * A copy of a directory changed, the directory did not (a subdirectory was
 * cloned into it, or it was cloned itself): while the copy has the change
 * time @after, it is shown as @shown.
 */
struct quiet_change {
	struct timespec after, shown;
};

struct copy {
	struct node *node;
	struct copy *_Atomic next;  /* of the node: higher branch */
	struct copy *hash_next;     /* guarded by the table's lock */
	struct dir_fd *cached;      /* guarded by the fd cache's lock */
	struct quiet_change *quiet; /* guarded by node_lock(); NULL: none */
	unsigned branch;
	atomic_bool gone;    /* removed from its branch */
	atomic_bool aligned; /* is as the first copy: see clone_dir() */
	struct handle handle;
};

struct node {
	uint64_t id;
	uint64_t generation; /* id and generation are never used twice */
	uint64_t ino;        /* st_ino */
	uint64_t lookups;    /* the kernel's count; table's lock */
	struct copy *_Atomic copies;
	mode_t type; /* S_IFMT bits */
	/* Of what was removed and may still be in use: its first copy,
	 * O_PATH; owned. -1: none. Set once. */
	atomic_int buried_fd;

	/* Guarded by node_lock(): */
	unsigned opens;     /* open files */
	unsigned rw_opens;  /* of them O_RDWR: their mmap writes go unseen */
	unsigned writers;   /* of them O_RDWR or O_WRONLY */
	bool passthrough;   /* how all of them are open */
	int32_t backing_id; /* kernel's name of the file; 0: none */
	int64_t subdirs;    /* of a directory; -1: not counted */
	unsigned subdir_changes;
};

/* A copy as a lookup found it. */
struct node_found {
	unsigned branch;
	struct handle handle;
};

#define NODE_CHUNK     4096 /* node pointers in one chunk */
#define NODE_CHUNK_MAX 65536
#define NODE_LOCKS     64

struct node_table {
	pthread_mutex_t lock;  /* guards all but locks[] */
	struct copy **buckets; /* by handle */
	unsigned bucket_bits;
	uint64_t copies;
	struct node **_Atomic chunks[NODE_CHUNK_MAX];
	uint64_t slots_used;  /* every slot below was used once */
	uint64_t *free_slots; /* a stack */
	uint64_t free_count, free_size;
	uint64_t next_generation;
	uint64_t nodes;
	pthread_mutex_t locks[NODE_LOCKS]; /* of nodes, by id */
};

/*
 * @generation  the first to be given; the time, so that a mount never
 *              repeats what an earlier one gave
 */
int node_table_init(struct node_table *table, uint64_t generation);
void node_table_done(struct node_table *table);

/* The node @id, or NULL for an id that was not given or was forgotten. */
struct node *node_get(struct node_table *table, uint64_t id);

/*
 * The node of the inode found (all copies of one directory), new if it was
 * not known; its count of lookups is raised by one. Copies not known yet are
 * added, but not one that belongs to another node. @type and @ino are those
 * of a new node.
 *
 * 0 or -ENOMEM.
 */
int node_intern(struct node_table *table, mode_t type, uint64_t ino,
		const struct node_found *found, unsigned count,
		struct node **ret);

/*
 * The directory that has the copy @known on @known_branch, if it is known at
 * all, is now on @branch too. 0 or -ENOMEM.
 */
int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle);

/*
 * The node that has the copy @handle on @branch, or NULL. Its count of
 * lookups is raised by one, as if the kernel knew it once more; that is
 * given back by node_forget().
 */
struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle);

/*
 * This copy was removed from its branch, if it is known at all.
 *
 * @fd  a descriptor of it (O_PATH) or -1; taken. It serves who still uses the
 *      directory, if that was its last copy.
 */
void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, int fd);

/*
 * The file with this copy, if it is known at all, lost its last name; takes
 * @fd (O_PATH), so that its inode stays as long as the node.
 */
void node_bury(struct node_table *table, unsigned branch,
	       const struct handle *handle, int fd);

/*
 * The copy @handle on @branch, if it is known at all, had a change that is
 * not to be seen. Without memory it is seen.
 */
void node_change_quietly(struct node_table *table, unsigned branch,
			 const struct handle *handle,
			 const struct quiet_change *change);

/* The change time to show for @copy, whose is @ctime. */
struct timespec node_shown_ctime(struct node_table *table,
				 const struct copy *copy,
				 const struct timespec *ctime);

/* Give back @count lookups; too many are taken as all of them. */
void node_forget(struct node_table *table, uint64_t id, uint64_t count);

uint64_t node_count(struct node_table *table);

/* The copy on the lowest branch that is not gone, or NULL. */
struct copy *node_first(const struct node *node);
/* The next one that is not gone, or NULL. */
struct copy *copy_next(const struct copy *copy);
/* The copy on @branch, or NULL. */
struct copy *node_copy_on(const struct node *node, unsigned branch);

void node_lock(struct node_table *table, const struct node *node);
void node_unlock(struct node_table *table, const struct node *node);

#endif
