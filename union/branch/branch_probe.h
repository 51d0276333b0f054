/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Try whether the branches answer at all, before the main thread of a server
 * that goes on opens them. A branch that does not answer must not hold up the
 * rest.
 */
#ifndef UNION_BRANCH_PROBE_H
#define UNION_BRANCH_PROBE_H

#include <stdbool.h>

#include "union/state/state.h"

#define BRANCH_PROBE_MS 1000 /* for all of them */

/*
 * Open each branch of @state that is set in @wanted by its path, and ask it, in
 * a thread of its own. Returns when all have come back, or when @patience_ms
 * are over and one of them waits in the kernel. Once a process, by the main
 * thread.
 *
 * @ret_answers  BRANCH_MAX; true also after an error, or for want of a thread
 */
void branch_probe(struct state *state, const bool *wanted, int patience_ms,
		  bool *ret_answers);

/* Is a thread of the probe still in a call? Then @state is in use. */
bool branch_probe_is_busy(void);

#endif
