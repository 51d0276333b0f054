/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls on a union and on a plain directory, which must not differ.
 *
 *	model_main [OPTION...] DIR
 *
 * DIR has mounted file systems fs0, fs1... for branches, "plain" for the
 * directory, and "mnt", where the union is mounted. --help says the rest.
 * Exit status: 0 nothing differs; 1 something does, or nothing moved that was
 * to; 2 wrong command line.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/run.h"

#define MORE_SEEDS 100 /* at most, until there is what is wanted of them */
#define SHRUNK_MAX 40  /* calls that somebody reads */

static const char usage[] =
	"model_main [OPTION...] DIR\n"
	"  --seed N      first seed (1)\n"
	"  --seeds N     how many (1)\n"
	"  --count N     calls of each process (400)\n"
	"  --options O   more options for the union\n"
	"  --program P   trib-union\n"
	"  --fault NAME  a mistake on purpose, which must be found\n"
	"  --shrink      say which few calls of a failing seed fail, too\n"
	"  --killing     the server is killed meanwhile, again and again\n"
	"  --draining    branches are emptied meanwhile\n"
	"  --little      fs1 has room for all, the others need not\n"
	"  --hurting     a file system is lost meanwhile and comes back; fsN is\n"
	"                mounted by a loop from fsN.img\n"
	"  --erring      objects answer with errors: damaged inodes, and what may\n"
	"                not be changed; fsN is an ext4, mounted as above\n"
	"  --quotas      as --little, by quotas; all are mounted with\n"
	"                usrquota,grpquota,prjquota\n"
	"  --other-kind  the file systems are not ext4\n"
	"  --verbose     print every call\n";

struct settings {
	uint64_t seed;
	unsigned seeds, count;
	const char *options;
	unsigned long killed;
	unsigned long moved; /* files, by draining or for room, so far */
	unsigned long done, refused,
		needless;    /* while a file system was lost */
	unsigned long erred; /* objects that did */
	bool shrink;
	struct place place;
};

static enum fault fault_of(const char *name)
{
	unsigned i;

	for (i = 0; i < FAULTS; i++)
		if (strcmp(name, fault_name((enum fault)i)) == 0)
			return (enum fault)i;
	(void)fprintf(stderr, "no fault '%s'\n", name);
	exit(2);
}

static unsigned count_file_systems(const char *dir)
{
	char path[4096];
	struct stat st;
	unsigned n = 0;

	do
		(void)snprintf(path, sizeof(path), "%s/fs%u", dir, n++);
	while (stat(path, &st) == 0);
	return n - 1;
}

static void parse(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{"seed", 1, NULL, 's'},
		{"seeds", 1, NULL, 'n'},
		{"count", 1, NULL, 'c'},
		{"options", 1, NULL, 'o'},
		{"program", 1, NULL, 'p'},
		{"fault", 1, NULL, 'f'},
		{"shrink", 0, NULL, 'k'},
		{"verbose", 0, NULL, 'v'},
		{"killing", 0, NULL, 'K'},
		{"draining", 0, NULL, 'd'},
		{"little", 0, NULL, 'l'},
		{"hurting", 0, NULL, 'u'},
		{"erring", 0, NULL, 'e'},
		{"quotas", 0, NULL, 'q'},
		{"other-kind", 0, NULL, 'm'},
		{"help", 0, NULL, 'h'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': s->seed = strtoull(optarg, NULL, 10); break;
		case 'n': s->seeds = (unsigned)atoi(optarg); break;
		case 'c': s->count = (unsigned)atoi(optarg); break;
		case 'o': s->options = optarg; break;
		case 'p': s->place.program = optarg; break;
		case 'f': s->place.fault = fault_of(optarg); break;
		case 'k': s->shrink = true; break;
		case 'K': s->place.killing = true; break;
		case 'd': s->place.draining = true; break;
		case 'l': s->place.little = true; break;
		case 'u': s->place.hurting = true; break;
		case 'e': s->place.erring = true; break;
		case 'q': s->place.quotas = s->place.little = true; break;
		case 'm': op_other_kind = true; break;
		case 'v': s->place.verbose = true; break;
		case 'h': (void)fputs(usage, stdout); exit(0);
		default: (void)fputs(usage, stderr); exit(2);
		}
	}
	if (optind != argc - 1) {
		(void)fputs(usage, stderr);
		exit(2);
	}
	s->place.dir = argv[optind];
	s->place.file_systems = count_file_systems(s->place.dir);
	if (!s->place.file_systems) {
		(void)fprintf(stderr, "'%s' has no fs0\n", s->place.dir);
		exit(2);
	}
}

