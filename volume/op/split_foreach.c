/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/parallel.h"
#include "volume/op/split.h"

#define AT_ONCE 16 /* threads; most of their time they wait for a node */

struct foreach {
	struct operation *op;
	const struct split_work *work;
	struct name_list silent; /* under op->lock, as are the next two */
	int r;                   /* of the first problem */
	struct error err;
};

static bool foreach_wants(struct foreach *foreach,
			  const struct volume_split *split)
{
	bool wanted;

	operation_lock(foreach->op);
	wanted = !split->lost &&
		 !(foreach->r < 0 && foreach->work->stop_at_first) &&
		 foreach->r != -ECANCELED &&
		 !name_list_has(&foreach->silent, split->node);
	operation_unlock(foreach->op);
	return wanted;
}

static void foreach_add_problem(struct foreach *foreach,
				const struct volume_split *split, int r,
				const struct error *err)
{
	operation_lock(foreach->op);
	/* Without memory for the list it is asked again, that is all. */
	if (r == -EHOSTUNREACH || r == -ETIMEDOUT)
		(void)name_list_add(&foreach->silent, split->node, NULL);
	if (foreach->r == 0) {
		foreach->r = r;
		foreach->err = *err;
	}
	operation_unlock(foreach->op);
}

static void foreach_run(void *batch_, size_t index)
{
	struct foreach *foreach = batch_;
	struct volume_split *split = &foreach->op->record->splits[index];
	struct error err = {0};
	int r;

	if (!foreach_wants(foreach, split))
		return;
	r = foreach->work->each(foreach->op, split, foreach->work->context,
				&err);
	if (r < 0)
		foreach_add_problem(foreach, split, r, &err);
}

int split_foreach(struct operation *op, const struct split_work *work,
		  struct name_list *silent, struct error *err)
{
	struct foreach foreach = {.op = op, .work = work};

	if (silent)
		foreach.silent = *silent;
	parallel_run(volume_record_made(op->record), AT_ONCE, foreach_run,
		     &foreach);
	if (foreach.r < 0 && err)
		*err = foreach.err;
	if (silent)
		*silent = foreach.silent;
	else
		name_list_done(&foreach.silent);
	return foreach.r;
}
