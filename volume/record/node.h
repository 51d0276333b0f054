/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: the record of each (kind StorageNode, kept in the store) and what
 * its blockd says about its pools and extents, as plain structs.
 */
#ifndef VOLUME_NODE_H
#define VOLUME_NODE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "volume/record/label.h"
#include "volume/record/node_report.h"
#include "volume/record/node_scrub.h"
#include "volume/record/volume_record.h"

#define NODE_ADDRESS_SIZE     256 /* bytes with NUL */
#define NODE_INITIATORS_MAX   8
#define EXPORT_INITIATORS_MAX 64 /* proto/blockd.proto, SetExportRequest */
#define NODES_MAX             10000
#define NODE_VOLUMES_MAX      4096 /* published to one node */

struct node_record {
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE]; /* "" when new */
	char resource_version[RECORD_VERSION_SIZE];
	int64_t created_s;    /* seconds since 1970 */
	struct labels labels; /* "zone", "rack": for placement; owned */
	/*
	 * Of its blockd: "unix:/path", "tcp:HOST:PORT". "": it has none, and
	 * no data address: a node that only uses volumes.
	 */
	char control_address[NODE_ADDRESS_SIZE];
	/* Of its NBD server: "HOST:PORT" or "unix:PATH". */
	char data_address[NODE_ADDRESS_SIZE];
	/*
	 * The addresses that this node's own NBD connections come from. None:
	 * the source address the kernel picks for each peer. Needed behind
	 * address translation only.
	 */
	char initiators[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	size_t n_initiators;
	/* mTLS for a tcp control address: PEM files of the caller; "": none */
	char tls_ca_file[PATH_MAX];
	char tls_cert_file[PATH_MAX];
	char tls_key_file[PATH_MAX];
	char tls_server_name[NODE_ADDRESS_SIZE]; /* "": host of the address */
	/*
	 * So many volumes are published to it at most, as its CSI driver says;
	 * 0: no limit.
	 */
	unsigned max_volumes;
	/* Nothing new is placed on it, or in these pools; an operator's word.
	 */
	bool cordoned;
	struct name_list cordoned_pools; /* owned; NODE_REPORT_POOLS_MAX */
	struct node_report *report;      /* owned; NULL: it has no keeper */
	struct node_scrub *scrub;        /* owned; NULL: there was none */
};

void node_record_done(struct node_record *node);
/*
 * Take from @old, the node's record so far, what a new registration leaves as
 * it was: identity, version, limit, cordons and scrub. Lists and the scrub are
 * borrowed from @old.
 */
void node_record_inherit(struct node_record *node,
			 const struct node_record *old);
/* Tell whether nothing new may be placed in the node's pool @pool. */
bool node_record_cordons(const struct node_record *node, const char *pool);
/* Check a node's record. -EINVAL: the text says what is wrong. */
int node_record_check(const struct node_record *node, struct error *err);
/* As volume_record_encode() and volume_record_decode(). */
int node_record_encode(const struct node_record *node, char **ret_json,
		       struct error *err);
int node_record_decode(const char *json, size_t length, struct node_record *ret,
		       struct error *err);

/* A pool to be made. */
struct pool_request {
	const char *node;
	const char *name;
	/* On the node: a directory, or a block device or file ("raw"). */
	const char *path;
	/* Of one that is there both are changed to these; 0: they stay. */
	uint64_t capacity;           /* bytes; 0: those of the medium */
	unsigned overcommit_percent; /* 0: 100 */
	/* Of a device or file: bytes, a power of two; 0: 1 MiB. */
	uint64_t cluster_size;
	bool raw;   /* of a device or file only: a directory is an error */
	bool force; /* a device or file may hold something else, now lost */
};

#define NODE_POOL_ONLINE "online" /* node_pool.state */

struct node_pool {
	char node[RECORD_NAME_SIZE];
	char name[RECORD_NAME_SIZE];
	char kind[16];
	char path[PATH_MAX];
	char id[UUID_TEXT_SIZE];
	/* NODE_POOL_ONLINE, or why it takes nothing: "failing", "missing"... */
	char state[16];
	char message[RECORD_TEXT_SIZE];
	bool cordoned; /* nothing new is placed there; of the node's record */
	uint64_t capacity, reserved, allocated, available; /* bytes */
	uint64_t nominal; /* bytes; sizes of all extents and snapshots */
	/* Bytes that more than one uses, each once; that only snapshots use. */
	uint64_t shared, reclaimable;
	bool sharing_known; /* of these two */
	uint64_t extents;
	unsigned overcommit_percent;
	uint64_t floor;        /* bytes */
	uint64_t cluster_size; /* bytes; 0: it has no clusters */
	char incarnation[128];
	char note[RECORD_TEXT_SIZE]; /* what making it changed; "": nothing */
};

