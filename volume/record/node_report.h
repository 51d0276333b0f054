/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a node's keeper (node_agent.h): the status of a StorageNode.
 * Placement chooses nodes by their reports, and asks those it chose. So a
 * report that is behind its node costs a question, never a wrong place.
 */
#ifndef VOLUME_NODE_REPORT_H
#define VOLUME_NODE_REPORT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid_name.h"
#include "volume/record/json_scan.h"
#include "volume/record/volume_record.h"

#define NODE_REPORT_POOLS_MAX      128 /* of one node; more are left out */
#define NODE_REPORT_TRANSPORTS_MAX 8
/*
 * A change of a pool's room of less than one part in so many of its capacity
 * waits for the next look at the record.
 */
#define NODE_REPORT_ROOM_PARTS 64

/* Reasons of the condition Ready. */
#define NODE_REASON_READY   "Answers"       /* true */
#define NODE_REASON_SILENT  "NoAnswer"      /* false: blockd is not there */
#define NODE_REASON_STOPPED "KeeperStopped" /* false: in good order */
#define NODE_REASON_LOST    "HeartbeatLost" /* unknown */

enum node_ready { NODE_READY_UNKNOWN, NODE_READY_FALSE, NODE_READY_TRUE };

struct node_pool_report {
	char name[RECORD_NAME_SIZE];
	char kind[16];
	char state[16];
	uint64_t capacity, available; /* bytes */
};

struct node_report {
	enum node_ready ready;
	char reason[RECORD_NAME_SIZE]; /* one word */
	char message[RECORD_TEXT_SIZE];
	int64_t since_s;  /* seconds since 1970, when @ready became that */
	char version[64]; /* of its blockd */
	char boot_id[UUID_TEXT_SIZE];
	/*
	 * The keeper's number of this content: one more than that of the
	 * content before. 0: a keeper that does not number its reports, which
	 * nobody goes by.
	 */
	uint64_t epoch;
	/* Transports that the node can attach by (initiator.h). */
	char transports[NODE_REPORT_TRANSPORTS_MAX][16];
	size_t n_transports;
	struct node_pool_report *pools; /* owned */
	size_t n_pools;
};

struct node_state;

void node_report_free(struct node_report *report); /* NULL is fine */

/* Of a node that answered. Returned owned; NULL without memory. */
struct node_report *node_report_of(const struct node_state *state);

/*
 * Make a report of the same pools, with @ready and its meaning. NULL without
 * memory.
 */
struct node_report *node_report_with(const struct node_report *report,
				     enum node_ready ready, const char *reason,
				     const char *message);

/* Tell whether all is the same but epoch, message and time. */
bool node_report_equal(const struct node_report *a,
		       const struct node_report *b);
/*
 * Tell whether @now has to be written soon after @written (NULL: always): it
 * differs by more than a little room.
 */
bool node_report_weighs(const struct node_report *written,
			const struct node_report *now);

/*
 * Tell whether a program of @version is too new for one of @own: more than one
 * minor version later, or of a later major one. Versions are "MAJOR.MINOR...";
 * any other text is not too new.
 */
bool node_version_is_newer(const char *version, const char *own);

/* "True" "False" "Unknown" */
const char *node_ready_name(enum node_ready ready);

/* The status; NULL for NULL. */
struct json_object *node_report_to_json(const struct node_report *report);
/* *ret stays NULL when @status (NULL is fine) has no condition Ready. */
void node_report_scan(struct json_scan *scan, struct json_object *status,
		      struct node_report **ret);

#endif
