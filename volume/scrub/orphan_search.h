/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of records with the extents of nodes. */
#ifndef VOLUME_ORPHAN_SEARCH_H
#define VOLUME_ORPHAN_SEARCH_H

#include "volume/extent/extent_inventory.h"
#include "volume/snapshot/snapshot_op.h"

struct orphan_search {
	struct volume_context *ctx;
	/* Sorted by orphan_by_uid(), as the snapshots by theirs. */
	struct volume_record **records;
	size_t n_records;
	struct snapshot_record **snapshots;
	size_t n_snapshots;
	struct node_inventory *inventory;
	size_t n_nodes;
	bool lost;              /* there is no record for anything */
	struct orphan *orphans; /* owned by the caller */
	size_t n_orphans;
	int r; /* -ENOMEM: some are left out */
};

/* For qsort(), of pointers to records. */
int orphan_by_uid(const void *a, const void *b);
int orphan_snapshot_by_uid(const void *a, const void *b);

/* Add a finding. Returns it, borrowed until the next; NULL: search->r. */
struct orphan *orphan_add(struct orphan_search *search, enum orphan_kind kind,
			  const char *node, const char *volume,
			  const char *name, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* Add all extents without a record, then all records without an extent. */
void orphan_search_all(struct orphan_search *search);

#endif
