/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extent pulls content: a thread reads ranges of an NBD export, as a rule of
 * a snapshot in another pool, and writes them here. The export's server is
 * another node's, or our own. One pull at a time for an extent.
 *
 * Nothing of a pull outlives blockd. Its position says how far it is durable;
 * the caller keeps that and begins again there. A range may be pulled twice.
 */
#ifndef BLOCKD_PULL_JOB_H
#define BLOCKD_PULL_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/copy/extent_cut.h"
#include "blockd/extent/extent.h"

#define PULL_BLOCK      4096 /* bytes; ranges are multiples of it */
#define PULL_RANGES_MAX 4096 /* of one pull; as ListRanges sends */

struct pull_request {
	const char *id;      /* the extent has to have; "" or NULL: any */
	const char *address; /* "HOST:PORT" or "unix:PATH" */
	const char *export;  /* its name there */
	/* In order, without overlap; none: only ask. */
	const struct extent_range *ranges;
	size_t n_ranges;
};

struct pull_answer {
	bool runs;
	/*
	 * Bytes: all ranges below it are here, durably. 0: this export is not
	 * pulled, or nothing of it is here yet.
	 */
	uint64_t position;
};

/*
 * Pull the ranges, or ask how far the pull of @request->export is. A pull of
 * that export that runs goes on as it is, whatever the ranges. A pull of
 * another is ended first.
 *
 * The error of a pull that failed is returned once; then there is none.
 * -EINVAL: a range, or a snapshot, which is never written. -ESTALE: another
 * id. -EBUSY: the extent is exported to a writer, or copied from.
 * -EHOSTUNREACH, -EACCES, -ENOENT, -EPROTO: from the server.
 */
int pull_job_run(struct extent *extent, const struct pull_request *request,
		 struct pull_answer *ret, struct error *err);

/* End the extent's pull; returns when it is over. Op may be held. */
void pull_job_stop(struct extent *extent);

/* The same for all extents of a node. */
void pull_job_stop_all(struct node *node);

#endif