static inline bool node_pool_is_online(const struct node_pool *pool)
{
	return strcmp(pool->state, NODE_POOL_ONLINE) == 0;
}

/* The origin of an extent or snapshot. */
struct node_origin {
	char name[RECORD_NAME_SIZE]; /* as it was called then; "": nothing */
	char id[UUID_TEXT_SIZE];
	char cut[UUID_TEXT_SIZE]; /* the same for all of one instant */
	char method[16];          /* "shared", "reflink", "copy" */
};

/* 0: none. */
struct node_limits {
	uint64_t iops;
	uint64_t bytes_per_second;
};

#define NODE_ISCSI_NAME_SIZE 224 /* bytes with NUL; RFC 7143 4.2.7.1 */

#define NODE_COPYING "copying" /* node_extent.state */

#define NODE_GRANT_SIZE 128 /* bytes with NUL; proto/blockd.proto */

/* Direct runs; proto/blockd.proto, Direct. */
struct node_direct {
	char device[128]; /* UUID of device mapper; "": it has none */
	uint64_t bytes, runs;
	uint64_t reads, read_bytes, writes, written_bytes, discards, flushes;
};

struct node_extent {
	char node[RECORD_NAME_SIZE];
	char name[RECORD_NAME_SIZE];
	char pool[RECORD_NAME_SIZE];
	char id[UUID_TEXT_SIZE];
	uint64_t size, reserved, allocated; /* bytes */
	bool blank;
	int64_t created_s;    /* seconds since 1970 */
	struct labels labels; /* owned */
	char path[PATH_MAX];  /* on the node */
	char state[16];       /* "ok", "damaged", NODE_COPYING */
	char message[RECORD_TEXT_SIZE];
	/* Of its pool, as node_pool has them; "": that is well. */
	char pool_state[16];
	char pool_message[RECORD_TEXT_SIZE];
	char incarnation[128];
	bool snapshot; /* never written to, only exported to read */
	struct node_origin origin;
	uint64_t shared;      /* of allocated: others use them too; bytes */
	uint64_t reclaimable; /* what deleting it would free, bytes */
	uint64_t copied;      /* while NODE_COPYING: bytes of size */
	bool thick;           /* was allocated when it was made */
	struct node_limits limits;
	/* The export; has_export false: never exported. */
	bool has_export, active, read_only;
	uint64_t epoch;
	char grant[NODE_GRANT_SIZE]; /* the epoch's holder; "": untold */
	char (*initiators)[NODE_ADDRESS_SIZE]; /* owned */
	size_t n_initiators; /* at most EXPORT_INITIATORS_MAX */
	unsigned connections;
	char local_device[64]; /* a loop device that holds it; "": none */
	char nbd_name[RECORD_NAME_SIZE + 24];
	/* By iSCSI; "": it is not served by that. */
	char iscsi_name[NODE_ISCSI_NAME_SIZE];
	char iscsi_portals[4][NODE_ADDRESS_SIZE];
	size_t n_iscsi_portals;
	/* The target it was said to be a LUN of; "": one of its own. */
	char iscsi_target[NODE_ISCSI_NAME_SIZE];
	unsigned iscsi_lun;
	struct node_direct direct;
};

void node_extent_done(struct node_extent *extent);
void node_extents_free(struct node_extent *extents, size_t count);

/* A node as it answers now. */
struct node_state {
	struct node_record record; /* owned members */
	/* Since its keeper's last heartbeat; -1: there is none. */
	int64_t last_seen_s;
	/*
	 * The node should have a heartbeat, and has had none for
	 * STORE_BEAT_LOST_S. A lost node is not asked, so that nobody waits for
	 * a dead machine.
	 */
	bool lost;
	bool reachable; /* it answered, or there is no blockd to ask */
	char problem[ERROR_TEXT_MAX]; /* when not */
	/* A problem that needs a person; "": none. */
	char warning[ERROR_TEXT_MAX];
	char version[64];
	char boot_id[UUID_TEXT_SIZE];
	uint64_t uptime_s;
	bool clock_known;       /* it said what its clock is */
	int64_t clock_ahead_ms; /* of this machine's; within half a call */
	char nbd_addresses[4][NODE_ADDRESS_SIZE];
	size_t n_nbd_addresses;
	struct node_pool *pools; /* owned */
	size_t n_pools;
};

void node_states_free(struct node_state *states, size_t count);

#endif
