/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a union must not forget when its server is killed, in memory that
 * outlives it (a memfd): the nodes the kernel knows with their copies, what is
 * open, the branches and what was set while it is in use.
 *
 * It has records of fixed size at fixed places, no pointers and no locks. A
 * record is filled first and there with the one store of its first member; so
 * a server killed at any instruction leaves it as it was before or as it is
 * after. The next server builds its tables of them anew. Only pages that were
 * written to take memory.
 *
 * Who may write what at the same time is said by the tables (node.h,
 * open_table.h), whose locks guard the records as well.
 */
#ifndef UNION_STATE_H
#define UNION_STATE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "union/branch.h"
#include "union/handle.h"
#include "union/policy_set.h"

#define STATE_VERSION         4   /* of what the records mean */
#define STATE_INIT_MAX        256 /* bytes; of a FUSE_INIT request */
#define STATE_NODE_MAX        (UINT64_C(1) << 28)
#define STATE_COPY_MAX        (UINT64_C(1) << 29)
#define STATE_OPEN_MAX        (UINT64_C(1) << 24)
#define STATE_POLICY_NAME_MAX 16

struct state_header {
	char magic[8];
	uint32_t layout; /* state_layout() of who made it */
	uint32_t init_length;
	_Atomic uint64_t nodes_used, copies_used, opens_used; /* those below */
	_Atomic uint64_t next_generation;                     /* of nodes */
	_Atomic uint64_t next_serial; /* of what is open */
	_Atomic uint64_t next_token;  /* of kept descriptors: keep.h */
	_Atomic uint64_t min_free;    /* bytes; of the union */
	atomic_bool begun;    /* min_free, policies and branches are set */
	atomic_bool has_init; /* of the request; its reply may be written */
	_Atomic uint64_t recovered;   /* how many servers went on so far */
	_Atomic uint32_t doubt_mark;  /* branch_doubt_mark() */
	uint8_t init[STATE_INIT_MAX]; /* the request as it came */
	char mountpoint[PATH_MAX];
	char policies[POLICY_FUNCTIONS][STATE_POLICY_NAME_MAX];
	/* policy_record.h */
	atomic_bool policies_change; /* then those kept count */
	char policies_kept[POLICY_FUNCTIONS][STATE_POLICY_NAME_MAX];
};

#define STATE_BRANCH_USED 1u
#define STATE_BRANCH_NEW  2u /* and not announced: see live_add() */

struct state_branch {
	atomic_uint used; /* STATE_BRANCH_USED and so on; 0: there is none */
	atomic_uint flags;
	_Atomic uint64_t min_free;
	/* It failed, and was not announced since: nor by a later server. */
	atomic_bool doubted;
	struct branch_identity identity;
	char path[PATH_MAX];
};

#define STATE_NODE_PASSED   1u
#define STATE_NODE_UNCAPPED 2u

/* Of the node with the id that is its place. */
struct state_node {
	_Atomic uint64_t generation; /* 0: there is none */
	uint64_t ino;
	_Atomic uint64_t lookups; /* that the kernel may know of; or less */
	_Atomic uint64_t buried;  /* token of a kept descriptor; 0: none */
	_Atomic int32_t backing_id;
	_Atomic uint32_t moves;
	uint32_t type;
	_Atomic uint32_t flags;
	_Atomic uint32_t doubt; /* as in the node */
	uint32_t reserved[3];
};

#define STATE_COPY_GONE  1u
#define STATE_COPY_GOING 2u /* it is about to be removed, or was just now */

struct state_copy {
	_Atomic uint64_t generation; /* the node's; else there is none */
	uint64_t node;
	int32_t type;
	uint16_t branch;
	uint8_t length;
	_Atomic uint8_t gone; /* STATE_COPY_GONE and so on; 0: it is there */
	uint8_t data[HANDLE_MAX];
};

/* At the place of the copy. See struct quiet_change. */
struct state_quiet {
	_Atomic uint64_t generation; /* the node's; else there is none */
	int64_t after_s, modified_s, shown_s;
	uint32_t after_ns, modified_ns, shown_ns;
	uint32_t reserved;
};

#define STATE_OPEN_DIR    1u
#define STATE_OPEN_READS  2u /* O_RDWR */
#define STATE_OPEN_WRITES 4u /* O_RDWR or O_WRONLY */
#define STATE_OPEN_QUIET  8u /* O_NOATIME */

/* At the place of its number: open_place(). */
struct state_open {
	_Atomic uint64_t number; /* 0: there is none */
	uint64_t node, generation;
	uint32_t flags;
	uint32_t reserved;
};

struct state {
	int fd; /* of the memory; owned */
	struct state_header *header;
	struct state_branch *branches; /* BRANCH_MAX */
	struct state_open *opens;
	struct state_node *nodes;
	struct state_copy *copies;
	struct state_quiet *quiet;
	void *once; /* ONCE_SIZE bytes: once.h */
};

/*
 * A number for what these records are and mean, and what a server and its
 * holder say to each other: a program with another one cannot go on with them.
 * Never 0.
 */
uint32_t state_layout(void);

/* New, all zero. 0 or -errno. */
int state_create(struct state *ret);

/*
 * That of an earlier server; takes @fd. -EPROTO with @err: it was written by
 * a program that keeps other records.
 */
int state_open(struct state *ret, int fd, struct error *err);

/* Unmap and close. A zeroed one is fine. */
void state_done(struct state *state);

/* A token that no descriptor has yet: keep.h. */
uint64_t state_new_token(struct state *state);

#endif
