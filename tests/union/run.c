/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/mounting.h"

/* What lanes tell, in memory that all share. */
struct told {
	int calls[RUN_LANES_MAX];
	char said[RUN_LANES_MAX][RUN_SAY_MAX];
};

struct running {
	const struct plan *plan;
	const struct place *place;
	char *branches[TREE_BRANCHES_MAX];
	char plain[PATH_MAX], mnt[PATH_MAX];
	struct mounting mounting;
	struct told *told;
};

void plan_make(struct plan *plan, uint64_t seed, unsigned count,
	       const char *options)
{
	static const unsigned branches[] = {1, 2, 2, 3, 3, 4, 6, 8, 16};
	static const char *const policies[] = {"mfs", "ff", "epmfs", "local"};
	static const unsigned threads[] = {1, 2, 8};
	struct op_limits limits;
	struct dice dice;
	unsigned i, j;

	memset(plan, 0, sizeof(*plan));
	dice_init(&dice, seed);
	plan->seed = seed;
	plan->lane = -1;
	plan->branches = branches[dice_roll(&dice, array_size(branches))];
	plan->lanes = 1 + dice_roll(&dice, RUN_LANES_MAX);
	plan->count = count;
	limits.direct = dice_roll(&dice, 4) != 0;
	(void)snprintf(plan->options, sizeof(plan->options),
		       "policy=%s,threads=%u,passthrough=%s%s%s",
		       policies[dice_roll(&dice, array_size(policies))],
		       threads[dice_roll(&dice, array_size(threads))],
		       limits.direct ? "auto" : "off", *options ? "," : "",
		       options);
	for (i = 0; i < plan->lanes; i++) {
		plan->ops[i] = calloc(count, sizeof(struct op));
		if (!plan->ops[i])
			abort();
		for (j = 0; j < count; j++)
			op_generate(&dice, &limits, &plan->ops[i][j]);
	}
}

void plan_done(struct plan *plan)
{
	unsigned i;

	for (i = 0; i < plan->lanes; i++)
		free(plan->ops[i]);
	free(plan->left_out);
}

static void lane_root(const char *tree, unsigned lane, char *ret)
{
	int n = lane ? snprintf(ret, PATH_MAX, "%s/lane%u", tree, lane)
		     : snprintf(ret, PATH_MAX, "%s", tree);

	if (n >= PATH_MAX)
		abort();
}

static void say_call(char *said, unsigned lane, unsigned i, const struct op *op,
		     const char *plain, const char *mine)
{
	char call[3 * OP_PATH_MAX];

	op_describe(op, call, sizeof(call));
	(void)snprintf(said, RUN_SAY_MAX,
		       "lane %u call %u: %s\nplain:%.6000s\nunion:%.6000s\n",
		       lane, i, call, plain, mine);
}

/* 0, or 1 when they differ. */
static int do_both(const struct running *run, unsigned lane, unsigned i,
		   const struct actor *plain, const struct actor *mine)
{
	static char texts[2][OP_TEXT_MAX];
	const struct op *op = &run->plan->ops[lane][i];
	int r[2];

	r[0] = actor_do(&plain[op->actor], op, texts[0]);
	r[1] = actor_do(&mine[op->actor], op, texts[1]);
	if (run->place->verbose) {
		char call[3 * OP_PATH_MAX];

		op_describe(op, call, sizeof(call));
		printf("%u:%u: %s ->%s\n", lane, i, call, texts[0]);
	}
	if (r[0] == 0 && r[1] == 0 && strcmp(texts[0], texts[1]) == 0)
		return 0;
	say_call(run->told->said[lane], lane, i, op,
		 r[0] < 0 ? strerrorname_np(-r[0]) : texts[0],
		 r[1] < 0 ? strerrorname_np(-r[1]) : texts[1]);
	run->told->calls[lane] = (int)i;
	return 1;
}

static int run_lane(const struct running *run, unsigned lane)
{
	struct actor plain[OP_ACTORS], mine[OP_ACTORS];
	char plain_root[PATH_MAX], my_root[PATH_MAX];
	const bool *left_out = run->plan->left_out;
	unsigned i;
	int r = 0;

	lane_root(run->plain, lane, plain_root);
	lane_root(run->mnt, lane, my_root);
	for (i = 0; i < OP_ACTORS; i++) {
		actor_start(&plain[i], i, plain_root, FAULT_NONE);
		actor_start(&mine[i], i, my_root, run->place->fault);
	}
	for (i = 0; i < run->plan->count && r == 0; i++)
		if (!left_out || !left_out[i])
			r = do_both(run, lane, i, plain, mine);
	for (i = 0; i < OP_ACTORS; i++) {
		actor_stop(&plain[i]);
		actor_stop(&mine[i]);
	}
	return r;
}

/* All lanes at once; 1 when any met a difference. */
static int run_lanes(const struct running *run, struct found *ret)
{
	pid_t pids[RUN_LANES_MAX];
	unsigned i;
	int status, r = 0;

	(void)fflush(NULL); /* a child must not print it again */
	for (i = 0; i < run->plan->lanes; i++) {
		run->told->calls[i] = -1;
		pids[i] = -1;
		if (run->plan->lane >= 0 && run->plan->lane != (int)i)
			continue;
		pids[i] = fork();
		if (pids[i] == 0) {
			status = run_lane(run, i);
			(void)fflush(NULL);
			_exit(status);
		}
	}
	for (i = 0; i < run->plan->lanes; i++) {
		if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 ||
		    status == 0 || r)
			continue;
		r = 1;
		(void)snprintf(ret->said, RUN_SAY_MAX, "%s",
			       WIFEXITED(status) ? run->told->said[i]
						 : "a lane died");
		ret->lane = (int)i;
		ret->call = run->told->calls[i];
	}
	return r;
}

