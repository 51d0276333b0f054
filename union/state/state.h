/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a union that outlives its server, in a memfd. It has the nodes
 * that the kernel knows with their copies, the open files, and the branches.
 * Settings that were changed in use are there, too.
 *
 * The memory has records of fixed size at fixed places, no pointers and no
 * locks. A record is filled first, and becomes valid by one store to its first
 * member. So a server killed at any instruction leaves a record either old or
 * new. Nodes and copies are only here; of the rest the next server builds its
 * tables anew. Only pages that were written to take memory.
 *
 * The locks of the tables (node.h, open_table.h) guard the records as well.
 */
#ifndef UNION_STATE_H
#define UNION_STATE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "union/config/policy_set.h"
#include "union/state/branch_identity.h"
#include "union/state/node_record.h"
#include "union/sys/branch_flags.h"
#include "union/sys/stats.h"

#define STATE_VERSION         11  /* of the meaning of records */
#define STATE_INIT_MAX        256 /* bytes; of a FUSE_INIT request */
#define STATE_NODE_MAX        (UINT64_C(1) << 28)
#define STATE_COPY_MAX        (UINT64_C(1) << 29)
#define STATE_OPEN_MAX        (UINT64_C(1) << 24)
#define STATE_THREAD_MAX      4096
#define STATE_QUIET_MAX       65536 /* of slots */
#define STATE_POLICY_NAME_MAX 16

struct state_header {
	char magic[8];
	uint32_t layout; /* state_layout() of its maker */
	uint32_t init_length;
	_Atomic uint64_t nodes_used, copies_used, opens_used; /* those below */
	_Atomic uint64_t next_generation;                     /* of nodes */
	_Atomic uint64_t next_serial; /* of open files */
	_Atomic uint64_t next_token;  /* of kept descriptors: fd_store.h */
	_Atomic uint64_t min_free;    /* bytes; of the union */
	_Atomic uint64_t said;        /* mount_strict_said() */
	atomic_bool read_only;        /* the union is: remounted.h */
	atomic_bool begun;    /* min_free, policies and branches are set */
	atomic_bool has_init; /* of the request; its reply may be written */
	_Atomic uint64_t recovered;   /* how many servers went on so far */
	_Atomic uint32_t doubt_mark;  /* branch_doubt_mark() */
	atomic_uint quiet_used;       /* slots from here on never were */
	uint8_t init[STATE_INIT_MAX]; /* the request as it came */
	char mountpoint[PATH_MAX];
	char policies[POLICY_FUNCTIONS][STATE_POLICY_NAME_MAX];
	/* policy_record.h */
	atomic_bool policies_change; /* then those kept count */
	char policies_kept[POLICY_FUNCTIONS][STATE_POLICY_NAME_MAX];
	struct union_stats stats;
};

#define STATE_BRANCH_USED 1u
#define STATE_BRANCH_NEW  2u /* and not shown: see union_add_branch() */

struct state_branch {
	atomic_uint used; /* STATE_BRANCH_USED and so on; 0: there is none */
	atomic_uint flags;
	_Atomic uint64_t min_free;
	/* A failure of the branch that was not shown since, by any server.
	 */
	atomic_bool doubted;
	atomic_bool damaged; /* as in struct branch */
	struct branch_identity identity;
	_Atomic int32_t mount_id; /* the last that is known; 0: none */
	char path[PATH_MAX];
};

#define STATE_OPEN_DIR     1u
#define STATE_OPEN_READS   2u  /* O_RDWR */
#define STATE_OPEN_WRITES  4u  /* O_RDWR or O_WRONLY */
#define STATE_OPEN_QUIET   8u  /* O_NOATIME */
#define STATE_OPEN_ROOT    16u /* by root */
#define STATE_OPEN_SEEN    32u /* its writes come here, whatever is passed */
#define STATE_OPEN_APPENDS 64u /* to a file append-only on its branch */

/* At the place of its number: open_place(). */
struct state_open {
	_Atomic uint64_t number; /* 0: there is none */
	uint64_t node, generation;
	uint32_t flags;
	uint32_t reserved;
};

/*
 * A thread that calls branches. A call in progress when the server is killed
 * may take effect later: see stuck_server.h.
 */
struct state_thread {
	_Atomic int32_t tid; /* gettid(2); 0: there is none */
	uint32_t reserved;
	_Atomic uint64_t met[BRANCH_MAX / 64]; /* branches, as bits */
	_Atomic uint64_t unique; /* of the request it serves; 0: of none */
	uint64_t alone[2];       /* in a cache line */
};

struct state {
	int fd; /* of the memory; owned */
	struct state_header *header;
	struct state_branch *branches; /* BRANCH_MAX */
	struct state_thread *threads;  /* STATE_THREAD_MAX */
	struct state_open *opens;
	struct node *nodes; /* each at the place that is its id */
	struct copy *copies;
	struct quiet_slot *quiet_slots; /* STATE_QUIET_MAX; preserve_mtime.h */
	struct quiet_change *quiet;     /* each at the place of its copy */
	/*
	 * Each at the place that is its node's id: st_ino, where that is of the
	 * path by which the node was found last.
	 */
	_Atomic uint64_t *shown;
	void *once; /* REPLY_CACHE_SIZE bytes: reply_cache.h */
};

/*
 * Get a number for the layout and meaning of these records, and of the messages
 * between server and supervisor. A program with another number cannot go on
 * with them. Never 0.
 */
uint32_t state_layout(void);

/* Make new memory, all zero. 0 or -errno. */
int state_create(struct state *ret);

/*
 * Map the memory of an earlier server; takes @fd. -EPROTO with @err: it was
 * written by a program with other records.
 */
int state_open(struct state *ret, int fd, struct error *err);

/*
 * Map all nodes and copies at once, before a reading of them all, instead of
 * page by page.
 */
void state_expect(const struct state *state);

/* Unmap and close. A zeroed one is fine. */
void state_done(struct state *state);

/* Is this the memory of an earlier server, which knew its root? */
bool state_has_root(const struct state *state);

/* Get a token that no descriptor has yet: fd_store.h. */
uint64_t state_new_token(struct state *state);

#endif
