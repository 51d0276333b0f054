/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of extents at one instant, the cut. One node makes its own in one
 * call. Several nodes first all prepare for that, then all hold their writes,
 * then each makes its snapshots, then all release. If every hold lasted without
 * a break, all snapshots were made within all holds: nothing was written in
 * between.
 *
 * Around all of it, the node that uses a volume freezes the volume's device. So
 * the file system in the snapshots has no journal to be replayed. A device that
 * can't be frozen, or not for so long, does not hold up the cut: its snapshots
 * are what a power cut leaves.
 */
#ifndef VOLUME_CUT_H
#define VOLUME_CUT_H

#include "volume/op/context.h"

/* The part of one node. */
struct cut_part {
	char node[RECORD_NAME_SIZE];
	struct node_client *client; /* borrowed */
	struct node_snapshot_request requests[NODE_CUT_MAX];
	void *owners[NODE_CUT_MAX]; /* of each; the caller's */
	size_t n;
	/* Owned, n of them, as requested; NULL: none, or it is not known. */
	struct node_extent *made;
	bool asked; /* to cut */
	int r;      /* of its last call */
	struct error err;
};

/* A device that is frozen meanwhile. */
struct cut_freeze {
	void *owner;                /* the caller's */
	const char *node;           /* that uses it; borrowed */
	const char *device;         /* UUID of device mapper; borrowed */
	struct node_client *client; /* borrowed; NULL: the node has no blockd */
	char id[UUID_TEXT_SIZE];    /* of the hold */
	int r;                      /* 0: it was frozen all the time */
	struct error err;
};

struct cut {
	struct volume_context *ctx;
	char id[UUID_TEXT_SIZE]; /* of the instant, kept with each; and of the
				    hold */
	struct cut_part **parts; /* owned; one for each node */
	size_t n_parts;
	struct cut_freeze *freezes; /* owned */
	size_t n_freezes;
};

void cut_init(struct cut *cut, struct volume_context *ctx, const char *id);
void cut_done(struct cut *cut);

/*
 * Add an extent. Pointers of @request are borrowed until cut_done(). -E2BIG:
 * more than NODE_CUT_MAX of one node.
 */
int cut_add(struct cut *cut, const char *node,
	    const struct node_snapshot_request *request, void *owner,
	    struct error *err);

/* Add a device that is to be frozen. Both texts are borrowed. */
int cut_add_freeze(struct cut *cut, const char *node, const char *device,
		   void *owner, struct error *err);

/* Call @each for every part, several at a time. Returns the first problem. */
int cut_each(struct cut *cut, void (*each)(void *cut, size_t part),
	     struct error *err);

/*
 * Make all snapshots. After an error nothing is held; the caller undoes
 * snapshots of parts with asked set. -ESTALE: a hold of one node ended before
 * the others were done.
 */
int cut_run(struct cut *cut, struct error *err);

#endif
