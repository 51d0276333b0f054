/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread in a call that does not come back cannot end, and neither can its
 * process, whoever kills it.
 */
#ifndef UNION_TASK_BLOCKED_H
#define UNION_TASK_BLOCKED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The id of a thread of @process that waits in one call (state D, proc(5))
 * now and for @patience_ms more; 0: there is none, which is known at once when
 * none waits now.
 */
pid_t task_blocked_thread(pid_t process, int patience_ms);

/* The same of that thread alone. */
bool task_is_blocked(pid_t process, pid_t thread, int patience_ms);

#endif