static int compare_trees(const char *plain, const char *mine, const char *when,
			 char *said)
{
	auto_free char *a = tree_describe(plain, false);
	auto_free char *b = tree_describe(mine, false);
	char difference[RUN_SAY_MAX / 2];

	if (strcmp(a, b) == 0)
		return 0;
	tree_difference(a, b, difference, sizeof(difference));
	(void)snprintf(said, RUN_SAY_MAX, "%s:\n%s\n", when, difference);
	return 1;
}

static int say_broken(char *said, const char *what, int r)
{
	(void)snprintf(said, RUN_SAY_MAX, "%s: %s\n", what,
		       r < 0 ? strerror(-r) : "it failed");
	return 1;
}

/* Mounted again it is the same tree, with the same inode numbers. */
static int check_after(struct running *run, char *said)
{
	auto_free char *before = tree_describe(run->mnt, true);
	auto_free char *after = NULL;
	int r = compare_trees(run->plain, run->mnt, "in the end", said);

	if (mounting_stop(&run->mounting) != 0)
		return say_broken(said, "the server's end", 0);
	if (r)
		return r;
	r = mounting_start(&run->mounting, run->plan->options, run->branches,
			   run->plan->branches);
	if (r < 0)
		return say_broken(said, "mount again", r);
	after = tree_describe(run->mnt, true);
	r = compare_trees(run->plain, run->mnt, "mounted again", said);
	if (r == 0 && strcmp(before, after) != 0) {
		tree_difference(before, after, said, RUN_SAY_MAX);
		r = 1;
	}
	if (mounting_stop(&run->mounting) != 0)
		return say_broken(said, "the server's second end", 0);
	return r;
}

static void prepare(struct running *run)
{
	const struct place *place = run->place;
	char path[PATH_MAX];
	unsigned i;

	(void)snprintf(run->plain, PATH_MAX, "%s/plain/tree", place->dir);
	(void)snprintf(run->mnt, PATH_MAX, "%s/mnt", place->dir);
	run->mounting.program = place->program;
	run->mounting.point = run->mnt;
	if (mkdir(run->plain, 0755) < 0 && errno != EEXIST)
		abort();
	if (tree_clear(run->plain) < 0)
		abort();
	for (i = 0; i < run->plan->branches; i++) {
		(void)snprintf(path, PATH_MAX, "%s/fs%u/b%u", place->dir,
			       i % place->file_systems, i);
		run->branches[i] = strdup(path);
		if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
		    tree_clear(path) < 0)
			abort();
	}
}

/* What a call left behind on the directory itself. */
static void reset_root(const char *path)
{
	(void)rmdir(path);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		abort();
}

int run_plan(const struct plan *plan, const struct place *place,
	     struct found *ret)
{
	char *said = ret->said;
	struct running run = {.plan = plan, .place = place};
	unsigned i;
	int r;

	ret->lane = ret->call = -1;
	run.told = mmap(NULL, sizeof(*run.told), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.told == MAP_FAILED)
		abort();
	prepare(&run);
	reset_root(run.plain);
	for (i = 0; i < plan->branches; i++)
		reset_root(run.branches[i]);
	r = tree_populate(plan->seed, run.branches, plan->branches,
			  RUN_LANES_MAX, run.plain);
	if (r == 0)
		r = mounting_start(&run.mounting, plan->options, run.branches,
				   plan->branches);
	if (r < 0) {
		r = say_broken(said, "mount", r);
	} else {
		r = compare_trees(run.plain, run.mnt, "at the start", said);
		if (r == 0)
			r = run_lanes(&run, ret);
		if (r == 0)
			r = check_after(&run, said);
		else if (mounting_stop(&run.mounting) < 0)
			(void)fprintf(stderr, "the server does not end\n");
	}
	for (i = 0; i < plan->branches; i++)
		free(run.branches[i]);
	(void)munmap(run.told, sizeof(*run.told)); /* it is one */
	return r;
}

/* Is there a difference also without calls [at, end)? Then they stay out. */
static void try_without(struct plan *plan, const struct place *place,
			unsigned at, unsigned end)
{
	static struct found found;
	bool *before = calloc(plan->count, sizeof(bool));
	unsigned i, changed = 0;

	if (!before)
		abort();
	memcpy(before, plan->left_out, plan->count * sizeof(bool));
	for (i = at; i < end && i < plan->count; i++) {
		changed += !plan->left_out[i];
		plan->left_out[i] = true;
	}
	if (changed && !run_plan(plan, place, &found))
		memcpy(plan->left_out, before, plan->count * sizeof(bool));
	free(before);
}

unsigned run_shrink(struct plan *plan, const struct place *place,
		    const struct found *found)
{
	unsigned i, at, piece, left = 0;

	plan->left_out = calloc(plan->count, sizeof(bool));
	if (!plan->left_out)
		abort();
	plan->lane = found->lane < 0 ? 0 : found->lane;
	if (found->call >= 0)
		try_without(plan, place, (unsigned)found->call + 1,
			    plan->count);
	for (piece = plan->count / 2; piece; piece /= 2)
		for (at = 0; at < plan->count; at += piece)
			try_without(plan, place, at, at + piece);
	for (i = 0; i < plan->count; i++)
		left += !plan->left_out[i];
	return left;
}
