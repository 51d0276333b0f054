/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of flows: operations of several phases, each a table.
 *
 * The record drives a flow. Each phase does its part that the record lacks, so
 * that a flow that was killed goes on where it ended, by the same call. The
 * table says what becomes of a failure of each phase.
 */
#ifndef VOLUME_FLOW_H
#define VOLUME_FLOW_H

#include "volume/op/context.h"

enum flow_failure {
	FLOW_LEAVE, /* the record is true as it is */
	FLOW_KEEP,  /* flow->keep: a repeat finishes what was begun */
	FLOW_UNDO,  /* flow->again, else flow->undo */
};

struct flow_phase {
	/* Returns 0, 1 (the whole flow is done) or a negative errno. */
	int (*run)(struct operation *op, struct error *err);
	enum flow_failure failure;
};

/* Phases find their own data around @op by container_of(). */
struct flow {
	const struct flow_phase *phases; /* the last has no run */
	/*
	 * Optional. Prepare to run all phases once more after @r, the error of
	 * run number @runs (1 is the first). Returns false to give up.
	 */
	bool (*again)(struct operation *op, int r, unsigned runs);
	/*
	 * Required with FLOW_UNDO. Undo all phases after @r. Runs with
	 * op->undoing set. Returns 0 (nothing is left), 1 (keep what was
	 * begun) or a negative errno: it is kept, too.
	 */
	int (*undo)(struct operation *op, int r, struct error *err);
	/*
	 * Optional without FLOW_KEEP. Save in the record that it is unfinished
	 * for the reason @r and @err, and prefix @err with how to finish
	 * it. Returns @r.
	 */
	int (*keep)(struct operation *op, int r, struct error *err);
};

/*
 * Run the phases in order, to the first failure.
 *
 * Returns 0 or the error of the failed phase; -EHOSTUNREACH when what was begun
 * is kept because it could not be undone.
 */
int flow_run(const struct flow *flow, struct operation *op, struct error *err);

#endif
