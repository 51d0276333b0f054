/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/model_kit.h"

/* Steps of a run that is long enough to meet all that it is for. */
#define LONG_RUN 1000

static void run_seed(const struct model_seeds *seeds, struct run *run,
		     unsigned seed, unsigned steps)
{
	model_run_begin(run, seeds->kind, seed);
	for (run->step = 0; run->step < steps; run->step++) {
		if (seeds->before)
			seeds->before(run);
		model_step(run);
		if (seeds->after)
			seeds->after(run);
	}
	model_open_again(run, true);
	model_run_end(run);
}

void model_seeds_run(const struct model_seeds *seeds)
{
	const unsigned seed = model_from_environment("SEED", 1);
	const unsigned count = model_from_environment("SEEDS", 1);
	const unsigned steps = model_from_environment("STEPS", seeds->steps);
	static struct run run;

	for (unsigned i = 0; i < count; i++) {
		print_message("seed %u, %u steps: ", seed + i, steps);
		run_seed(seeds, &run, seed + i, steps);
		print_message("%u snapshots, %u reverts, %u kills, "
			      "%u times full\n",
			      run.groups, run.reverts, run.kills, run.full);
		assert_true(steps < LONG_RUN ||
			    (run.groups && run.reverts && run.kills &&
			     run.full && (!seeds->met || seeds->met(&run))));
	}
}

struct object *model_extent_make(struct run *run, bool thick)
{
	struct object *object = model_empty_slot(run);
	struct extent_record record;

	model_new_record(run, &record, EXTENT_SIZE_MIN);
	record.thick = thick;
	MUST(run, run->pool->ops->create(run->pool, &record, &run->err));
	model_object_add(run, object, &record, NULL);
	return object;
}
