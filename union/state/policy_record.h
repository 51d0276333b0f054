/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies of a union in memory that outlives its server (state.h), twice.
 * While one record is written, the other has the policies from before, and
 * counts. So a server that is killed then leaves no half of a name.
 */
#ifndef UNION_POLICY_RECORD_H
#define UNION_POLICY_RECORD_H

#include "union/config/policy_set.h"
#include "union/state/state.h"

/* Write the record, by one thread at a time. */
void policy_record(struct state_header *header, const struct policy_set *set);

/* Read the record into @set. A policy that this program does not know is left
 * as in @set, with a warning.
 */
void policy_restore(const struct state_header *header, struct policy_set *set);

#endif
