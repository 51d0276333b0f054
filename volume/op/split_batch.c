/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/parallel.h"
#include "volume/op/split.h"

#define AT_ONCE 16 /* threads; most of their time they wait for a node */

struct batch {
	struct operation *op;
	const struct split_work *work;
	struct name_list silent; /* under op->lock, as are the next two */
	int r;                   /* of the first problem */
	struct error err;
};

static bool is_wanted(struct batch *batch, const struct volume_split *split)
{
	bool wanted;

	operation_lock(batch->op);
	wanted = !(batch->r < 0 && batch->work->stop_at_first) &&
		 batch->r != -ECANCELED &&
		 !name_list_has(&batch->silent, split->node);
	operation_unlock(batch->op);
	return wanted;
}

static void batch_add_problem(struct batch *batch,
			      const struct volume_split *split, int r,
			      const struct error *err)
{
	operation_lock(batch->op);
	/* Without memory for the list it is asked again, that is all. */
	if (r == -EHOSTUNREACH || r == -ETIMEDOUT)
		(void)name_list_add(&batch->silent, split->node, NULL);
	if (batch->r == 0) {
		batch->r = r;
		batch->err = *err;
	}
	operation_unlock(batch->op);
}

static void each(void *batch_, size_t index)
{
	struct batch *batch = batch_;
	struct volume_split *split = &batch->op->record->splits[index];
	struct error err = {0};
	int r;

	if (!is_wanted(batch, split))
		return;
	r = batch->work->each(batch->op, split, batch->work->context, &err);
	if (r < 0)
		batch_add_problem(batch, split, r, &err);
}

int splits_run(struct operation *op, const struct split_work *work,
	       struct name_list *ret_silent, struct error *err)
{
	struct batch batch = {.op = op, .work = work};

	parallel_run(volume_record_made(op->record), AT_ONCE, each, &batch);
	if (batch.r < 0 && err)
		*err = batch.err;
	if (ret_silent)
		*ret_silent = batch.silent;
	else
		name_list_done(&batch.silent);
	return batch.r;
}