/*
 * Say what few calls of @plan differ, too; the rest is enough to find a fault
 * by. A difference that needs the other lanes, or a moment, is not met again.
 */
static void say_shrunk(struct plan *plan, struct place *place,
		       const struct found *found)
{
	char call[3 * OP_PATH_MAX];
	static struct found again;
	unsigned i, left = run_shrink(plan, place, found);

	if (left > SHRUNK_MAX) {
		printf("no few calls differ, too: %u are left\n", left);
		return;
	}
	printf("%u calls are enough:\n", left);
	for (i = 0; i < plan->count; i++) {
		if (plan->left_out[i])
			continue;
		op_describe(&plan->ops[plan->lane][i], call, sizeof(call));
		printf("  %u: %s\n", i, call);
	}
	place->verbose = true;
	if (run_plan(plan, place, &again))
		(void)fputs(again.said, stdout);
	place->verbose = false;
}

static int run_seed(struct settings *s, uint64_t seed)
{
	static struct found found;
	struct plan plan;
	int r;

	plan_make(&plan, seed, s->count, s->options, &s->place);
	r = run_plan(&plan, &s->place, &found);
	s->moved += found.moved;
	s->killed += found.killed;
	s->done += found.done;
	s->erred += found.erred;
	s->refused += found.refused;
	s->needless += found.needless;
	if (r && s->shrink)
		say_shrunk(&plan, &s->place, &found);
	if (r)
		printf("seed %llu: %u branches, %u processes, %s\n%s",
		       (unsigned long long)seed, plan.branches, plan.lanes,
		       plan.options, found.said);
	(void)fflush(stdout);
	plan_done(&plan);
	return r;
}

/*
 * Tell whether something that was to happen has not. A seed may be over before,
 * and the machine decides how soon. No other seed follows one that is asked for
 * alone.
 */
static bool is_lacking(const struct settings *s)
{
	if (s->seeds == 1)
		return false;
	return ((s->place.draining || s->place.little) && !s->moved) ||
	       (s->place.killing && !s->killed) ||
	       (s->place.erring && !s->erred) ||
	       (s->place.hurting && (!s->done || !s->refused));
}

int main(int argc, char **argv)
{
	struct settings s = {.seed = 1,
			     .seeds = 1,
			     .count = 400,
			     .options = "",
			     .place = {.program = "trib-union"}};
	unsigned i, bad = 0;

	parse(argc, argv, &s);
	for (i = 0; i < s.seeds ||
		    (!bad && is_lacking(&s) && i < s.seeds + MORE_SEEDS);
	     i++)
		bad += run_seed(&s, s.seed + i) != 0;
	printf("%u seeds from %llu: %u differ\n", i, (unsigned long long)s.seed,
	       bad);
	if (s.place.draining || s.place.little)
		printf("%lu files moved\n", s.moved);
	if (s.place.erring)
		printf("%lu objects answered with errors\n", s.erred);
	if (s.place.killing)
		printf("%lu servers killed\n", s.killed);
	if (s.place.hurting)
		printf("%lu calls done and %lu refused, %lu of them "
		       "needlessly, while it was lost\n",
		       s.done, s.refused, s.needless);
	return bad || is_lacking(&s);
}
