/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: one pool with direct runs by direct_kit.h, and extents in it. */
#ifndef BLOCKD_DIRECT_CASE_H
#define BLOCKD_DIRECT_CASE_H

#include "blockd/testkit/direct_kit.h"

/* Of the test that runs. */
extern struct direct_kit direct_case_kit;
extern struct run direct_case_run;

/* The raw pool whose system is direct_case_kit, for model_run_begin(). */
extern const struct model_kind direct_case_pool;

/*
 * Begin a run: an extent with a device, and two clusters that it has direct
 * runs of.
 */
struct object *direct_case_begin(bool thick);
/* Check all that there is, and end the run. */
void direct_case_end(struct object *object);

/* What the open pool has. */
struct direct *direct_case_direct(void);
struct raw_store *direct_case_store(void);
uint32_t direct_case_id(const struct object *object);

/* Load a table with all runs that may be in it, now. */
void direct_case_refresh(const struct object *object);
/* How many clusters are in its table. */
uint64_t direct_case_clusters(const struct object *object);
/* Fail the test if the invariant does not hold. */
void direct_case_verify(void);
/* Check that its requests do not wait: the device was resumed. */
void direct_case_goes_on(struct object *object);

/* Make the record of a snapshot, in a cut of its own. */
void direct_case_snapshot_record(struct object *object,
				 struct extent_record *ret);
/* Take a snapshot. Its writes are held. */
struct object *direct_case_snapshot(struct object *object);

#endif
