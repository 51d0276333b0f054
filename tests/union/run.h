/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence, on a union and on a plain directory. */
#ifndef TESTS_UNION_RUN_H
#define TESTS_UNION_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/union/actor.h"
#include "tests/union/tree.h"

#define RUN_LANES_MAX 3
#define RUN_SAY_MAX   20000

/* What a seed means. */
struct plan {
	uint64_t seed;
	unsigned branches, lanes, count; /* count: calls of each lane */
	char options[200];
	/* What each branch is written with ("nc,1G"); "": nothing. */
	char words[TREE_BRANCHES_MAX][16];
	bool read_only;            /* there is one more branch: empty, "ro" */
	unsigned lost;             /* the file system that is lost, and when: */
	unsigned lost_at, back_at; /* before these calls */
	struct op *ops[RUN_LANES_MAX];
	bool *left_out; /* of the calls of lane @lane: not done; NULL: none */
	int lane;       /* only this one; -1: all */
};

struct place {
	const char *dir; /* of fs0... (branches), plain, mnt */
	unsigned file_systems;
	const char *program;
	enum fault fault;
	bool verbose;
	bool draining; /* branches are emptied meanwhile */
	bool little;   /* fs1 has room, others may have little */
	bool killing;  /* the server is killed meanwhile, again and again */
	bool hurting;  /* one of the file systems is lost and comes back */
	bool erring;   /* objects answer with errors */
	bool quotas;   /* all file systems but fs1 have them; little, too */
};

/* @options  more for the union, "" for none */
void plan_make(struct plan *plan, uint64_t seed, unsigned count,
	       const char *options, const struct place *place);
void plan_done(struct plan *plan);

struct found {
	int lane, call;         /* -1: no single one */
	unsigned long killed;   /* servers */
	unsigned long moved;    /* files, by draining or for room */
	unsigned long refused;  /* EIO, as a file system was lost */
	unsigned long needless; /* of these: it might have known better */
	unsigned long done;     /* calls meanwhile that were as ever */
	unsigned long erred;    /* objects that answer with errors */
	char said[RUN_SAY_MAX]; /* what differs, for people */
};

/*
 * Make both trees anew and do the calls one by one on both, each lane in a
 * process of its own. 0: nothing differs; 1: @ret says what.
 */
int run_plan(const struct plan *plan, const struct place *place,
	     struct found *ret);

/*
 * Leave out of the lane that met @found all that the difference does not
 * need; the calls that are left.
 */
unsigned run_shrink(struct plan *plan, const struct place *place,
		    const struct found *found);

#endif
