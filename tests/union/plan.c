/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/union/run.h"
#include "union/config/policy.h"

static const char *any_policy(struct dice *dice)
{
	unsigned count = 0;

	while (policy_at(count))
		count++;
	/* There are some. */
	return policy_at(count ? dice_roll(dice, count) : 0)->name;
}

/*
 * Choose modes and minima that nobody may notice: one branch takes new names.
 */
static void choose_words(struct plan *plan, struct dice *dice)
{
	static const char *const minima[] = {"0", "1K", "90M", "1T"};
	unsigned i, taker = dice_roll(dice, plan->branches);
	bool nc;

	for (i = 0; i < plan->branches; i++) {
		nc = i != taker && dice_roll(dice, 4) == 0;
		if (dice_roll(dice, 4) == 0)
			(void)snprintf(plan->words[i], sizeof(plan->words[i]),
				       "%s,%s", nc ? "nc" : "RW",
				       minima[dice_roll(dice, 4)]); /* fits */
		else if (nc || dice_roll(dice, 6) == 0)
			strcpy(plan->words[i], nc ? "NC" : "local");
	}
	plan->read_only = dice_roll(dice, 4) == 0;
}

/*
 * Tell whether a branch is near full. A file that is to leave its branch, or
 * may have to, is not passed through.
 */
static bool any_near_full(const struct plan *plan)
{
	unsigned i;

	for (i = 0; i < plan->branches; i++)
		if (strstr(plan->words[i], "1T"))
			return true;
	return false;
}

/*
 * Plan a loss. With one lane it is known which calls are done when the file
 * system goes.
 */
static void plan_loss(struct plan *plan, struct dice *dice, unsigned count,
		      unsigned file_systems)
{
	plan->lanes = 1;
	plan->lost = dice_roll(dice, plan->branches < file_systems
					     ? plan->branches
					     : file_systems);
	plan->lost_at = count / 4 + dice_roll(dice, count / 4 + 1);
	plan->back_at = count * 3 / 4;
}

/*
 * Generate a call. Root's mapped pages are written later, without a caller, as
 * root.
 */
static void generate(struct dice *dice, const struct op_limits *limits,
		     const struct place *place, struct op *ret)
{
	op_generate(dice, limits, ret);
	if (place->quotas && ret->kind == OP_MMAP && ret->actor == 0)
		ret->actor = 1;
}

void plan_make(struct plan *plan, uint64_t seed, unsigned count,
	       const char *options, const struct place *place)
{
	static const unsigned branches[] = {1, 2, 2, 3, 3, 4, 6, 8, 16};
	static const unsigned threads[] = {1, 2, 8};
	struct op_limits limits;
	struct dice dice;
	unsigned i, j;

	memset(plan, 0, sizeof(*plan));
	dice_init(&dice, seed);
	plan->seed = seed;
	plan->lane = -1;
	plan->branches = branches[dice_roll(&dice, array_size(branches))];
	if ((place->little || place->hurting) && plan->branches == 1)
		plan->branches = 2;
	plan->lanes = 1 + dice_roll(&dice, RUN_LANES_MAX);
	if (place->hurting)
		plan_loss(plan, &dice, count, place->file_systems);
	plan->count = count;
	/* Only writes through the union can go elsewhere. */
	limits.direct = dice_roll(&dice, 4) != 0 && !place->little;
	limits.named = place->little;
	(void)snprintf(plan->options, sizeof(plan->options),
		       "policy=%s,func.mkdir=%s,threads=%u,passthrough=%s%s%s",
		       any_policy(&dice), any_policy(&dice),
		       threads[dice_roll(&dice, array_size(threads))],
		       limits.direct ? "auto" : "off", *options ? "," : "",
		       options);
	if (!place->little && !place->hurting)
		choose_words(plan, &dice);
	limits.direct = limits.direct && !place->draining && !op_other_kind &&
			!any_near_full(plan);
	for (i = 0; i < plan->lanes; i++) {
		plan->ops[i] = calloc(count, sizeof(struct op));
		if (!plan->ops[i])
			abort();
		for (j = 0; j < count; j++)
			generate(&dice, &limits, place, &plan->ops[i][j]);
	}
}

void plan_done(struct plan *plan)
{
	unsigned i;

	for (i = 0; i < plan->lanes; i++)
		free(plan->ops[i]);
	free(plan->left_out);
}
