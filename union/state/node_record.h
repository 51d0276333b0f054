/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and their copies in the state memory (state.h), which is the only place
 * for them. Their size is the cost of a name: a larger node by eight bytes is
 * eight megabytes for a million names.
 *
 * The next server goes on with them. So they have no pointers: a node and its
 * copies name each other by their distance. Each member is of one of three
 * kinds:
 *
 *  - constant: from before the first member says that the record is there;
 *  - kept: the next server finds the value that was stored last;
 *  - ours: means nothing to the next server, which begins it anew.
 *
 * node.h says which locks guard the members.
 */
#ifndef UNION_NODE_RECORD_H
#define UNION_NODE_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "union/sys/handle.h"

#define NODE_ROOT_ID   1 /* FUSE_ROOT_ID */
#define NODE_TOLD_MANY UINT32_MAX

/* Members of a node that is no directory; node_lock(). */
struct node_file {
	atomic_uint moves;          /* kept: how often it went to another
				     * branch */
	_Atomic int32_t backing_id; /* kept: kernel's name of it; 0: none */
	/* Ours: */
	unsigned opens;    /* open files */
	unsigned rw_opens; /* of them O_RDWR: what they map may be written */
	unsigned writers;  /* of them O_RDWR or O_WRONLY */
	/*
	 * While it is mapped (below): of unseen_keep(), the last answer, the
	 * number of equal ones, and its time in ms. Else of unseen.c: the
	 * thread that got an answer to keep.
	 */
	union {
		struct {
			uint32_t said : 13, alike : 3, said_at : 16;
		};
		uint32_t told;
	};
};

/* Members of a directory. Those not atomic: node_lock(). */
struct node_dir {
	/* Kept: branch_doubt_mark() of when it may have had a copy that could
	 * not be found; 0: never. */
	atomic_uint doubt;
	/*
	 * Ours, all that follow. See names_change.h: the number of changes of
	 * names in it, and of threads that change names now (so it fits a
	 * short).
	 */
	atomic_uint named;
	atomic_ushort naming;
	/*
	 * See subdirs.h: requests that change them now, the number of changes,
	 * and of subdirectories; -1: not counted.
	 */
	uint16_t subdir_changing;
	unsigned subdir_changes;
	int32_t subdirs;
	unsigned streams; /* unfinished listings of one branch */
};

struct node {
	/* Never given twice, nor is it together with the id. 0: no node. */
	_Atomic uint64_t generation;
	uint64_t ino; /* constant: st_ino */
	/* Kept: the kernel's count, or less; the table's lock. */
	_Atomic uint64_t lookups;
	/* Kept: of the descriptor below, see fd_store.h; 0: it is not. */
	_Atomic uint64_t orphan_token;
	uint32_t id; /* constant: its place */
	/* Ours: the first one, see node_copies(). Of one that is free: the id
	 * of the next that is. */
	atomic_uint copies;
	uint32_t holds; /* ours: beside the kernel's; the table's lock */
	/*
	 * Ours: the first copy of a removed inode that may still be in use,
	 * O_PATH; owned. -1: none. Set once, and taken when nobody knows the
	 * node any more.
	 */
	atomic_int orphan_fd;
	uint16_t type;        /* constant: S_IFMT bits */
	bool in_ring;         /* ours: in the table's ring; the table's lock */
	bool known_before;    /* ours: by an earlier server: lost_forget.h */
	bool passthrough;     /* ours: how all of its open files are open */
	atomic_bool passed;   /* kept: it was passed through: file_in_use.h */
	atomic_bool mapped;   /* kept: it may be mapped to write, also after
			       * a close: unseen.h */
	atomic_bool uncapped; /* kept: its file capability was removed, and
			       * nothing was set since */
	union {
		struct node_file file;
		struct node_dir dir;
	} of;
};

#define COPY_GONE      1u /* kept: removed from its branch */
#define COPY_QUIET     2u /* kept: it has a struct quiet_change */
#define COPY_QUIETENED 4u /* kept: that is being changed */
#define COPY_GOING                                                          \
	16u             /* kept: it is about to be removed from its branch, \
			 * or was, by a server that was killed then */
#define COPY_ALIGNED 8u /* ours: is as the first copy: see clone_dir() */
#define COPY_MAKING                                                       \
	32u /* kept: it is not in its place yet, so it is none to anybody \
	     * but who makes it: node_begin_copy() */

