/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of extents at one instant. One node makes its own in one call.
 * With several, all of them hold the writes first, then each cuts its own,
 * then all let go; when every one says that it held without a break, there
 * was a moment between in which nothing was written anywhere, and all cuts
 * were made in it.
 */
#ifndef VOLUME_CUT_H
#define VOLUME_CUT_H

#include "volume/op/context.h"

/* What one node has to do. */
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

struct cut {
	struct volume_context *ctx;
	char id[UUID_TEXT_SIZE]; /* of the instant, kept with each; and of the
				    hold */
	struct cut_part **parts; /* owned; one for each node */
	size_t n_parts;
};

void cut_init(struct cut *cut, struct volume_context *ctx, const char *id);
void cut_done(struct cut *cut);

/*
 * One more extent. What @request points to is borrowed until cut_done().
 * -E2BIG: more than NODE_CUT_MAX of one node.
 */
int cut_add(struct cut *cut, const char *node,
	    const struct node_snapshot_request *request, void *owner,
	    struct error *err);

/* For every part, side by side; the first one's problem is returned. */
int cut_each(struct cut *cut, void (*each)(void *cut, size_t part),
	     struct error *err);

/*
 * Make all of them. After an error nothing is held; what may have been made
 * is the caller's to undo, of the parts that were asked. -ESTALE: a node
 * could not hold its writes for as long as the others took.
 */
int cut_run(struct cut *cut, struct error *err);

#endif
