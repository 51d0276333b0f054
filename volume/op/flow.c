/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/flow.h"

#include <errno.h>

/* Returns as a phase does; @ret_failure of the phase that failed. */
static int flow_run_phases(const struct flow *flow, struct operation *op,
			   enum flow_failure *ret_failure, struct error *err)
{
	int r = 0;

	for (const struct flow_phase *p = flow->phases; r == 0 && p->run; p++) {
		*ret_failure = p->failure;
		r = p->run(op, err);
	}
	return r;
}

/* Put @why, of undoing, behind @err, the cause. */
static void flow_undo_failed(int r, struct error *err, struct error *why)
{
	(void)error_prefix(why, r,
			   "%s; and to undo it failed: ", error_text(err));
	if (err) {
		why->code = err->code;
		*err = *why;
	}
}

static int flow_keep(const struct flow *flow, struct operation *op, int r,
		     struct error *err)
{
	return flow->keep ? flow->keep(op, r, err) : r;
}

static int flow_undo(const struct flow *flow, struct operation *op, int r,
		     struct error *err)
{
	struct error why = {0};
	int e;

	op->undoing = true;
	e = flow->undo(op, r, &why);
	op->undoing = false;
	if (e == 0)
		return r;
	if (e > 0)
		return flow_keep(flow, op, r, err);
	flow_undo_failed(r, err, &why);
	return flow_keep(flow, op, flow->keep ? -EHOSTUNREACH : r, err);
}

int flow_run(const struct flow *flow, struct operation *op, struct error *err)
{
	enum flow_failure failure = FLOW_LEAVE;
	unsigned runs = 0;
	int r;

	do {
		runs++;
		r = flow_run_phases(flow, op, &failure, err);
	} while (r < 0 && failure == FLOW_UNDO && flow->again &&
		 flow->again(op, r, runs));
	if (r >= 0)
		return 0;
	switch (failure) {
	case FLOW_KEEP: return flow_keep(flow, op, r, err);
	case FLOW_UNDO: return flow_undo(flow, op, r, err);
	case FLOW_LEAVE: break;
	}
	return r;
}
