/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the branches of before answer at all, before the main thread of a
 * server that goes on opens them: one that does not must not hold up the rest.
 */
#ifndef UNION_BRANCH_PROBE_H
#define UNION_BRANCH_PROBE_H

#include <stdbool.h>

#include "union/state/state.h"

#define BRANCH_PROBE_MS 1000 /* for all of them */

/*
 * Each of the branches in @state that is set in @wanted is opened by its path,
 * by a thread of its own, and asked. Returns when all have come back, or after
 * @patience_ms and one of them waits in the kernel. @ret_answers: BRANCH_MAX of
 * each; true, too, for one that says an error, or for want of a thread. Once a
 * process, by the main thread.
 */
void branch_probe(struct state *state, const bool *wanted, int patience_ms,
		  bool *ret_answers);

/* Is a thread of it still in a call? Then @state is in use. */
bool branch_probe_is_busy(void);

#endif