struct copy {
	_Atomic uint64_t generation; /* the node's; else there is none */
	/* Constant: how far before it its node is; RECORD_UNIT bytes. */
	uint32_t node_back;
	/* Ours: the node's next, of a higher branch: as node->copies. */
	atomic_uint next;
	/* Ours: 1 + the place of the next with the same hash, 0: none; the
	 * table's lock. In a free record: of the next free one. */
	uint32_t hash_next;
	uint8_t branch;       /* constant */
	atomic_uchar flags;   /* COPY_ */
	uint8_t handle_type;  /* constant: see copy_handle() */
	uint8_t handle_bytes; /* constant: of */
	uint8_t handle[HANDLE_MAX];
};

/*
 * Times shown for a copy of a directory that changed while the directory did
 * not. (A subdirectory was cloned into it, or the directory was cloned itself.)
 * While the copy has the change time @after, @shown is shown for it. An
 * exception is a change by a user within the same tick of the clock: then the
 * copy was modified later than @modified.
 */
struct quiet_change {
	struct timespec after, modified, shown;
};

/*
 * The times that a copy of a directory gets back after a quiet change:
 * preserve_mtime.h. All members are kept.
 */
struct quiet_slot {
	atomic_uint used; /* 0: the rest means nothing */
	uint32_t branch;
	uint64_t node, generation; /* 0: nobody knew it */
	uint64_t mark;             /* names_change_mark() of the node */
	struct timespec shown;     /* its change time */
	struct timespec times[2];  /* access, modification */
	struct handle handle;
};

/* Unit of the distance of records, in bytes. */
#define RECORD_UNIT 16

static_assert(sizeof(struct node) == 80, "what a name costs");
static_assert(sizeof(struct copy) == 64, "the same");
static_assert(sizeof(struct node) % RECORD_UNIT == 0, "it can be counted");
static_assert(sizeof(struct copy) % RECORD_UNIT == 0, "the same");

static inline struct node_file *node_file(struct node *node)
{
	assert(!S_ISDIR(node->type));
	return &node->of.file;
}

static inline struct node_dir *node_dir(struct node *node)
{
	assert(S_ISDIR(node->type));
	return &node->of.dir;
}

static inline struct node *copy_node(const struct copy *copy)
{
	return (struct node *)((uintptr_t)copy -
			       (uintptr_t)copy->node_back * RECORD_UNIT);
}

/* @far: node->copies or copy->next; 0: NULL. */
static inline struct copy *node_copy_at(const struct node *node, uint32_t far)
{
	return far ? (struct copy *)((uintptr_t)node +
				     (uintptr_t)far * RECORD_UNIT)
		   : NULL;
}

/* Get the first copy, also one that is gone; copy_after() gives the next. */
static inline struct copy *node_copies(const struct node *node)
{
	return node_copy_at(node, atomic_load(&node->copies));
}

static inline struct copy *copy_after(const struct copy *copy)
{
	return node_copy_at(copy_node(copy), atomic_load(&copy->next));
}

static inline bool copy_is(const struct copy *copy, unsigned flag)
{
	return atomic_load(&copy->flags) & flag;
}

static inline void copy_set(struct copy *copy, unsigned flag, bool is)
{
	if (is)
		atomic_fetch_or(&copy->flags, (unsigned char)flag);
	else
		atomic_fetch_and(&copy->flags, (unsigned char)~flag);
}

static inline struct handle copy_handle(const struct copy *copy)
{
	struct handle handle = {.length = copy->handle_bytes,
				.type = copy->handle_type};

	memcpy(handle.data, copy->handle, copy->handle_bytes);
	return handle;
}

/* Fill the constant members, but for the node; @handle: see handle_get(). */
static inline void copy_fill(struct copy *copy, unsigned branch,
			     const struct handle *handle)
{
	copy->branch = (uint8_t)branch;
	copy->handle_type = (uint8_t)handle->type;
	copy->handle_bytes = (uint8_t)handle->length;
	memcpy(copy->handle, handle->data, handle->length);
}

/* Is @copy that inode, if the inode is of the copy's branch? */
bool copy_has(const struct copy *copy, const struct handle *handle);

#endif
