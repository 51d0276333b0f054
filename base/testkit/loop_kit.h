/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the loop share: one to test, and operations that stop it. */
#ifndef BASE_LOOP_KIT_H
#define BASE_LOOP_KIT_H

#include "base/loop/loop.h"

/* Every set of features the loop can fall back to. */
#define LOOP_WITHOUT_SETS 6
extern const unsigned loop_without_sets[LOOP_WITHOUT_SETS];

/* With a queue that fills soon, and 1 MiB of buffers. */
struct loop *loop_make(unsigned without);

struct count {
	struct op op; /* its done: count_done() */
	struct loop *loop;
	int *left; /* stops the loop at 0 */
	int res;
};

void count_done(struct op *op, int res);

/*
 * Run @run in a child, which may give up rights: 0 passes, LOOP_KIT_CANNOT
 * skips the test, all else fails.
 */
#define LOOP_KIT_CANNOT 77
void loop_kit_pass_in_child(int (*run)(void));

/* Two ends of a TCP connection on this machine. */
void loop_kit_pair(int pair[2]);

#endif
